"""Work in other processes: runs, in forks of this process or as Slurm's jobs, and the trial."""

import argparse
import logging
import math
import multiprocessing
import os
import signal
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import submitit
import torch
from submitit.core.utils import FailedJobError

from fairseq_odeformers.files import reason
from fairseq_odeformers.lab.commands import end_with_parent

from .runs import Run

FORK = multiprocessing.get_context("fork")  # a fork need not import torch and fairseq again


class LocalJob:
    """A run in a fork of this process, which leads a process group of its own.

    Ctrl-C at a terminal does not reach this group. The job ends when this process ends, even if
    that is killed, or after so many seconds. CUDA shows the given GPUs to it.
    """

    def __init__(self, run: Run, gpus: Sequence[str], seconds: float):
        self.gpus = gpus
        self.end = time.monotonic() + seconds
        self.expired = False
        self.process = FORK.Process(target=_start, args=(run, gpus))
        self.process.start()

    def done(self) -> bool:
        """Whether the job has ended; it is ended now if its time is over."""
        if time.monotonic() > self.end and self.process.is_alive():
            self.expired = True
            self.cancel()
        return not self.process.is_alive()

    def exception(self) -> Exception | None:
        if self.expired:
            return TimeoutError("its --time is over; the same command resumes it")
        status = self.process.exitcode
        return RuntimeError(f"it has ended with status {status}") if status else None

    def cancel(self) -> None:
        if self.process.pid and self.process.is_alive():
            with suppress(ProcessLookupError):  # the process has just begun, and leads no group yet
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()


Job = LocalJob | submitit.Job  # a run that has been submitted


def _start(run: Run, gpus: Sequence[str]) -> None:
    os.setpgid(0, 0)
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    run()


class Machine:
    """This machine, which runs so many jobs at a time; they share its GPUs evenly."""

    def __init__(self, jobs: int, gpus_per_run: int, seconds: float = float("inf")):
        self.jobs, self.gpus_per_run, self.seconds = jobs, gpus_per_run, seconds
        self.active: list[LocalJob] = []

    def submit(self, runs: Sequence[Run]) -> dict[Run, Job]:
        """Start a job for each run, on the GPUs that the fewest jobs use."""
        jobs: dict[Run, Job] = {}
        for run in runs:
            self.active = [job for job in self.active if not job.done()]
            in_use = Counter(gpu for job in self.active for gpu in job.gpus)
            gpus = sorted(visible_gpus(), key=in_use.__getitem__)[: self.gpus_per_run]
            jobs[run] = job = LocalJob(run, gpus, self.seconds)
            self.active.append(job)
        return jobs


class Cluster:
    """A cluster; its scheduler limits the number of jobs at a time."""

    jobs = None

    def __init__(self, executor: submitit.Executor):
        self.executor = executor

    def submit(self, runs: Sequence[Run]) -> dict[Run, Job]:
        # At Ctrl-C in the middle, nobody would cancel what has been submitted.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with self.executor.batch():  # one array of jobs
                jobs = [self.executor.submit(run) for run in runs]
        except FailedJobError as error:  # sbatch's
            raise ValueError(f"--cluster slurm: {reason(error)}") from error
        finally:
            signal.signal(signal.SIGINT, handler)
        return dict(zip(runs, jobs))


def visible_gpus() -> list[str]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves to this command, by their numbers or UUIDs."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name for name in map(str.strip, named.split(",")) if name not in ("", "-1")]


def choose_machine(args: argparse.Namespace, out: Path) -> Machine | Cluster:
    """The place where the command line wants the runs."""
    if args.cluster == "local":
        if args.slurm_partition:
            raise ValueError(
                f"--slurm-partition {args.slurm_partition}: give --cluster slurm as well"
            )
        gpus = 1 if args.gpus_per_run is None else args.gpus_per_run
        return Machine(args.jobs, gpus, 60 * args.time if args.time else float("inf"))
    if submitit.SlurmExecutor.affinity() < 0:
        raise ValueError(
            "--cluster slurm: Slurm's command srun is not here; give --cluster local, or use a "
            "machine of the cluster"
        )
    logging.getLogger("submitit").setLevel(logging.ERROR)  # warns where there is no sacct
    settings: dict[str, Any] = {
        "timeout_min": math.ceil(args.time or 60 * 24 * 30),
        "cpus_per_task": int(os.environ["OMP_NUM_THREADS"]),
        "slurm_array_parallelism": args.jobs,
        "slurm_use_srun": False,
    }
    if args.slurm_partition:
        settings["slurm_partition"] = args.slurm_partition
    if args.gpus_per_run:
        settings["gpus_per_node"] = args.gpus_per_run
    executor = submitit.AutoExecutor(out / "jobs", cluster="slurm")
    executor.update_parameters(name="odeformers", **settings)
    return Cluster(executor)


def call_in_child(function: Callable):
    """Call a function in a fork of this process, and return or raise what it does."""
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(sender, function))
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise ValueError(
            "the trial of the models was killed, perhaps because memory ran out"
        ) from None
    finally:
        child.kill()
        child.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(sender: Connection, function: Callable) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # the trainings' logs have them
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        result = function()
    except Exception as error:
        result = error
    sender.send(result)
