"""Overviews: what a plan costs, and the commands that a dry run prints."""

import shlex
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from fairseq_odeformers.files import markdown_table

from .logs import clock
from .plan import Plan
from .runs import Run, make_runs
from .tuning import choose_candidates, make_tuning_runs


def print_plan(
    plan: Plan, seeds: Sequence[int], out: Path, jobs: int, redo: Collection[str]
) -> None:
    """Print the overview of a plan and all its commands, as a dry run does."""
    print(overview(plan, seeds, out, jobs, redo))
    print_commands(make_tuning_runs(plan, out))
    if plan.recipe.tune:
        print("\n# Then with the best candidate of each architecture, as far as it is known:")
    print_commands(make_runs(choose_candidates(plan, out, redo), out, seeds))


def print_commands(runs: Sequence[Run]) -> None:
    """Print all commands of the runs, for a shell."""
    for run in runs:
        print(f"\n# {run.folder.name}")
        for step in run.steps:
            sign = {"": "", "stdout": " > ", "stderr": " 2> "}[step.printed]
            output = sign and sign + shlex.quote(str(run.folder / step.product))
            print(shlex.join(step.words) + output)


def overview(
    plan: Plan, seeds: Sequence[int], out: Path, jobs: int, redo: Collection[str] = ()
) -> str:
    """The models of a plan as a table, and the time that the unfinished runs of a command take.

    Args:
        plan, seeds: as :func:`execute_plan` takes them.
        redo: architectures whose runs are left, also those that have finished.
    """
    rows = [["architecture", "parameters", "updates", "time with evaluation", "size"]]
    for entry in plan.entries:
        time_of_run = clock(entry.training_seconds + entry.evaluation_seconds)
        numbers = [f"{entry.parameters:,}", f"{entry.updates:,}", time_of_run]
        rows.append([entry.label, *numbers, entry.note])
    # A tuning run of a candidate that is chosen is a run of the first seed, too.
    runs = {run.folder: run for run in make_tuning_runs(plan, out)}
    runs |= {run.folder: run for run in make_runs(choose_candidates(plan, out, redo), out, seeds)}
    left = [run for run in runs.values() if run.name in redo or not run.finished]
    if not left:
        return f"{markdown_table(rows)}\nAll {len(runs)} runs have finished."
    seconds = time.process_time() * sum(len(run.steps) for run in left)  # their imports
    for run in left:
        untrained = 1 if run.name in redo else 1 - run.trained_share
        seconds += untrained * run.training_seconds + run.evaluation_seconds
    return (
        f"{markdown_table(rows)}\n{len(left)} of {len(runs)} runs are left, {jobs} at a time: "
        f"about {clock(seconds / jobs)}, by timed updates, predictions and imports."
    )
