"""Jobs of runs, and a table of how far they are, until all have ended."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import signal
import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import submitit
import torch
from rich.console import Console
from rich.live import Live
from rich.table import Column, Table

from .commands import log_stats
from .runs import FAILURE, LOG, Run

LOOK, LINE = 2.0, 60.0  # seconds between looks, and between lines where there is no terminal
TAIL = 20_000  # bytes of a log that are read


class OneMachine(submitit.LocalExecutor):
    """submitit's executor of this machine, whose jobs share its GPUs evenly, *gpus* for each."""

    def __init__(self, folder: Path, gpus: int):
        super().__init__(folder)
        self.gpus, self.given = gpus, []

    def _submit_command(self, command: str) -> submitit.Job:
        in_use = Counter(gpu for job, gpus in self.given if not job.done() for gpu in gpus)
        gpus = sorted(visible_gpus(), key=in_use.__getitem__)[: self.gpus]
        self.parameters.update(gpus_per_node=len(gpus), visible_gpus=gpus)
        job = super()._submit_command(command)
        self.given.append((job, gpus))
        return job


def visible_gpus() -> list[str]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves to this command, by their numbers or UUIDs."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(number) for number in range(torch.cuda.device_count())]
    return [name for name in map(str.strip, named.split(",")) if name not in ("", "-1")]


def make_executor(args: argparse.Namespace, out: Path) -> submitit.Executor:
    """The executor of submitit that the command line asks for."""
    settings: dict[str, Any] = {"timeout_min": int(args.time or 60 * 24 * 30)}
    if args.cluster == "local":
        executor = OneMachine(out / "jobs", 1 if args.gpus_per_run is None else args.gpus_per_run)
        executor.update_parameters(**settings)
        return executor
    logging.getLogger("submitit").setLevel(logging.ERROR)  # warns where there is no sacct
    settings["cpus_per_task"] = int(os.environ["OMP_NUM_THREADS"])
    settings |= {"slurm_array_parallelism": args.jobs, "slurm_use_srun": False}
    if args.slurm_partition:
        settings["slurm_partition"] = args.slurm_partition
    if args.gpus_per_run:
        settings["gpus_per_node"] = args.gpus_per_run
    executor = submitit.AutoExecutor(out / "jobs", cluster="slurm")
    executor.update_parameters(name="odeformers", **settings)
    return executor


def execute(runs: Sequence[Run], executor, jobs: int) -> None:
    """Submit the runs that are not finished, so many at a time, and show how far all are.

    On a cluster all are submitted at once, and its scheduler keeps the number. Runs that another
    command is at are waited for, and taken over if that command ends without finishing them.
    """
    for run in runs:
        run.folder.mkdir(parents=True, exist_ok=True)
        (run.folder / FAILURE).unlink(missing_ok=True)  # what has failed is tried again
    waiting = [run for run in runs if not run.finished]
    at_once = jobs if isinstance(executor, OneMachine) else len(waiting)
    active: dict[Run, submitit.Job] = {}
    console = Console()
    last = -LINE
    try:
        with Live(console=console, auto_refresh=False) as live:
            while True:
                for run in [run for run, job in active.items() if job.done()]:
                    if error := active.pop(run).exception():  # killed, or lost
                        run.fail(f"the job ended early: {str(error).strip().splitlines()[-1]}")
                waiting = [run for run in waiting if not (run.finished or run.failure)]
                free = (run for run in waiting if run not in active and not run.busy)
                if chosen := list(itertools.islice(free, at_once - len(active))):
                    active |= submit(executor, chosen)
                if console.is_terminal:
                    live.update(progress(runs, active), refresh=True)
                elif time.monotonic() - last >= LINE:
                    last = time.monotonic()
                    print(summary(runs, active), flush=True)
                if not waiting and not active:
                    break
                time.sleep(LOOK)
            live.update(progress(runs, active), refresh=True)
        if not console.is_terminal:
            print()  # which rich leaves out there
    except KeyboardInterrupt:
        for job in active.values():
            cancel(job)
        raise


def submit(executor, runs: Sequence[Run]) -> dict[Run, submitit.Job]:
    """Start jobs; at Ctrl-C this process ends the ones of this machine."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # which they inherit
    try:
        with executor.batch():  # on a cluster one array, whose jobs run --jobs at a time
            jobs = [executor.submit(run) for run in runs]
    finally:
        signal.signal(signal.SIGINT, handler)
    return dict(zip(runs, jobs))


def cancel(job: submitit.Job) -> None:
    """End a job; one of this machine without the tracebacks that SIGINT, submitit's way, prints."""
    if not isinstance(job, submitit.LocalJob):
        job.cancel()
        return
    controller = Path("/proc", job.job_id, "task", job.job_id, "children")
    with suppress(OSError):  # it has just ended
        for pid in (job.job_id, *controller.read_text().split()):
            os.kill(int(pid), signal.SIGKILL)


def progress(runs: Sequence[Run], active: Collection[Run]) -> Table:
    """A row for each run: state, epoch, updates, last validation loss, speed, time left."""
    name = Column("run", overflow="fold")  # else the ends, in which names differ, are left out
    table = Table(name, "state", "epoch", "updates", "validation loss", "updates/s", "left")
    for run in runs:
        stats = latest(run.folder / LOG)
        total, done, speed = run.updates, stats["updates"], float(stats.get("ups", 0))
        table.add_row(
            run.folder.name,
            state(run, run in active),
            stats.get("epoch", ""),
            f"{done:,} of {total:,}" if done else "",
            stats.get("loss", ""),
            f"{speed:.2f}" if speed else "",
            clock((total - done) / speed) if run in active and speed and done < total else "",
        )
    return table


def state(run: Run, active: bool) -> str:
    """The present step of a run in a word, or why it failed."""
    step = run.next_step
    if step is None:
        return "finished"
    if active:
        return step.name
    return f"failed: {run.failure}" if run.failure else "waiting"


def summary(runs: Sequence[Run], active: Collection[Run]) -> str:
    """One line about all runs, for a log."""
    parts = [f"{sum(run.finished for run in runs)} of {len(runs)} runs finished"]
    for run in active:
        stats = latest(run.folder / LOG)
        loss = f", validation loss {stats['loss']}" if "loss" in stats else ""
        parts.append(f"{run.folder.name}: update {stats['updates']}{loss}")
    return "; ".join(parts)


def latest(log: Path) -> dict[str, Any]:
    """The newest epoch, updates, validation loss and updates a second at the end of a log."""
    found: dict[str, Any] = {"updates": 0}
    if not log.exists():
        return found
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    for line in lines:
        for kind, prefix in (("train_inner", ""), ("valid", "valid_")):
            if stats := log_stats(line, kind):
                found["updates"] = int(stats[f"{prefix}num_updates"])
                found["epoch"] = str(stats["epoch"])
                names = {"loss": "valid_loss", "ups": "ups"}
                found |= {key: stats[name] for key, name in names.items() if name in stats}
    return found


def clock(seconds: float) -> str:
    """A time such as 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
