"""Tuning: each architecture trains once per candidate, and its best one continues with all seeds.

A candidate is an entry of the plan with values of its own for the tuned options. The best one has
the best validation. Its tuning run is also the run of the first seed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from .entry import Entry
from .logs import read_training
from .plan import Plan
from .runs import LOG, TRAINED


def choose_candidates(plan: Plan, out: Path) -> Plan:
    """A plan with one candidate of each architecture: its best so far, or else its first."""
    return choose_best(plan, validate_candidates(plan, out))


def validate_candidates(plan: Plan, out: Path) -> list[tuple[Entry, float | None]]:
    """The entries of a plan, each with its best validation if it is a candidate that has one."""
    return [
        (entry, best_validation(plan, entry, out) if entry.tried else None)
        for entry in plan.entries
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
