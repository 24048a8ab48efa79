"""Verdicts: a verdict on each model of a table, with the notes that lead to it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from ..numbers import in_percent
from ..results.intervals import MIN_SEEDS, Difference, OverSeeds
from ..results.rows import Comparison, Table
from ..results.statistics import Statistics, compute_statistics
from .notes import (
    EDGES,
    FEW_SEEDS,
    LEAVES_OPEN,
    OTHER_REASON,
    RULES_OUT,
    Note,
    note_baseline,
    note_chance,
    note_defaults,
    note_edges,
    note_effort,
    note_improving,
    note_limitations,
    note_statistics,
    note_texts,
    note_times,
    note_undertrained,
    note_untuned,
)

MARGIN_POINTS = 1.0  # points of accuracy, F1, BLEU or chrF that count as no difference
MARGIN_PERCENT = 2.0  # percent of the baseline's score, for other metrics
BETTER, WORSE, EQUIVALENT, INCONCLUSIVE = "better", "worse", "equivalent", "inconclusive"
EQUAL_SCORES = "all seeds of a model score the same"
WIDE_INTERVAL = "the interval includes zero"
VERDICT_DEFINITION = (
    "A model is better or worse if the 95% interval over seeds excludes zero, and equivalent if "
    "the interval includes zero and lies within the margin. Otherwise, or if something else leaves "
    "the order open, the verdict is inconclusive."
)


@dataclass(frozen=True)
class Judged:
    """A table of scores, and what it shows.

    Attributes:
        notes: notes on the table.
        statistics: statistics without the architectures that a note rules out.
        margin: largest difference that counts as none.
        verdicts: verdict on each architecture except the baseline.
    """

    table: Table
    notes: list[Note]
    statistics: Statistics
    margin: float
    verdicts: dict[str, Verdict]


def judge(comparison: Comparison, margin: float | None = None) -> tuple[list[Note], list[Judged]]:
    """Judge a comparison: return notes on its runs, and each table with notes and verdicts.

    Args:
        margin: see :func:`.find_margin`.
    """
    finders = (
        *(note_effort, note_times, note_improving, note_untuned),
        *(note_baseline, note_defaults, note_limitations, note_edges),
    )
    run_notes = [note for find in finders for note in find(comparison)]
    judged = []
    for table in comparison.tables:
        notes = [*note_undertrained(comparison, table), *note_chance(table), *note_texts(table)]
        ruling = (note for note in (*run_notes, *notes) if note.kind == RULES_OUT)
        excluded = {name for note in ruling for name in note.subjects}
        statistics = compute_statistics(table, excluded)
        notes += note_statistics(table, statistics)
        points = margin_of(table, margin)
        verdicts = give_verdicts(table, statistics.over_seeds, [*run_notes, *notes], points)
        judged.append(Judged(table, notes, statistics, points, verdicts))
    return run_notes, judged


def margin_of(table: Table, margin: float | None = None) -> float:
    """Return the largest difference from the baseline of a table that counts as none."""
    runs = table.main.get(table.baseline, ())
    return find_margin(table.metric, fmean(row.value for row in runs) if runs else 0.0, margin)


def give_verdicts(
    table: Table, over_seeds: OverSeeds, notes: Iterable[Note], margin: float
) -> dict[str, Verdict]:
    """Give verdicts on all architectures of a table except the baseline."""
    notes, verdicts = [*notes], {}
    for name, runs in table.main.items():
        if name == table.baseline:
            continue
        pair = {name, table.baseline}
        if difference := over_seeds.differences.get(name):
            seeds = min(len(runs), len(table.main[table.baseline]))
            verdict = give_verdict(difference, margin, seeds)
            verdicts[name] = verdict.leave_open(find_reasons(notes, name, table.baseline, verdict))
        else:
            ruling = (n for n in notes if n.kind == RULES_OUT and pair & {*n.subjects})
            reasons = dict.fromkeys(
                ("" if name in note.subjects else "for the baseline, ")
                + (note.reason or OTHER_REASON)
                for note in ruling
            )
            why = " and ".join(reasons) or "there is nothing to compare with"
            verdicts[name] = Verdict(INCONCLUSIVE, why)
    return verdicts


def find_reasons(notes: Iterable[Note], name: str, baseline: str, verdict: Verdict) -> list[str]:
    """Find the reasons that make a verdict inconclusive, whatever the seeds say.

    A value beyond the edge of a grid could only make a model better. *Better* therefore remains if
    the value of the model itself is at an edge, and *worse* if the baseline's value is.
    """
    undone_by = {BETTER: {baseline}, WORSE: {name}}.get(verdict.word, {name, baseline})
    reasons = [
        note.reason or OTHER_REASON
        for note in notes
        if note.kind == LEAVES_OPEN
        and {*note.subjects} & (undone_by if note.reason in EDGES else {name, baseline})
    ]
    return [*dict.fromkeys(reasons)]


# --- the verdict of the seeds ------------------------------------------------------------------


class Verdict(NamedTuple):
    """A verdict: one of four words, with a reason or a qualification ("" for none)."""

    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word

    def leave_open(self, reasons: Collection[str]) -> Verdict:
        """Return this verdict or, if there are *reasons*, an inconclusive one."""
        if not reasons or self.word == INCONCLUSIVE:
            return self
        return Verdict(INCONCLUSIVE, f"{self.word} over these seeds, but {' and '.join(reasons)}")


def find_margin(metric: str, baseline: float, margin: float | None = None) -> float:
    """Return the largest difference that counts as none, in the unit of the metric.

    Args:
        baseline: mean score of the baseline.
        margin: points of a metric in percent, or percent of the baseline's score (default:
            :data:`MARGIN_POINTS` or :data:`MARGIN_PERCENT`).
    """
    if in_percent(metric):
        return MARGIN_POINTS if margin is None else margin
    return (MARGIN_PERCENT if margin is None else margin) / 100 * abs(baseline)


def give_verdict(difference: Difference, margin: float, seeds: int = MIN_SEEDS) -> Verdict:
    """Give the verdict of the seeds on a difference from the baseline.

    *Better* and *worse*: the interval excludes zero. *Equivalent*: the interval includes zero, and
    all of it is within the margin. *Inconclusive*: neither. If all of an interval that excludes
    zero is within the margin, the verdict says so.

    Args:
        margin: largest difference that counts as none.
        seeds: smaller number of seeds of the two models.
    """
    if difference.interval is None:
        return Verdict(INCONCLUSIVE, FEW_SEEDS if seeds < MIN_SEEDS else EQUAL_SCORES)
    low, high = difference.interval
    is_small = -margin <= low and high <= margin
    if low > 0 or high < 0:
        word = BETTER if low > 0 else WORSE
        return Verdict(word, "by less than the margin" if is_small else "")
    return Verdict(EQUIVALENT) if is_small else Verdict(INCONCLUSIVE, WIDE_INTERVAL)
