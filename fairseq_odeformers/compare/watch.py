"""Jobs of runs, and a table of how far they are, until all have ended."""

from __future__ import annotations

import itertools
import json
import logging
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import submitit
from rich.console import Console
from rich.live import Live
from rich.table import Table

from .plan import Plan
from .runs import LOG, Run

LOOK, LINE = 2.0, 60.0  # seconds between looks, and between lines where there is no terminal
TAIL = 20_000  # bytes of a log that are read


def make_executor(args, out: Path, threads: int) -> submitit.AutoExecutor:
    """The executor of submitit that the command line asks for."""
    executor = submitit.AutoExecutor(folder=out / "jobs", cluster=args.cluster)
    settings = {"cpus_per_task": threads, "timeout_min": int(args.time or 60 * 24 * 30)}
    if args.gpus_per_run:
        settings["gpus_per_node"] = args.gpus_per_run
    if args.cluster == "slurm":
        logging.getLogger("submitit").setLevel(logging.ERROR)  # warns where there is no sacct
        settings |= {"slurm_array_parallelism": args.jobs, "slurm_use_srun": False}
        if args.slurm_partition:
            settings["slurm_partition"] = args.slurm_partition
    executor.update_parameters(name="odeformers", **settings)
    return executor


def execute(plan: Plan, runs: Sequence[Run], executor, jobs: int) -> None:
    """Submit the runs that are not finished, so many at a time, and show how far all are.

    On a cluster all are submitted at once, and its scheduler keeps the number. Runs that another
    command is at are waited for, and taken over if that command ends without finishing them.
    """
    waiting = [run for run in runs if not run.finished]
    at_once = len(waiting) if executor.cluster == "slurm" else jobs
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
                    with executor.batch():  # on a cluster an array, of which --jobs run at a time
                        active |= {run: executor.submit(run) for run in chosen}
                if console.is_terminal:
                    live.update(progress(plan, runs, active), refresh=True)
                elif time.monotonic() - last >= LINE:
                    last = time.monotonic()
                    print(summary(runs, active), flush=True)
                if not waiting and not active:
                    break
                time.sleep(LOOK)
            live.update(progress(plan, runs, active), refresh=True)
    except KeyboardInterrupt:
        for job in active.values():
            job.cancel()
        raise


def progress(plan: Plan, runs: Sequence[Run], active) -> Table:
    """A row for each run."""
    table = Table("run", "state", "epoch", "updates", "validation loss", "updates/s", "left")
    for run in runs:
        table.add_row(run.folder.name, *row(plan, run, run in active))
    return table


def row(plan: Plan, run: Run, active: bool) -> Iterator[str]:
    """The state of a run: epoch, updates, last validation loss, speed, time left."""
    stats = latest(run.folder / LOG)
    total = next(entry.updates for entry in plan.entries if entry.name == run.name)
    updates = int(stats.get("num_updates", 0))
    speed = float(stats.get("ups", 0) or 0)
    yield state(run, active)
    yield str(stats.get("epoch", ""))
    yield f"{updates:,} of {total:,}" if updates else ""
    yield str(stats.get("valid_loss", ""))
    yield f"{speed:.2f}" if speed else ""
    yield clock((total - updates) / speed) if active and speed and updates < total else ""


def state(run: Run, active: bool) -> str:
    """A word for what a run is at, or why it failed."""
    if run.finished:
        return "finished"
    if active:
        return next(step.name for step in run.steps if not (run.folder / step.product).exists())
    return f"failed: {run.failure}" if run.failure else "waiting"


def summary(runs: Sequence[Run], active) -> str:
    """One line about all runs, for a log."""
    finished = sum(run.finished for run in runs)
    parts = [f"{finished} of {len(runs)} runs finished"]
    for run in active:
        stats = latest(run.folder / LOG)
        loss = f", validation loss {stats['valid_loss']}" if "valid_loss" in stats else ""
        parts.append(f"{run.folder.name}: update {stats.get('num_updates', 0)}{loss}")
    return "; ".join(parts)


def latest(log: Path) -> dict[str, str]:
    """The newest statistics at the end of a log."""
    found: dict[str, str] = {}
    if not log.exists():
        return found
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL))
        text = file.read().decode(errors="replace")
    for stats in re.findall(r"\| INFO \| (?:train_inner|valid) \| (\{.*\})$", text, re.M):
        found.update(json.loads(stats))
    return found


def clock(seconds: float) -> str:
    """A time such as 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
