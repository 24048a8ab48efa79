"""Peak memory of the forward and backward pass of the encoder, beyond the model itself.

On a CPU, each model runs in a separate process, and Linux counts its resident memory. On a GPU,
torch's allocator counts. Gradients of the parameters are included.
"""

import multiprocessing
import re
from argparse import Namespace
from pathlib import Path

import torch

from fairseq_odeformers.errors import InputError

from . import models
from .timing import Step

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def encoder_step(subject: models.Subject, args: Namespace, length: int) -> Step:
    """Make a step of the encoder: a forward and a backward pass."""
    inputs = subject.make_batch(args.batch, length)["net_input"]
    encoder = subject.convert(args.precision).encoder.train()

    def step():
        out = encoder(inputs["src_tokens"], inputs["src_lengths"])["encoder_out"][0]
        out.float().square().sum().backward()
        encoder.zero_grad()

    return step


def peak_step(subject: models.Subject, args: Namespace, length: int) -> Step:
    """Make a step that returns the peak in MB."""
    if args.device == "cuda":
        return lambda: measure_peak(subject, args, length)
    if not CLEAR.exists():
        raise InputError("--device cpu: memory is measured only on Linux; use --device cuda")

    def step() -> float:
        # A server process that has imported torch and computed nothing starts each process.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        with context.Pool(1) as pool:
            return pool.apply(build_and_measure, (subject.name, args, length))

    return step


def build_and_measure(name: str, args: Namespace, length: int) -> float:
    torch.set_num_threads(args.threads)
    subject = models.build(name, args)
    with subject.attention():
        return measure_peak(subject, args, length)


def measure_peak(subject: models.Subject, args: Namespace, length: int) -> float:
    """Measure the peak in MB of this process, or of its GPU."""
    encoder_step(subject, args, 1)()  # a first step takes more memory
    step = encoder_step(subject, args, length)
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        after = torch.cuda.max_memory_allocated()
    else:
        before = read_resident("VmRSS")
        CLEAR.write_text("5", encoding="utf-8")  # resets the peak
        step()
        after = read_resident("VmHWM")
    return (after - before) / 1e6


def read_resident(entry: str) -> int:
    """Read an entry of Linux's status of this process, in bytes."""
    [kilobytes] = re.findall(rf"{entry}:\s*(\d+) kB", STATUS.read_text("utf-8"))
    return int(kilobytes) * 1024
