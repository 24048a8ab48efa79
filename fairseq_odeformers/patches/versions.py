"""Makes fairseq work with today's releases of torch, torch_xla and numpy, and as its latest does.

The only place that knows about versions of torch, torch_xla, numpy and fairseq, and that mends
functions of fairseq; importing it is enough.

* torch >= 2.6 unpickles only the types that it trusts. A fairseq checkpoint needs
  :class:`argparse.Namespace`; after validation with ``--eval-bleu`` or a correlation numpy's arrays
  of numbers and its numbers, by the names that numpy 1 and numpy 2 pickle them under; and, of
  fairseq 0.6, its meters under the name that they had.
* numpy >= 2.4 has no ``percentile(interpolation=)``, by which fairseq divides lengths into buckets,
  and no ``compat.long``, a name of Python's ``int`` that its data sets of text know it by.
* fairseq's TPU mode calls functions that torch_xla has dropped (``xrt_world_size``,
  ``get_ordinal``) or changed (``get_memory_info``), and asks how many batches are behind it when
  torch_xla is already reading ahead, so that it takes those for done.
* torchrun starts processes without GPUs, too, which fairseq cannot count; and
  DistributedDataParallel takes no devices for a model on the CPU. The processes of a training that
  resumes cannot unpickle the checkpoint that the first of them sends.
* fairseq 0.12.2 refuses a checkpoint whose task has options that it does not know, which later
  versions leave out; and it saves with sinusoidal positions a number that is never set nor read,
  which they do not have.
* ``--replace-unk`` asks for one word of the source for each of the target, where alignments have a
  pair of both.
"""

import argparse
import dataclasses
import functools
import inspect
import os
import types

import numpy as np
import torch
from fairseq import checkpoint_utils, tasks, utils
from fairseq.data import (
    bucket_pad_length_dataset,
    data_utils,
    language_pair_dataset,
    token_block_dataset,
)
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from fairseq.models import distributed_fairseq_model
from fairseq.modules import SinusoidalPositionalEmbedding
from omegaconf import open_dict

try:
    import torch_xla.core.xla_model as xm
    from torch_xla import runtime
except ImportError:
    xm = None

LAUNCHED = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}  # what torchrun sets
METERS = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)


def _old_name(meter):
    """What fairseq 0.6 calls the class; unpickles to an instance of the class itself."""
    members = {"__module__": "fairseq.meters", "__new__": lambda _: object.__new__(meter)}
    return type(meter.__name__, (meter,), members)


def _numpy_functions():
    """What unpickles numpy's arrays and numbers, under the names of numpy 1 and of numpy 2."""
    functions = [np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]]
    if not hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint"):
        return functions  # torch < 2.6 takes no names, and trusts every type unless told otherwise
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    return [(f, f"{module}.{f.__name__}") for f in functions for module in modules]


def _host_memory():
    page = os.sysconf("SC_PAGE_SIZE")
    limit = page * os.sysconf("SC_PHYS_PAGES")
    return {"bytes_limit": limit, "bytes_used": limit - page * os.sysconf("SC_AVPHYS_PAGES")}


def _restore_xla_names():
    if not hasattr(xm, "xrt_world_size"):
        xm.xrt_world_size = runtime.world_size
    if not hasattr(xm, "get_ordinal"):
        xm.get_ordinal = runtime.global_ordinal

    device_memory = xm.get_memory_info

    def get_memory_info(device=None):
        # The CPU client does not report its memory, which is the host's.
        info = _host_memory() if runtime.device_type() == "CPU" else device_memory(device)
        free = info["bytes_limit"] - info["bytes_used"]
        return {**info, "kb_free": free // 1024, "kb_total": info["bytes_limit"] // 1024}

    xm.get_memory_info = get_memory_info


def _counting_before_reading(load):
    @functools.wraps(load)
    def tpu_data_loader(itr):
        """fairseq's function, with the count of batches before its thread reads ahead."""
        count = getattr(itr, "n", 0)
        loader = load(itr)
        loader.n = count
        return loader

    return tpu_data_loader


def _taking_pairs(replace):
    @functools.wraps(replace)
    def replace_unk(hypo_str, src_str, alignment, align_dict, unk):
        """fairseq's function, of an alignment as ``--print-alignment hard`` has it."""
        words = [word[0] if isinstance(word, tuple) else word for word in alignment]
        return replace(hypo_str, src_str, words, align_dict, unk)

    return replace_unk


def _leaving_out_unknown_options(load):
    @functools.wraps(load)
    def load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False):
        """fairseq's function, without what the dataclass of the task has not."""
        state = load(path, arg_overrides, load_on_all_ranks)
        task = getattr(state.get("cfg"), "task", None)
        dataclass = tasks.TASK_DATACLASS_REGISTRY.get(getattr(task, "_name", None))
        if dataclass is not None:
            known = {field.name for field in dataclasses.fields(dataclass)}
            with open_dict(task):
                for name in task.keys() - known:
                    del task[name]
        return state

    return load_checkpoint_to_cpu


