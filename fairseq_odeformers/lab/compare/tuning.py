"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the first seed's run.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pathlib import Path

from .entry import Entry
from .logs import read_training
from .plan import Plan
from .runs import LOG, TRAINED


def best_validation(plan: Plan, entry: Entry, out: Path) -> float | None:
    """The best validation of a tuning run; None if it is not trained, or has not converged."""
    folder = out / entry.folder(plan.recipe.seeds[0])
    if not (folder / TRAINED).exists():
        return None
    metrics = read_training(folder / LOG, plan.recipe.metric).metrics
    finite = [value for value in metrics if math.isfinite(value)]
    return plan.recipe.best(finite) if finite else None


def first_candidates(plan: Plan) -> Collection[Entry]:
    """The first candidate of each architecture, in the order of the plan."""
    firsts: dict[str, Entry] = {}
    for entry in plan.entries:
        firsts.setdefault(entry.name, entry)
    return firsts.values()


def choose_candidates(plan: Plan, out: Path) -> list[Entry]:
    """The best candidate of each architecture so far; none of one that has none."""
    chosen: dict[str, tuple[float, Entry]] = {}
    for entry in plan.entries:
        value = best_validation(plan, entry, out) if entry.tried else 0.0
        if value is not None:
            best, _ = chosen.setdefault(entry.name, (value, entry))
            if plan.recipe.best([best, value]) != best:
                chosen[entry.name] = value, entry
    return [entry for _, entry in chosen.values()]
