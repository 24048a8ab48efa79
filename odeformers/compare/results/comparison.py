"""Comparisons: the rows that a report shows, with one setting of each architecture."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import check_regular

from .rows import RESULTS, Row, find_kind, group, read_rows, share_clock

TUNING_SEED = 0  # trainings with this seed choose options
Runs = dict[str, list[Row]]  # the rows of each architecture, one per seed, sorted by seed


class Table:
    """The scores of a checkpoint on a split.

    Attributes:
        scores: rows by metric, beginning with the main metric.
        main: rows of the main metric.
        first: the first of all rows.
    """

    def __init__(self, rows: Sequence[Row], baseline: str):
        self.baseline, self.first = baseline, rows[0]
        self.split, self.checkpoint = self.first.split, self.first.checkpoint
        metrics = group(rows, "metric")
        self.scores: dict[str, Runs] = {m: group(of, "architecture") for m, of in metrics.items()}
        self.metric, self.main = next(iter(self.scores.items()))


class Comparison:
    """The rows of one comparison that a report shows, with one setting of each architecture.

    Attributes:
        baseline: the architecture that the others are compared with; it comes first.
        rows: all rows of the comparison.
        runs: rows of trainings with the chosen settings; all costs from here on use one clock.
        trained: those rows of *runs* whose trainings have ended.
        candidates: rows of trainings with all settings tried, with the seed that chooses.
        kind: kind of the models.
        tables: scores of each split and checkpoint.
        printed: rows with the output of a recipe's own commands.
    """

    def __init__(self, rows: Sequence[Row], baseline: str = ""):
        names = list(dict.fromkeys(row.architecture for row in rows))
        if baseline and baseline not in names:
            raise InputError(f"--baseline {baseline}: give one of {', '.join(names)}")
        baseline = baseline or rows[0].baseline
        self.rows, self.baseline = rows, baseline if baseline in names else names[0]
        names.sort(key=lambda name: name != self.baseline)
        trainings = [row for row in rows if not row.metric]
        self.kind = find_kind(trainings[0].task)
        seed, settings = find_tuning_seed(trainings), choose_settings(trainings)
        rows = sorted(rows, key=lambda row: (names.index(row.architecture), row.seed))
        self.candidates = [r for r in rows if r.tuned and r.seed == seed and not r.metric]
        chosen = [r for r in rows if r.tuned == settings.get(r.architecture)]
        scored_runs = {row.run for row in chosen if row.metric}
        rows = share_clock([r for r in chosen if not only_tunes(r, scored_runs)])
        self.runs: Runs = group((row for row in rows if not row.metric), "architecture")
        ended = (r for r in rows if not r.metric and r.trained and r.validation is not None)
        self.trained: Runs = group(ended, "architecture")
        self.printed = [row for row in rows if row.printed]
        scored = group((row for row in rows if row.score is not None), "place")
        self.tables = [Table(of_place, self.baseline) for of_place in scored.values()]


def only_tunes(row: Row, scored: Collection[str]) -> bool:
    """Return whether a training has only chosen options, so that no table of scores contains it.

    Args:
        scored: runs with scores; earlier versions also scored the seed that tunes.
    """
    return bool(row.tuned) and row.seed == TUNING_SEED and row.run not in scored


class Begun(Protocol):
    """A run that has begun, described by a row or a variant."""

    @property
    def seed(self) -> int: ...

    @property
    def begun(self) -> str: ...


def find_tuning_seed(trainings: Iterable[Begun]) -> int:
    """Find the seed that tunes options: the seed with which most settings were trained.

    Ties go to the seed whose run began first. A seed may have been trained again.
    """
    seeds = [row.seed for row in sorted(trainings, key=lambda row: row.begun)]
    return max(seeds, key=seeds.count, default=1)


def choose_settings(trainings: Iterable[Row]) -> dict[str, str]:
    """Choose each architecture's values of tuned options that validate best with the tuning seed.

    Among equal settings, the one with the lowest validation loss is chosen. If the losses are equal
    too, or if no training has ended, the setting that began first is chosen.
    """
    in_order, settings = sorted(trainings, key=lambda row: row.begun), {}
    seed = find_tuning_seed(in_order)
    for name, rows in group(in_order, "architecture").items():
        tried = (row for row in rows if row.seed == seed)
        best = sorted(tried, key=lambda row: -row.quality)
        equal = [row for row in best if row.quality == best[0].quality] or rows[:1]
        chosen = min(equal, key=lambda row: row.best_loss) if equal[1:] else equal[0]
        settings[name] = chosen.tuned
    return settings


def read_comparison(out: Path, baseline: str = "") -> Comparison:
    """Read the comparison in a folder.

    Raises:
        InputError: the folder contains no comparison; the message says which folder to give.
    """
    check_regular(out)
    rows = read_rows(out) if (out / RESULTS).is_file() else []
    if not rows:  # the folder is a run, or of a recipe with parts, or no run has begun
        paths = (out.parent, *sorted(out.glob("*")))
        near = " or ".join(str(path) for path in paths if (path / RESULTS).is_file())
        fault = "no comparison" if near else f"no {RESULTS} with a row"
        raise InputError(f"{out}: {fault}; give {near or 'a folder that was --out of compare'}")
    return Comparison(rows, baseline)
