"""Equal time: how many updates each architecture makes within a number of minutes."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from fairseq_odeformers.files import naming

from .entry import Entry
from .logs import report_progress
from .recipe import Options, Recipe, merge
from .trial import build, start_training, time_update, try_training

ROUNDS = 3  # how often an architecture is timed, one after the other


def fit_budget(
    recipe: Recipe,
    entries: Sequence[Entry],
    minutes: float,
    planned: Mapping[str, int],
    splits: Collection[str],
) -> list[Entry]:
    """Architectures whose trainings all take so many minutes.

    Updates are counted, not time, so that a training can be resumed and repeated. The report has
    the time that a training took.

    Args:
        planned: by label, the updates of trainings that an earlier command has begun; they stay.
        splits: the test sets.
    """
    fitted, times = [], time_updates(recipe, [e for e in entries if e.label not in planned])
    for entry in entries:
        with naming(entry.label, "cannot be trained"):
            updates = planned.get(entry.label) or updates_within(minutes, times[entry.label])
            entry = stretch_schedule(entry, updates)
            entry = try_training(recipe, entry, build(recipe, entry), splits)
            fitted.append(replace(entry, seconds=minutes * 60, budget=minutes))
    return fitted


def time_updates(recipe: Recipe, entries: Sequence[Entry]) -> dict[str, float]:
    """The seconds of an update, the median over rounds in which all architectures take turns.

    The trial of each architecture was the first round.
    """
    seconds = {entry.label: [entry.seconds / entry.updates] for entry in entries}
    for number in range(1, ROUNDS):
        for entry in entries:
            report_progress(f"timing {entry.label} ({number} of {ROUNDS - 1})")
            seconds[entry.label].append(time_update(*start_training(recipe, build(recipe, entry))))
    return {label: statistics.median(measured) for label, measured in seconds.items()}


def updates_within(minutes: float, seconds: float) -> int:
    """How many updates of so many seconds fit into a budget."""
    updates = int(minutes * 60 / seconds)
    if updates < 1:
        raise ValueError(f"--budget: an update takes {seconds:.1f} seconds; give more time")
    return updates


def stretch_schedule(entry: Entry, updates: int) -> Entry:
    """An architecture whose schedule ends after so many updates, and rises in the same share."""
    if entry.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    changes: Options = {"max-update": updates, "max-epoch": None}
    for name in ("warmup-updates", "total-num-update"):
        before = int(entry.options.get(name, 0))
        changes[name] = max(1, round(before * updates / entry.updates))
    return replace(entry, options=merge(entry.options, changes))
