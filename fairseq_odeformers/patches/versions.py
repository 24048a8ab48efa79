"""Makes fairseq work with today's torch, torch_xla and numpy, and on a CPU.

The only file that knows their versions. fairseq 0.12.2 is the release for Python up to 3.10.

=================================  =================================================================
change                             why; whose issue; until when
=================================  =================================================================
safe globals of torch              torch >= 2.6 unpickles only types that it trusts. A checkpoint of
                                   fairseq has ``argparse.Namespace``; after validation with
                                   ``--eval-bleu`` or a correlation, numbers and arrays of numpy, by
                                   their names in numpy 1 or 2; and a checkpoint of the Macaron
                                   Net's authors, the meters of fairseq 0.6. fairseq #5603, #5610;
                                   until fairseq adds them.
``numpy.compat`` and               fairseq's data sets of text use ``numpy.compat.long``, and
``get_buckets``                    ``--num-batch-buckets`` uses ``percentile(interpolation=)``.
                                   numpy 2 lacks the first, numpy 2.4 the second. Until fairseq
                                   writes ``int`` and ``method=``.
``infer_init_method``              With torchrun fairseq divides by the number of GPUs, which may be
                                   0, and trains alone unless ``--distributed-world-size`` is given.
                                   fairseq #2879; until fairseq trains on several CPUs.
``DistributedDataParallel``        It takes no devices for a model on the CPU, and fairseq gives it
                                   one. fairseq #2879; until the same.
``FP16Optimizer``                  It keeps the gradients of ``--fp16`` in one tensor of a GPU; on
                                   a CPU ``--fp16-no-flatten-grads`` is set. Until fairseq asks
                                   where the parameters are.
``_broadcast_object_slow``         The other processes of a training that resumes unpickle, with the
                                   safe loader, a configuration that the first one sends. Until
                                   fairseq sends plain dictionaries.
``replace_unk``                    ``--replace-unk`` expects a number where ``--print-alignment``
                                   makes a pair. fairseq #3533; until it is closed.
``tpu_data_loader``                fairseq's TPU mode asks how many batches are behind it after
                                   torch_xla has begun to read ahead, and loses these. Until
                                   fairseq asks before.
``xrt_world_size``,                torch_xla 2.7 has dropped the first two, and ``get_memory_info``
``get_ordinal`` and                has other keys today. xla #7654, #7655; until fairseq calls
``get_memory_info`` of torch_xla   ``torch_xla.runtime``.
``SinusoidalPositionalEmbedding``  fairseq 0.12.2 saves a number with it that later versions do not
                                   have. fairseq #5213, merged; until Python 3.10 goes.
=================================  =================================================================
"""

import argparse
import os
import types

import fairseq
import numpy as np
import torch
from fairseq import utils
from fairseq.data import bucket_pad_length_dataset
from fairseq.distributed import utils as distributed_utils
from fairseq.logging import meters
from fairseq.models import distributed_fairseq_model
from fairseq.modules import SinusoidalPositionalEmbedding
from fairseq.optim.fp16_optimizer import FP16Optimizer

from fairseq_odeformers.patches.patch import patch

try:
    import torch_xla.core.xla_model as xm
    from torch_xla import runtime
except ImportError:
    xm = None

LAUNCHED = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}  # what torchrun sets


def trusted_types() -> list:
    """The types and functions in a checkpoint of fairseq, some with the name that it has for them.

    numpy's two functions make an array and a number.
    """
    functions = [np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]]
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    old_meters = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
    return [
        argparse.Namespace,
        *(np.ndarray, np.dtype, type(np.dtype(int)), type(np.dtype(float))),
        *((f, f"{module}.{f.__name__}") for f in functions for module in modules),
        *((meter, f"fairseq.meters.{meter.__name__}") for meter in old_meters),
    ]


@patch(bucket_pad_length_dataset)
def get_buckets(_, sizes, num_buckets):
    """fairseq's function, with numpy's present name of the argument."""
    shares = np.linspace(0, 100, num_buckets + 1)
    return np.unique(np.percentile(sizes, shares, method="lower")[1:])


@patch(distributed_utils)
def infer_init_method(original, cfg, force_distributed=False):
    """fairseq's function; processes of torchrun are one training, with or without GPUs."""
    set_otherwise = cfg.tpu or cfg.pipeline_model_parallel or cfg.distributed_init_method
    if set_otherwise or not LAUNCHED <= os.environ.keys():
        return original(cfg, force_distributed)
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True
    if cfg.device_id > 0:
        torch.cuda.set_device(cfg.device_id)


@patch(distributed_fairseq_model)
def DistributedDataParallel(original, module, device_ids, output_device, **kwargs):
    """torch's class, as fairseq calls it for a model on a GPU."""
    if next(module.parameters()).is_cpu:
        device_ids = output_device = None
    return original(module, device_ids, output_device, **kwargs)


@patch(FP16Optimizer)
def build_optimizer(original, cfg, params, **kwargs):
    """fairseq's method; parameters on a CPU stay apart."""
    cfg.common.fp16_no_flatten_grads |= params[0].is_cpu
    return original(cfg, params, **kwargs)


@patch(distributed_utils)
def _broadcast_object_slow(_, obj, src_rank, group, dist_device):
    """fairseq's function; the processes of a training trust each other.

    The one that has read the checkpoint has used the safe loader.
    """
    held = [obj]
    torch.distributed.broadcast_object_list(held, src_rank, group, dist_device)
    return held[0]


@patch(utils)
def replace_unk(original, hypo_str, src_str, alignment, align_dict, unk):
    """fairseq's function, for an alignment as ``--print-alignment hard`` makes it."""
    words = [word[0] if isinstance(word, tuple) else word for word in alignment]
    return original(hypo_str, src_str, words, align_dict, unk)


@patch(utils, when=xm is not None)
def tpu_data_loader(original, itr):
    """fairseq's function, with the count of batches before its thread reads ahead."""
    count = getattr(itr, "n", 0)
    loader = original(itr)
    loader.n = count
    return loader


@patch(xm, when=xm is not None)
def get_memory_info(original, device=None):
    """torch_xla's function, with its earlier keys; a CPU has the memory of the host."""
    info = host_memory() if runtime.device_type() == "CPU" else original(device)
    free = info["bytes_limit"] - info["bytes_used"]
    return {**info, "kb_free": free // 1024, "kb_total": info["bytes_limit"] // 1024}


def host_memory() -> dict[str, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    limit = page * os.sysconf("SC_PHYS_PAGES")
    return {"bytes_limit": limit, "bytes_used": limit - page * os.sysconf("SC_AVPHYS_PAGES")}


@patch(SinusoidalPositionalEmbedding, when=fairseq.__version__ == "0.12.2")
def __init__(original, self, *args, **kwargs):
    """fairseq's method; the number ``_float_tensor`` is neither saved nor loaded."""
    original(self, *args, **kwargs)
    self.register_buffer("_float_tensor", torch.zeros(1), persistent=False)
    self._register_load_state_dict_pre_hook(
        lambda state, prefix, *_: state.pop(f"{prefix}_float_tensor", None)
    )


if hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint"):  # torch >= 2.6
    torch.serialization.add_safe_globals(trusted_types())
if not hasattr(np, "compat"):
    np.compat = types.SimpleNamespace(long=int)
if xm is not None and not hasattr(xm, "xrt_world_size"):
    xm.xrt_world_size = runtime.world_size
if xm is not None and not hasattr(xm, "get_ordinal"):
    xm.get_ordinal = runtime.global_ordinal
