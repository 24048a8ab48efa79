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


def peak_step(subject: models.Subject, args: Namespace, length: int) -> Step:
    """The peak in MB."""
    if args.device == "cuda":
        return lambda: peak(subject, args, length)
    if not CLEAR.exists():
        raise ValueError("memory on a CPU is counted by Linux alone: use --device cuda, or Linux")

    def step() -> float:
        # A server that has imported torch and computed nothing starts each process.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        with context.Pool(1) as pool:
            return pool.apply(build_and_peak, (subject.name, args, length))

    return step


def build_and_peak(name: str, args: Namespace, length: int) -> float:
    torch.set_num_threads(args.threads)
    subject = models.build(name, args)
    with subject.attention():
        return peak(subject, args, length)


def peak(subject: models.Subject, args: Namespace, length: int) -> float:
    """The peak in MB of this process, or of its GPU."""
    encoder_step(subject, args, 1)()  # memory that a first step alone takes
    step = encoder_step(subject, args, length)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        after = torch.cuda.max_memory_allocated()
    else:
        before = resident("VmRSS")
        CLEAR.write_text("5")  # the peak starts anew
        step()
        after = resident("VmHWM")
    return (after - before) / 1e6


def resident(entry: str) -> int:
    """Bytes of an entry of Linux's status of this process."""
    return int(re.search(rf"{entry}:\s*(\d+) kB", STATUS.read_text())[1]) * 1024
