"""Peak of the memory that a training step of the encoder takes beyond the model itself.

On a CPU each model has a process of its own, whose resident memory Linux counts; on a GPU it is
what torch's allocator counts. Gradients of the parameters are part of it.
"""

import multiprocessing
import re
from pathlib import Path

import torch

from . import encoder, subjects

UNIT = "MB"
STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def figures(args, length: int) -> tuple[dict[str, list[float]], dict[str, int]]:
    """The peak of each model in MB, and its number of parameters.

    Raises:
        ValueError: on a CPU, the system does not count the peak of a process.
    """
    if args.device == "cpu" and not CLEAR.exists():
        raise ValueError("memory on a CPU is counted by Linux alone: use --device cuda, or Linux")
    found = {name: _figure(name, args, length) for name in args.models}
    return {name: [peak] for name, (peak, _) in found.items()}, {
        name: parameters for name, (_, parameters) in found.items()
    }


def _figure(name, args, length):
    if args.device == "cuda":
        return peak(name, args, length)
    # A server that has imported torch and computed nothing starts each process.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(1) as pool:
        return pool.apply(peak, (name, args, length))


def peak(name: str, args, length: int) -> tuple[float, int]:
    """The peak of one model, in MB, and its number of parameters."""
    torch.set_num_threads(args.threads)
    subject = subjects.build(name, args)
    encoder.step(subject, args, 1)()  # what a first step alone takes
    step = encoder.step(subject, args, length)
    parameters = sum(parameter.numel() for parameter in subject.model.parameters())
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / 1e6, parameters
    before = _resident("VmRSS")
    CLEAR.write_text("5")  # the peak starts anew
    step()
    return (_resident("VmHWM") - before) / 1e6, parameters


def _resident(entry):
    return int(re.search(rf"{entry}:\s*(\d+) kB", STATUS.read_text())[1]) * 1024
