"""Changes that let fairseq work with current torch, torch_xla and numpy, and on CPUs.

No other file depends on their versions. fairseq 0.12.2 is the release for Python up to 3.10.
"""

import argparse
import os
import sys
import types
import warnings
from functools import partial
from typing import Any

import numpy as np
import torch
from fairseq.logging import meters

from fairseq_odeformers.errors import blames_input

from .ownership import trains_ours

try:
    import torch_xla.core.xla_model as xm  # pyright: ignore[reportMissingImports]
except ImportError:
    xm = None

# Before torch 2.6, the safe loader lacks what a checkpoint of fairseq needs.
SAFE_LOADER = hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint")
TORCHRUN_VARIABLES = {"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK"}  # set by torchrun


def add_safe_globals() -> None:
    """Let torch >= 2.6 unpickle the types in a checkpoint of fairseq."""
    if SAFE_LOADER:
        torch.serialization.add_safe_globals(trusted_types())


def trusted_types() -> list:
    """Return the types in fairseq's checkpoints, each paired with its former name, if any.

    They include two functions of numpy, which rebuild an array and a number.
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
    """Restore ``numpy.compat.long`` in numpy >= 2."""
    if not hasattr(np, "compat"):
        np.__dict__["compat"] = types.SimpleNamespace(long=int)


def get_buckets(_, sizes, num_buckets):
    """Compute fairseq's bucket sizes with the current name of numpy's argument."""
    shares = np.linspace(0, 100, num_buckets + 1)
    return np.unique(np.percentile(sizes, shares, method="lower")[1:])


def call_main(original, cfg, main, **kwargs):
    """Join the processes of torchrun into one training run if the model is ours.

    An error for bad input ends the program in one line.
    """
    if TORCHRUN_VARIABLES <= os.environ.keys() and trains_ours(cfg):
        cfg.distributed_training.distributed_world_size = int(os.environ["WORLD_SIZE"])
    return original(cfg, partial(run, main), **kwargs)


def run(main, cfg, **kwargs):
    """Call *main*, and end the program if it raises an error for bad input.

    Raises:
        SystemExit: *main* raises an error that :func:`.blames_input`.
    """
    try:
        return main(cfg, **kwargs)
    except ValueError as error:
        if not blames_input(error):
            raise
        sys.exit(f"error: {error}")


def infer_torch_distributed_launch_init(_, cfg):
    """Configure distributed training as fairseq does, even without a GPU."""
    cfg.distributed_init_method = "env://"
    cfg.distributed_world_size = int(os.environ["WORLD_SIZE"])
    cfg.distributed_rank = int(os.environ["RANK"])
    cfg.device_id = cfg.distributed_rank % max(1, torch.cuda.device_count())
    cfg.distributed_no_spawn = True


def DistributedDataParallel(original, module, device_ids, output_device, **kwargs):
    """Build torch's class without the devices that fairseq passes even for a model on a CPU."""
    if next(module.parameters()).is_cpu:
        device_ids = output_device = None
    return original(module, device_ids, output_device, **kwargs)


def build_optimizer(original, cls, cfg, params, **kwargs):
    """Build fairseq's optimizer, without flattening the gradients if the model is not on a GPU."""
    cfg.common.fp16_no_flatten_grads |= not any(p.is_cuda for p in params)
    return original(cls, cfg, params, **kwargs)


def broadcast_object_slow(_, obj, src_rank, group, dist_device):
    """Broadcast an object without torch's safe loader.

    The processes of a training run trust each other, and the one that read the checkpoint used the
    safe loader.
    """
    objects = [obj]
    torch.distributed.broadcast_object_list(objects, src_rank, group, dist_device)
    return objects[0]


def replace_unk(original, hypo_str, src_str, alignment, align_dict, unk):
    """Replace unknown words as fairseq does, and from the pairs of ``--print-alignment hard``."""
    if isinstance(alignment, list):
        alignment = [word[0] if isinstance(word, tuple) else word for word in alignment]
    return original(hypo_str, src_str, alignment, align_dict, unk)


def tpu_data_loader(original, itr):
    """Build fairseq's loader, with the number of batches consumed before its thread prefetches."""
    count = getattr(itr, "n", 0)
    loader = original(itr)
    loader.n = count
    return loader


def add_xla_names() -> None:
    """Restore two functions that fairseq calls and torch_xla >= 2.7 lacks."""
    from torch_xla import runtime  # pyright: ignore[reportMissingImports]

    for name, function in (
        ("xrt_world_size", runtime.world_size),
        ("get_ordinal", runtime.global_ordinal),
    ):
        if not hasattr(xm, name):
            setattr(xm, name, function)


def add_elu_gradient() -> None:
    """Correct torch_xla's gradient of ELU at negative inputs."""
    with warnings.catch_warnings():
        # torch warns that an operator is replaced.
        warnings.filterwarnings("ignore", "Warning only once for all operators")
        torch.library.impl("aten::elu_backward", "XLA", elu_backward)


def elu_backward(grad_output, alpha, scale, input_scale, is_result, self_or_result):
    """Compute ELU's gradient from its input or, if *is_result*, from its output."""
    x = self_or_result
    negative = x + alpha * scale if is_result else alpha * scale * (input_scale * x).exp()
    return grad_output * torch.where(x > 0, scale, input_scale * negative)


def get_memory_info(original, device=None):
    """Add the former keys to torch_xla's result; on a CPU, report the host's memory."""
    from torch_xla import runtime  # pyright: ignore[reportMissingImports]

    info = host_memory() if runtime.device_type() == "CPU" else original(device)
    free = info["bytes_limit"] - info["bytes_used"]
    return {**info, "kb_free": free // 1024, "kb_total": info["bytes_limit"] // 1024}


def host_memory() -> dict[str, int]:
    """Return the total and the used memory of the host in bytes, under torch_xla's names."""
    page = os.sysconf("SC_PAGE_SIZE")
    limit = page * os.sysconf("SC_PHYS_PAGES")
    return {"bytes_limit": limit, "bytes_used": limit - page * os.sysconf("SC_AVPHYS_PAGES")}


def require_no_float_tensor(original, self, *args, **kwargs):
    """Build fairseq's module, and let a checkpoint lack the buffer ``_float_tensor``."""
    original(self, *args, **kwargs)
    self._register_load_state_dict_pre_hook(
        lambda state, prefix, *_: state.setdefault(f"{prefix}_float_tensor", torch.zeros(1))
    )
