"""Judgements: the verdicts on the models of each table, and the notes that affect them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from ..results.comparison import Comparison, Table
from ..results.intervals import OverSeeds
from ..results.statistics import Statistics, compute_statistics
from .notes import (
    EDGES,
    LEAVES_OPEN,
    OTHER,
    RULES_OUT,
    Note,
    note_chance,
    note_defaults,
    note_edges,
    note_effort,
    note_improving,
    note_statistics,
    note_texts,
    note_times,
    note_undertrained,
    note_untuned,
)
from .verdict import BETTER, INCONCLUSIVE, WORSE, Verdict, find_margin, give_verdict


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
    """Judge a comparison; returns notes on its trainings, and each table with notes and verdicts.

    Args:
        margin: see :func:`.find_margin`.
    """
    finders = note_effort, note_times, note_improving, note_untuned, note_defaults, note_edges
    of_trainings = [note for find in finders for note in find(comparison)]
    judged = []
    for table in comparison.tables:
        notes = [*note_undertrained(comparison, table), *note_chance(table), *note_texts(table)]
        ruling = (note for note in (*of_trainings, *notes) if note.kind == RULES_OUT)
        excluded = {name for note in ruling for name in note.subjects}
        statistics = compute_statistics(table, excluded)
        notes += note_statistics(table, statistics)
        within = margin_of(table, margin)
        verdicts = give_verdicts(table, statistics.over_seeds, [*of_trainings, *notes], within)
        judged.append(Judged(table, notes, statistics, within, verdicts))
    return of_trainings, judged


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
            reasons = dict.fromkeys(note.reason or OTHER for note in ruling)
            why = " and ".join(reasons) or "there is nothing to compare with"
            verdicts[name] = Verdict(INCONCLUSIVE, why)
    return verdicts


def find_reasons(notes: Iterable[Note], name: str, baseline: str, verdict: Verdict) -> list[str]:
    """Find the reasons why a model's order with the baseline is open, whatever the seeds say.

    A value beyond the edge of a grid could only make a model better. So a model remains better if
    its own value is at an edge, and worse if the baseline's is.
    """
    undone_by = {BETTER: {baseline}, WORSE: {name}}.get(verdict.word, {name, baseline})
    reasons = [
        note.reason or OTHER
        for note in notes
        if note.kind == LEAVES_OPEN
        and {*note.subjects} & (undone_by if note.reason in EDGES else {name, baseline})
    ]
    return [*dict.fromkeys(reasons)]