def _without_number(init):
    @functools.wraps(init)
    def __init__(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.register_buffer("_float_tensor", torch.zeros(1), persistent=False)

    return __init__


def _load_without_number(self, state_dict, prefix, *args, **kwargs):
    state_dict.pop(f"{prefix}_float_tensor", None)
    torch.nn.Module._load_from_state_dict(self, state_dict, prefix, *args, **kwargs)


def get_buckets(sizes, num_buckets):
    """fairseq's function, by numpy's present name of the argument."""
    shares = np.linspace(0, 100, num_buckets + 1)
    return np.unique(np.percentile(sizes, shares, method="lower")[1:])


def _joining_what_torchrun_started(infer):
    @functools.wraps(infer)
    def infer_init_method(cfg, force_distributed=False):
        """fairseq's function; the processes of torchrun are one training, whatever they run on."""
        if not cfg.tpu and cfg.distributed_init_method is None and LAUNCHED <= os.environ.keys():
            cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
        infer(cfg, force_distributed)

    return infer_init_method


def _infer_torch_distributed_launch_init(cfg):
    """fairseq's function, which divides by the number of GPUs."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True


def _broadcast_object_slow(obj, src_rank, group, dist_device):
    """fairseq's function, which unpickles a checkpoint's configuration with the safe loader.

    What the other processes of a training send is trusted; one of them has loaded it safely.
    """
    held = [obj]
    torch.distributed.broadcast_object_list(held, src_rank, group, dist_device)
    return held[0]


class DistributedDataParallel(torch.nn.parallel.DistributedDataParallel):
    """torch's class, called as fairseq calls it for a GPU."""

    def __init__(self, module, device_ids=None, output_device=None, **kwargs):
        if next(module.parameters()).is_cpu:
            device_ids = output_device = None
        super().__init__(module, device_ids, output_device, **kwargs)


distributed_utils.infer_init_method = _joining_what_torchrun_started(
    distributed_utils.infer_init_method
)
distributed_utils._infer_torch_distributed_launch_init = _infer_torch_distributed_launch_init
distributed_utils._broadcast_object_slow = _broadcast_object_slow
distributed_fairseq_model.DistributedDataParallel = DistributedDataParallel
for module in (data_utils, bucket_pad_length_dataset):
    module.get_buckets = get_buckets
numpy_for_fairseq = types.ModuleType(np.__name__)
vars(numpy_for_fairseq).update(vars(np), compat=types.SimpleNamespace(long=int))
for module in (language_pair_dataset, token_block_dataset):
    module.np = numpy_for_fairseq
if hasattr(torch.serialization, "add_safe_globals"):  # torch < 2.4 trusts every type
    torch.serialization.add_safe_globals(
        [
            argparse.Namespace,
            *_numpy_functions(),
            np.ndarray,
            np.dtype,
            *(type(np.dtype(number)) for number in (int, float)),
            *METERS,
            *map(_old_name, METERS),
        ]
    )
if "from_checkpoint" not in inspect.signature(tasks.setup_task).parameters:  # fairseq 0.12.2
    checkpoint_utils.load_checkpoint_to_cpu = _leaving_out_unknown_options(
        checkpoint_utils.load_checkpoint_to_cpu
    )
    SinusoidalPositionalEmbedding.__init__ = _without_number(SinusoidalPositionalEmbedding.__init__)
    SinusoidalPositionalEmbedding._load_from_state_dict = _load_without_number
utils.replace_unk = _taking_pairs(utils.replace_unk)
utils.tpu_data_loader = _counting_before_reading(utils.tpu_data_loader)
if xm is not None:
    _restore_xla_names()
