"""Makes fairseq work with today's torch, torch_xla, numpy and Hydra, and on a CPU.

The only file that knows their versions. fairseq 0.12.2 is the release for Python up to 3.10.
"""

import argparse
import os
import types
import warnings
from typing import Any

import numpy as np
import torch
from fairseq.logging import meters
from hydra.core.config_store import ConfigStore

from .guest import trains_ours

try:
    import torch_xla.core.xla_model as xm  # pyright: ignore[reportMissingImports]
except ImportError:
    xm = None

LAUNCHED = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}  # what torchrun sets


def add_safe_globals() -> None:
    """Have torch >= 2.6 unpickle what a checkpoint of fairseq has in it."""
    if hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint"):
        torch.serialization.add_safe_globals(trusted_types())


def trusted_types() -> list:
    """The types and functions in a checkpoint of fairseq, some with the name that it has for them.

    numpy's two functions make an array and a number.
    """
    functions: list[Any] = [np.zeros(1).__reduce__()[0], np.float64(0).__reduce__()[0]]
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    old_meters = (meters.AverageMeter, meters.TimeMeter, meters.StopwatchMeter)
    return [
        argparse.Namespace,
        *(np.ndarray, np.dtype, type(np.dtype(int)), type(np.dtype(float))),
        *((f, f"{module}.{f.__name__}") for f in functions for module in modules),
        *((meter, f"fairseq.meters.{meter.__name__}") for meter in old_meters),
    ]


def add_numpy_compat() -> None:
    """Give numpy >= 2 its former ``compat.long``."""
    if not hasattr(np, "compat"):
        np.__dict__["compat"] = types.SimpleNamespace(long=int)


def get_buckets(_, sizes, num_buckets):
    """fairseq's function, with numpy's present name of the argument."""
    shares = np.linspace(0, 100, num_buckets + 1)
    return np.unique(np.percentile(sizes, shares, method="lower")[1:])


def share_config_store() -> None:
    """Have Hydra's copies of its sources share the one store of options, which it never changes."""
    ConfigStore.__deepcopy__ = lambda self, memo: self  # pyright: ignore[reportAttributeAccessIssue]


def call_main(original, cfg, main, **kwargs):
    """fairseq's function; processes of torchrun are one training, if the model is ours."""
    if LAUNCHED <= os.environ.keys() and trains_ours(cfg):
        cfg.distributed_training.distributed_world_size = int(os.environ["WORLD_SIZE"])
    return original(cfg, main, **kwargs)


def infer_torch_distributed_launch_init(_, cfg):
    """fairseq's function, also for processes without a GPU."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True


def DistributedDataParallel(original, module, device_ids, output_device, **kwargs):
    """torch's class, as fairseq calls it for a model on a GPU."""
    if next(module.parameters()).is_cpu:
        device_ids = output_device = None
    return original(module, device_ids, output_device, **kwargs)


def build_optimizer(original, cfg, params, **kwargs):
    """fairseq's method; parameters stay apart where there is no GPU."""
    cfg.common.fp16_no_flatten_grads |= not torch.cuda.is_available()
    return original(cfg, params, **kwargs)


def broadcast_object_slow(_, obj, src_rank, group, dist_device):
    """fairseq's function; the processes of a training trust each other.

    The one that has read the checkpoint has used the safe loader.
    """
    held = [obj]
    torch.distributed.broadcast_object_list(held, src_rank, group, dist_device)
    return held[0]


def replace_unk(original, hypo_str, src_str, alignment, align_dict, unk):
    """fairseq's function, for an alignment as ``--print-alignment hard`` makes it."""
    if isinstance(alignment, list):
        alignment = [word[0] if isinstance(word, tuple) else word for word in alignment]
    return original(hypo_str, src_str, alignment, align_dict, unk)


def tpu_data_loader(original, itr):
    """fairseq's function, with the count of batches before its thread reads ahead."""
    count = getattr(itr, "n", 0)
    loader = original(itr)
    loader.n = count
    return loader


def add_xla_names() -> None:
    """Give torch_xla >= 2.7 the names of two functions that fairseq calls."""
    from torch_xla import runtime  # pyright: ignore[reportMissingImports]

    for name, function in (
        ("xrt_world_size", runtime.world_size),
        ("get_ordinal", runtime.global_ordinal),
    ):
        if not hasattr(xm, name):
            setattr(xm, name, function)


def add_elu_gradient() -> None:
    """Give torch_xla the gradient of ELU at negative inputs."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators")  # it is replaced
        torch.library.impl("aten::elu_backward", "XLA", elu_backward)


def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """torch's operation: the slope by an input x, or in place by the result that is left of it."""
    x = self_or_result
    negative = x + alpha * scale if is_result else alpha * scale * (input_scale * x).exp()
    return grad_output * torch.where(x > 0, scale, input_scale * negative)


def get_memory_info(original, device=None):
    """torch_xla's function, with its earlier keys; a CPU has the memory of the host."""
    from torch_xla import runtime  # pyright: ignore[reportMissingImports]

    info = host_memory() if runtime.device_type() == "CPU" else original(device)
    free = info["bytes_limit"] - info["bytes_used"]
    return {**info, "kb_free": free // 1024, "kb_total": info["bytes_limit"] // 1024}


def host_memory() -> dict[str, int]:
    page = os.sysconf("SC_PAGE_SIZE")
    limit = page * os.sysconf("SC_PHYS_PAGES")
    return {"bytes_limit": limit, "bytes_used": limit - page * os.sysconf("SC_AVPHYS_PAGES")}


def require_no_float_tensor(original, self, *args, **kwargs):
    """fairseq's method; a checkpoint need not have the number ``_float_tensor``."""
    original(self, *args, **kwargs)
    self._register_load_state_dict_pre_hook(
        lambda state, prefix, *_: state.setdefault(f"{prefix}_float_tensor", torch.zeros(1))
    )
