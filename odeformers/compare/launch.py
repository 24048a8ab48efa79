"""Launch runs on this machine or by Slurm, and show their progress.

A launcher has an attribute ``jobs``, the number of runs that it takes at a time (None for all), and
a method ``submit``, which starts runs and returns a job for each. A job has the methods ``done``,
``exception`` and ``cancel``.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import math
import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import submitit
import torch
from rich.console import Console
from rich.live import Live
from rich.text import Text
from submitit.core.utils import FailedJobError

from fairseq_odeformers.errors import InputError, explain
from odeformers.processes import FORK, THREADS, end_with_parent

from .numbers import clock
from .run import Run

# Seconds between checks of the jobs, and between lines if there is no terminal.
POLL_SECONDS, PRINT_SECONDS = 2.0, 10.0


def choose_launcher(args: argparse.Namespace, out: Path) -> Launcher:
    """Choose the launcher that the command line asks for."""
    if args.cluster == "slurm":
        return Slurm(args, out)
    return Machine(args.jobs, 1 if args.gpus_per_run is None else args.gpus_per_run)


# --- this machine ------------------------------------------------------------------------------


class LocalJob:
    """A run in a fork of this process, which leads its own process group.

    Ctrl-C at a terminal does not reach this group. The job ends when this process ends, even if
    this process is killed. CUDA shows only the given GPUs to the job.
    """

    def __init__(self, run: Run, gpus: Sequence[str]):
        self.gpus = gpus
        self.process = FORK.Process(target=_start, args=(run, gpus))
        self.process.start()

    def done(self) -> bool:
        return not self.process.is_alive()

    def exception(self) -> Exception | None:
        status = self.process.exitcode
        return RuntimeError(f"it has ended with status {status}") if status else None

    def cancel(self) -> None:
        if self.process.pid and self.process.is_alive():
            with suppress(ProcessLookupError):  # a process that has just started leads no group yet
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
        self.process.join()


def _start(run: Run, gpus: Sequence[str]) -> None:
    os.setpgid(0, 0)
    end_with_parent()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    run()


class Machine:
    """This machine, which executes up to *jobs* runs at a time; they share its GPUs evenly."""

    def __init__(self, jobs: int, gpus_per_run: int):
        self.jobs, self.gpus_per_run = jobs, gpus_per_run
        self.active: list[LocalJob] = []

    def submit(self, runs: Sequence[Run]) -> dict[Run, LocalJob]:
        """Start a job for each run, on the GPUs that the fewest jobs use."""
        jobs = {}
        for run in runs:
            self.active = [job for job in self.active if not job.done()]
            in_use = Counter(gpu for job in self.active for gpu in job.gpus)
            gpus = sorted(visible_gpus(), key=in_use.__getitem__)[: self.gpus_per_run]
            jobs[run] = job = LocalJob(run, gpus)
            self.active.append(job)
        return jobs


def visible_gpus() -> list[str]:
    """Return the numbers or UUIDs of the GPUs that CUDA_VISIBLE_DEVICES leaves to this command."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name for name in map(str.strip, named.split(",")) if name not in ("", "-1")]


# --- Slurm -------------------------------------------------------------------------------------


class Slurm:
    """A cluster; its scheduler limits the number of jobs at a time."""

    jobs = None

    def __init__(self, args: argparse.Namespace, out: Path):
        logging.getLogger("submitit").setLevel(logging.ERROR)  # warns where there is no sacct
        settings: dict[str, Any] = {
            "timeout_min": math.ceil(args.time or 60 * 24 * 30),
            "slurm_array_parallelism": args.jobs,
            "slurm_use_srun": False,
            "slurm_setup": [f"export {THREADS}=${{{THREADS}:-${{SLURM_CPUS_ON_NODE:-1}}}}"],
        }
        if threads := os.environ.get(THREADS):  # the user's, since this machine has other cores
            settings["cpus_per_task"] = int(threads)
        if args.slurm_partition:
            settings["slurm_partition"] = args.slurm_partition
        if args.gpus_per_run:
            settings["gpus_per_node"] = args.gpus_per_run
        self.executor = submitit.AutoExecutor(out / "jobs", cluster="slurm")
        self.executor.update_parameters(name="odeformers", **settings)

    def submit(self, runs: Sequence[Run]) -> dict[Run, submitit.Job]:
        # Ctrl-C in the middle of this would leave submitted jobs that nobody cancels.
        signals = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        try:
            with self.executor.batch():  # one array of jobs
                jobs = [self.executor.submit(run) for run in runs]
        except FailedJobError as error:  # sbatch's
            raise InputError(f"--cluster slurm: {explain(error)}") from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return dict(zip(runs, jobs))


