"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the run of the first seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
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
    chosen = choose_candidates(kept, validate_candidates(kept, out))
    runs = make_runs(replace(plan, entries=chosen.entries), out)
    runs = [run for run in runs if run.name not in untrained]
    execute(runs, machine)
    evaluated = {run.folder: run for run in runs}
    for run in tuning:
        if evaluated.get(run.folder, run).finished:
            run.remove_checkpoints()
    return [*runs, *(run for run in tuning if run.name in untrained)]


def make_tuning_runs(plan: Plan, out: Path) -> list[Run]:
    """The trainings of all candidates of a plan, with its first seed."""
    tuned = tuple(entry for entry in plan.entries if entry.tried)
    first = replace(plan, entries=tuned, recipe=replace(plan.recipe, seeds=plan.recipe.seeds[:1]))
    return [replace(run, steps=run.steps[:1], tuning=True) for run in make_runs(first, out)]


def validate_candidates(plan: Plan, out: Path, redo: Collection[str] = ()) -> dict[str, float]:
    """The best validation of each candidate that is trained and has converged, by its label.

    Args:
        redo: architectures whose runs do not count, since they will be removed.
    """
    validated = {}
    for entry in plan.entries:
        folder = out / entry.folder(plan.recipe.seeds[0])
        if entry.tried and entry.name not in redo and (folder / TRAINED).exists():
            metrics = read_training(folder / LOG, plan.recipe.metric).metrics
            if finite := [value for value in metrics if math.isfinite(value)]:
                validated[entry.label] = plan.recipe.best(finite)
    return validated


def choose_candidates(plan: Plan, validated: Mapping[str, float]) -> Plan:
    """A plan with one candidate of each architecture: its best so far, or else its first."""
    chosen: dict[str, Entry] = {}
    for entry in plan.entries:
        before = validated.get(chosen.setdefault(entry.name, entry).label)
        value = validated.get(entry.label)
        if value is not None and (before is None or plan.recipe.best([before, value]) != before):
            chosen[entry.name] = entry
    return replace(plan, entries=tuple(chosen.values()))
