"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the first seed's run.
"""

from __future__ import annotations

import math
from dataclasses import replace
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


def choose_candidates(plan: Plan, out: Path) -> Plan:
    """A plan with one candidate of each architecture: its best so far, or else its first."""
    chosen: dict[str, tuple[float | None, Entry]] = {}
    for entry in plan.entries:
        value = best_validation(plan, entry, out) if entry.tried else None
        best, _ = chosen.setdefault(entry.name, (value, entry))
        if value is not None and (best is None or plan.recipe.best([best, value]) != best):
            chosen[entry.name] = value, entry
    return replace(plan, entries=tuple(entry for _, entry in chosen.values()))
