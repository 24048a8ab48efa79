"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the run of the first seed. A recipe without ``tune`` has
no tuning runs, and its entries are all chosen.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

from .entry import Entry
from .plan import Plan, load_plan
from .runs import LOG, TRAINED, Run, make_runs
from .scores import read_log


def make_tuning_runs(plan: Plan, out: Path) -> list[Run]:
    """The trainings of all candidates of a plan, with its first seed."""
    runs = make_runs(plan.keep(lambda entry: entry.tried), out, plan.recipe.seeds[:1])
    return [replace(run, steps=run.steps[:1], tuning=True) for run in runs]


def choose_candidates(plan: Plan, out: Path, redo: Collection[str] = ()) -> Plan:
    """A plan with one candidate of each architecture: its best so far, or else its first.

    Runs of architectures in *redo* do not count, since they will be removed.
    """
    return choose_best(plan, validate_candidates(plan, out, redo))


def choose_best(plan: Plan, validated: Mapping[str, float]) -> Plan:
    """The same by the result of :func:`validate_candidates`."""
    chosen: dict[str, Entry] = {}
    for entry in plan.entries:
        before = validated.get(chosen.setdefault(entry.name, entry).label)
        value = validated.get(entry.label)
        if value is not None and (before is None or plan.recipe.best([before, value]) != before):
            chosen[entry.name] = entry
    return replace(plan, entries=tuple(chosen.values()))


def validate_candidates(plan: Plan, out: Path, redo: Collection[str] = ()) -> dict[str, float]:
    """The best validation of each candidate that is trained and has converged, by its label."""
    validated = {}
    for entry in plan.entries:
        folder = out / entry.folder(plan.recipe.seeds[0])
        if entry.tried and entry.name not in redo and (folder / TRAINED).exists():
            metrics = read_log(folder / LOG, plan.recipe.metric).curve.metric
            if finite := [value for value in metrics if math.isfinite(value)]:
                validated[entry.label] = plan.recipe.best(finite)
    return validated


def rejected_folders(out: Path) -> set[str]:
    """Names of the folders of candidates that are not chosen, in a folder of runs."""
    plan = load_plan(out)
    chosen = choose_candidates(plan, out).entries
    return {e.folder(plan.recipe.seeds[0]) for e in plan.entries if e not in chosen}