Launcher = Machine | Slurm


# --- runs --------------------------------------------------------------------------------------


def execute(stages: Iterable[Sequence[Run]], launcher: Launcher) -> tuple[list[Run], bool]:
    """Launch the runs of a plan, stage by stage.

    An architecture without a trained candidate has no further runs.

    Returns:
        All runs, and whether any run failed to finish. A candidate may diverge, unless no other
        candidate of its architecture has finished.
    """
    ran: dict[Path, Run] = {}  # earlier versions also scored a candidate, so it is in two stages
    untrained: set[str] = set()
    for stage in stages:
        untrained = find_untrained(ran.values())
        runs = {run.folder: run for run in stage if run.variant.architecture not in untrained}
        launch([*runs.values()], launcher)
        ran |= runs
    for run in ran.values():
        if run.tuning:
            run.discard()
    failed = any(
        not run.finished
        and not (run.tuning and run.diverged and run.variant.architecture not in untrained)
        for run in ran.values()
    )
    return [*ran.values()], failed


def find_untrained(runs: Iterable[Run]) -> set[str]:
    """Find the architectures without a trained candidate."""
    tuning = [run for run in runs if run.tuning]
    trained = {run.variant.architecture for run in tuning if run.finished}
    return {run.variant.architecture for run in tuning} - trained


def launch(runs: Sequence[Run], launcher: Launcher) -> None:
    """Start runs, submit the unfinished ones, and show the progress of all.

    If another command is executing a run, wait for it, and take the run over if that command ends
    without finishing it. At Ctrl-C, all jobs end.
    """
    if not runs:
        return
    for run in runs:
        run.start()
    waiting = [run for run in runs if not run.finished]
    at_once = launcher.jobs or len(waiting)
    active: dict[Run, LocalJob | submitit.Job] = {}
    console, last, printed = Console(), -PRINT_SECONDS, ""
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                for run in [run for run, job in active.items() if job.done()]:
                    if error := active.pop(run).exception():  # killed, or lost
                        lines = str(error).strip().splitlines() or [type(error).__name__]
                        run.fail(f"the job ended early: {lines[-1]}")
                waiting = [run for run in waiting if not run.finished]
                for run in [run for run in waiting if run.failure is not None]:
                    waiting.remove(run)
                    print(f"{run.folder}: {run.failure}", flush=True)
                elsewhere = [run for run in waiting if run not in active and run.busy]
                free = (run for run in waiting if run not in active and run not in elsewhere)
                if submitted := list(itertools.islice(free, at_once - len(active))):
                    active |= launcher.submit(submitted)
                ended = not waiting and not active
                lines = progress(runs, active, elsewhere)
                line, late = "; ".join(lines), time.monotonic() - last >= PRINT_SECONDS
                if console.is_terminal:
                    live.update(Text("\n".join(lines)), refresh=True)
                elif line != printed and (ended or late):
                    last, printed = time.monotonic(), line
                    print(line, flush=True)
                if ended:
                    break
                time.sleep(POLL_SECONDS)
    finally:
        for job in active.values():  # at Ctrl-C, or an error
            job.cancel()
        for run in runs:
            run.note_unfinished()


def progress(
    runs: Sequence[Run], active: Collection[Run], elsewhere: Collection[Run] = ()
) -> list[str]:
    """Describe how many runs have finished, and the progress of the runs in execution.

    Args:
        elsewhere: runs that other commands execute.
    """
    what = "tuning runs" if all(run.tuning for run in runs) else "runs"
    left = [run for run in runs if not run.finished]
    failed = sum(run.failure is not None for run in left)
    lines = [f"{len(runs) - len(left)} of {len(runs)} {what} finished"]
    lines[0] += f", {failed} failed" * bool(failed)
    for run in [*active, *elsewhere]:
        step, stats = run.next_step, run.progress
        total, done, speed = run.estimate.updates, stats["updates"], float(stats.get("ups", 0))
        parts = [step.name if step else "finished"]
        if run in elsewhere:
            parts[0] += " by another command"
        if done:
            parts.append(f"epoch {stats['epoch']}, {done:,} of {total:,} updates")
        if "loss" in stats:
            parts.append(f"validation loss {stats['loss']}")
        if speed and done < total:
            parts.append(f"{speed:.2f} updates/s, {clock((total - done) / speed)} left")
        lines.append(f"{run.folder.name}: {', '.join(parts)}")
    return lines
