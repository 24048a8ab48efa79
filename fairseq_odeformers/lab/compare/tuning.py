"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the run of the first seed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path

from .entry import Entry
from .jobs import Cluster, Machine
from .logs import read_training
from .plan import Plan
from .runs import LOG, TRAINED, Run, make_runs
from .watch import execute


def execute_plan(plan: Plan, kept: Plan, machine: Machine | Cluster, out: Path) -> list[Run]:
    """Tune, then train and evaluate the best candidates.

    Args:
        plan: of this command.
        kept: the same with the candidates and seeds of earlier commands.

    Returns:
        The runs that should have finished: those of the best candidates, and all tuning runs of an
        architecture if none of them has finished.
    """
    names = {entry.name for entry in plan.entries}
    kept = replace(kept, entries=tuple(entry for entry in kept.entries if entry.name in names))
    tuning = make_tuning_runs(kept, out)
    if tuning:
        execute(tuning, machine)
    untrained = {run.name for run in tuning} - {run.name for run in tuning if run.finished}
    runs = make_runs(replace(plan, entries=choose_candidates(kept, out).entries), out)
    runs = [run for run in runs if run.name not in untrained]
    execute(runs, machine)
    chosen = {run.folder: run for run in runs}
    for run in tuning:
        if chosen.get(run.folder, run).finished:
            run.remove_checkpoints()
    return [*runs, *(run for run in tuning if run.name in untrained)]


def make_tuning_runs(plan: Plan, out: Path) -> list[Run]:
    """The trainings of all candidates of a plan, with its first seed."""
    tuned = tuple(entry for entry in plan.entries if entry.tried)
    first = replace(plan, entries=tuned, recipe=replace(plan.recipe, seeds=plan.recipe.seeds[:1]))
    return [replace(run, steps=run.steps[:1], tuning=True) for run in make_runs(first, out)]


def choose_candidates(plan: Plan, out: Path, redo: Collection[str] = ()) -> Plan:
    """A plan with one candidate of each architecture: its best so far, or else its first.

    Args:
        redo: architectures whose runs do not count, since they will be removed.
    """
    return choose_best(plan, validate_candidates(plan, out, redo))


def validate_candidates(
    plan: Plan, out: Path, redo: Collection[str] = ()
) -> list[tuple[Entry, float | None]]:
    """The entries of a plan, each with its best validation if it is a candidate that has one."""
    counted = [entry.tried and entry.name not in redo for entry in plan.entries]
    return [
        (entry, best_validation(plan, entry, out) if counts else None)
        for entry, counts in zip(plan.entries, counted)
    ]


def best_validation(plan: Plan, entry: Entry, out: Path) -> float | None:
    """The best validation of a tuning run; None if it is not trained, or has not converged."""
    folder = out / entry.folder(plan.recipe.seeds[0])
    if not (folder / TRAINED).exists():
        return None
    metrics = read_training(folder / LOG, plan.recipe.metric).metrics
    finite = [value for value in metrics if math.isfinite(value)]
    return plan.recipe.best(finite) if finite else None


def choose_best(plan: Plan, validated: Iterable[tuple[Entry, float | None]]) -> Plan:
    """The same as :func:`choose_candidates`, from the result of :func:`validate_candidates`."""
    candidates: dict[str, list[tuple[Entry, float | None]]] = defaultdict(list)
    for entry, value in validated:
        candidates[entry.name].append((entry, value))
    chosen = []
    for pairs in candidates.values():
        values = [value for _, value in pairs if value is not None]
        best = plan.recipe.best(values) if values else None
        chosen.append(next(entry for entry, value in pairs if value == best))
    return replace(plan, entries=tuple(chosen))
