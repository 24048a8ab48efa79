"""Executes plans: submits their runs, and shows progress in a table until all have ended."""

import itertools
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from .jobs import Cluster, Job, Machine
from .logs import clock
from .plan import Plan
from .runs import FAILURE, LOG, Run, make_runs
from .scores import read_progress
from .tuning import choose_candidates, make_tuning_runs

LOOK, LINE = 2.0, 10.0  # seconds between looks, and between lines where there is no terminal


def execute_plan(
    plan: Plan, seeds: Sequence[int], machine: Machine | Cluster, out: Path
) -> list[Run]:
    """Tune, if options are tuned, then train and evaluate the best candidates.

    Args:
        plan: the architectures of this command, also with candidates and seeds of earlier ones.
        seeds: of this command. It leaves others alone.

    Returns:
        The runs that should have finished: runs of the best candidates, and all tuning runs of an
        architecture if none of them has finished.
    """
    tuning = make_tuning_runs(plan, out)
    submit_and_watch(tuning, machine)
    untrained = {run.name for run in tuning} - {run.name for run in tuning if run.finished}
    runs = make_runs(choose_candidates(plan, out), out, seeds)
    runs = [run for run in runs if run.name not in untrained]
    submit_and_watch(runs, machine)
    evaluated = {run.folder: run for run in runs}
    for run in tuning:
        if evaluated.get(run.folder, run).finished:
            run.remove_checkpoints()
    return [*runs, *(run for run in tuning if run.name in untrained)]


def submit_and_watch(runs: Sequence[Run], machine: Machine | Cluster) -> None:
    """Submit the runs that are not finished, and show the progress of all.

    A run that another command is executing is waited for, and taken over if that command ends
    without finishing it. At Ctrl-C all jobs end.
    """
    if not runs:
        return
    for run in runs:
        run.folder.mkdir(parents=True, exist_ok=True)
        (run.folder / FAILURE).unlink(missing_ok=True)  # what has failed is tried again
    waiting = [run for run in runs if not run.finished]
    at_once = machine.jobs or len(waiting)
    active: dict[Run, Job] = {}
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
                if submitted := list(itertools.islice(free, at_once - len(active))):
                    active |= machine.submit(submitted)
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
    finally:
        for job in active.values():  # at Ctrl-C, or an error
            job.cancel()


def progress(runs: Sequence[Run], active: Collection[Run]) -> Table:
    """One row per run; names are not cut in a terminal of 80 columns."""
    table = Table(Column("run", no_wrap=True, overflow="fold"), "progress")
    for run in runs:
        table.add_row(run.folder.name, Text(describe(run, run in active)))
    return table


def describe(run: Run, active: bool) -> str:
    """The present step of a run, or why it failed, and how far its training is."""
    stats = read_progress(run.folder / LOG)
    total, done, speed = run.updates, stats["updates"], float(stats.get("ups", 0))
    parts = [state(run, active)]
    if done:
        parts.append(f"epoch {stats['epoch']}, {done:,} of {total:,} updates")
    if "loss" in stats:
        parts.append(f"validation loss {stats['loss']}")
    if active and speed and done < total:
        parts.append(f"{speed:.2f} updates/s, {clock((total - done) / speed)} left")
    return ", ".join(parts)


def state(run: Run, active: bool) -> str:
    """The present step of a run in a word, or why it failed."""
    step = run.next_step
    if step is None:
        return "finished"
    if active:
        count = step.count_printed(run.folder)
        return f"{step.name}, {count:,} sentences" if count else step.name
    return f"failed: {run.failure}" if run.failure else "waiting"


def summary(runs: Sequence[Run], active: Collection[Run]) -> str:
    """One line about all runs, for a log."""
    what = "tuning runs" if all(run.tuning for run in runs) else "runs"
    parts = [f"{sum(run.finished for run in runs)} of {len(runs)} {what} finished"]
    parts += [f"{run.folder.name}: {describe(run, True)}" for run in active]
    return "; ".join(parts)
