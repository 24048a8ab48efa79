"""Peak of the memory that a training step of the encoder takes beyond the model itself.

On a CPU each model has a process of its own, whose resident memory Linux counts; on a GPU torch's
allocator counts. Gradients of the parameters are included.
"""

import multiprocessing
import re
from argparse import Namespace
from pathlib import Path

import torch

from . import models
from .timing import Step

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def encoder_step(subject: models.Subject, args: Namespace, length: int) -> Step:
    """One training step of the encoder alone: forward and backward."""
    inputs = subject.sample(args.batch, length)["net_input"]
    encoder = subject.converted(args.precision).encoder.train()

    def step():
        out = encoder(inputs["src_tokens"], inputs["src_lengths"])["encoder_out"][0]
        out.float().square().sum().backward()
        encoder.zero_grad()

    return step


def peak(name: str, args: Namespace, length: int) -> tuple[float, int]:
    """The peak of a model in MB, and its number of parameters.

    Raises:
        ValueError: on a CPU, the system does not count the peak of a process.
    """
    if args.device == "cuda":
        return _peak(name, args, length)
    if not CLEAR.exists():
        raise ValueError("memory on a CPU is counted by Linux alone: use --device cuda, or Linux")
    # A server that has imported torch and computed nothing starts each process.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with context.Pool(1) as pool:
        return pool.apply(_peak, (name, args, length))


def _peak(name, args, length):
    torch.set_num_threads(args.threads)
    subject = models.build(name, args)
    with subject.attention():
        encoder_step(subject, args, 1)()  # memory that a first step alone takes
        step = encoder_step(subject, args, length)
        if args.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            step()
            after = torch.cuda.max_memory_allocated()
        else:
            before = _resident("VmRSS")
            CLEAR.write_text("5")  # the peak starts anew
            step()
            after = _resident("VmHWM")
    return (after - before) / 1e6, subject.parameters


def _resident(entry):
    return int(re.search(rf"{entry}:\s*(\d+) kB", STATUS.read_text())[1]) * 1024
