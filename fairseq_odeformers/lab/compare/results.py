"""Results: ``results.csv``, which is all that runs and reports share.

A row is a score of a run, with what its training was and cost. Each run writes its own rows into
its folder. The file of the comparison is made of them, so that commands that share a folder do not
disturb each other. Reports, scoreboards, notebooks and pandas read it, together with the
predictions and learning curves that it names.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, get_type_hints

import numpy as np
from filelock import FileLock

from fairseq_odeformers.files import (
    check_regular,
    find_free_name,
    naming_faults,
    reading,
    write_csv,
)

RESULTS, LOCK = "results.csv", ".results.lock"
RUN = "run.yaml"  # in the folder of each run
OLD_PLAN = "plan.yaml"  # in folders of earlier versions
SCHEMA = 1  # of the columns
CPU = "cpu"  # what training.py adds to the statistics of an epoch


Options = dict[str, Any]  # of a command, by their names without "--"; True is a switch


def to_words(options: Options) -> list[str]:
    """Options as the words of a command line."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words


def clock(seconds: float) -> str:
    """A time such as 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"


@dataclass(frozen=True)
class Row:
    """A line of ``results.csv``.

    Each run has a row without a metric, which tells of its training alone. A number that is not
    known is None. Paths are relative to the folder of the file.
    """

    # The comparison.
    schema: int = SCHEMA
    comparison: str = ""  # its name, where a file has several
    baseline: str = ""  # the architecture that others are compared with
    task: str = ""  # of fairseq
    data: str = ""
    environment: str = ""  # date, machine and versions, when the run began
    command: str = ""  # when the command that planned the run was started
    # The run.
    run: str = ""  # its folder
    begun: str = ""
    state: str = ""  # what the run lacks; "" if it has finished
    family: str = ""  # the row of a scoreboard
    architecture: str = ""  # its name in tables
    tuned: str = ""  # the values of tuned options, such as lr 1e-3
    seed: int = 1
    options: str = ""  # of fairseq-train, as typed
    defaults: str = ""  # other options of the model, as typed
    size: str = ""  # how its width was chosen
    evaluation: str = ""  # options of the evaluation
    # The training.
    parameters: int = 0  # that are trained
    budget: float | None = None  # minutes of training that were asked for
    updates: int | None = None
    epoch_updates: int | None = None  # of one epoch
    seconds: float | None = None  # of updates, on the clock
    cpu_seconds: float | None = None  # of updates
    tokens_per_second: float | None = None
    validated: str = ""  # the metric that chooses the best checkpoint
    maximized: bool = False  # whether a higher value of it is better
    validation: float | None = None  # its best value
    validation_texts: int | None = None
    curve: str = ""  # the path of the learning curve
    # The score.
    checkpoint: str = ""
    split: str = ""
    metric: str = ""
    score: float | None = None
    printed: str = ""  # by a recipe's own command, which is the metric
    signature: str = ""  # how the score was computed
    paper: str = ""  # the paper's figures for the architecture
    texts: int | None = None
    unknown: float | None = None  # the share of unknown words
    predictions: str = ""  # the path of a table of references and outputs
    notes: str = ""  # of the report, where predictions and curves are not kept

    @property
    def value(self) -> float:
        """The score, which all rows of tables have."""
        assert self.score is not None
        return self.score

    @property
    def cost(self) -> float:
        """The seconds that the training has cost: of the CPU where it is known, else of the clock.

        Other processes on the machine make the clock's longer.
        """
        return self.cpu_seconds or self.seconds or 0.0


# --- files -------------------------------------------------------------------------------------


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as :func:`read_rows` reads them."""
    write_csv(path, [asdict(row) for row in rows])


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, or of the file in a folder.

    Raises:
        ValueError: a line is damaged, or of another schema; the message has its number.
    """
    path = path / RESULTS if path.is_dir() else path
    types = get_type_hints(Row)
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != list(types):
            raise ValueError(
                f"{path}, line 1: no results of this version; its columns are {', '.join(types)}"
            )
        rows = []
        for cells in reader:
            with naming_faults(f"{path}, line {reader.line_num}"):
                row = Row(**{name: parse(cells[name], types[name]) for name in types})
                if row.schema != SCHEMA:
                    raise ValueError(f"schema {row.schema}; this version reads {SCHEMA}")
                for part in map(PurePath, (row.curve, row.predictions)):
                    if part.is_absolute() or ".." in part.parts:
                        raise ValueError(f"{part} is not below the folder of the file")
            rows.append(row)
    return rows


def collect_rows(out: Path) -> None:
    """Make the file of a comparison of the rows that its runs have written."""
    with FileLock(out / LOCK):  # other runs may end at the same time
        files = [path.with_name(RESULTS) for path in out.glob(f"*/{RUN}")]
        rows = [row for path in files if path.exists() for row in read_rows(path)]
        begun: dict[str, str] = {}  # by architecture
        for row in rows:
            begun[row.architecture] = min(row.begun, begun.get(row.architecture, row.begun))
        rows.sort(key=lambda row: (begun[row.architecture], row.begun))
        if rows:
            write_rows(out / RESULTS, rows)


def parse(cell: str, kind: Any) -> Any:
    """The value of a cell, of the type of its column."""
    if kind is str:
        return cell
    if kind is bool:
        return {"True": True, "False": False}[cell]
    if kind is int:
        return int(cell)
    return None if cell == "" else (int if kind == int | None else float)(cell)


# --- learning curves and predictions -------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A learning curve: what each validation of a training has shown."""

    updates: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of training, until there
    loss: list[float] = field(default_factory=list)
    metric: list[float] = field(default_factory=list)  # that chooses the best checkpoint
    train_loss: list[float] = field(default_factory=list)
    best: int = 0  # the number of the validation whose checkpoint is scored

    @property
    def improving(self) -> bool:
        """Whether the last validation was better than all before it."""
        return len(self.loss) > 1 and self.loss[-1] < min(self.loss[:-1])

    @property
    def late_gain(self) -> float:
        """By how much the last quarter of the updates has lowered the loss.

        It is a share of the first loss, since a classifier's last one may be near zero.
        """
        before = float(np.interp(0.75 * self.updates[-1], self.updates, self.loss))
        return (before - self.loss[-1]) / self.loss[0]


COLUMNS = {"updates": int, "seconds": float, "loss": float, "metric": float, "train_loss": float}


def write_curve(path: Path, curve: Curve) -> None:
    values = [getattr(curve, name) for name in COLUMNS]
    rows = [dict(zip(COLUMNS, row)) for row in zip(*values)]
    write_csv(path, [{**row, "best": n == curve.best} for n, row in enumerate(rows)])


def read_curve(path: Path) -> Curve:
    """A curve that :func:`write_curve` has written."""
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
        columns = {name: [kind(row[name]) for row in rows] for name, kind in COLUMNS.items()}
        return Curve(**columns, best=[row["best"] for row in rows].index("True"))


@dataclass(frozen=True)
class Predictions:
    """The outputs of a model for the texts of a split, in their order."""

    source: list[str]  # what was translated, or has a class
    reference: list[str]  # the translation as published, or the class
    output: list[str]
    probability: list[float]  # of the right class; none of translations


def write_predictions(path: Path, predictions: Predictions) -> None:
    shares = predictions.probability or [""] * len(predictions.output)
    columns = predictions.source, predictions.reference, predictions.output, shares
    names = ("id", *(each.name for each in fields(Predictions)))
    write_csv(path, [dict(zip(names, (n, *row))) for n, row in enumerate(zip(*columns))])


def read_predictions(path: Path, count: int | None = None) -> Predictions:
    """Predictions that :func:`write_predictions` has written, of so many texts."""
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        csv.field_size_limit(1 << 30)  # a text may be long
        rows = list(csv.DictReader(file))
        if len(rows) != (count or len(rows)) or any(None in row.values() for row in rows):
            raise ValueError(f"{path} has no predictions of {count} texts; it is damaged")
        source, reference, output = (
            [row[name] for row in rows] for name in ("source", "reference", "output")
        )
        shares = [float(row["probability"]) for row in rows if row["probability"]]
        if len(shares) not in (0, len(rows)):
            raise ValueError(f"{path} has no probability of each text; it is damaged")
        return Predictions(source, reference, output, shares)


# --- comparisons ---------------------------------------------------------------------------------


Runs = dict[int, Row]  # by seed


@dataclass(frozen=True)
class Table:
    """The scores of a checkpoint on a split."""

    split: str
    checkpoint: str
    scores: dict[str, dict[str, Runs]]  # by architecture and metric, the one that counts first
    baseline: str
    folder: Path

    @property
    def metrics(self) -> list[str]:
        return list(dict.fromkeys(metric for each in self.scores.values() for metric in each))

    @property
    def main(self) -> dict[str, Runs]:
        """The rows of the score that counts, by architecture and seed."""
        metric = self.metrics[0]
        return {name: each[metric] for name, each in self.scores.items() if metric in each}

    @property
    def first(self) -> Row:
        """One of its rows."""
        return next(row for runs in self.main.values() for row in runs.values())

    @cached_property
    def predictions(self) -> dict[str, dict[int, Predictions]]:
        """By architecture and seed, as far as there are any."""
        return {
            name: {
                seed: read_predictions(self.folder / row.predictions, row.texts)
                for seed, row in runs.items()
                if row.predictions
            }
            for name, runs in self.main.items()
        }


class Comparison:
    """The rows of one comparison, as a report shows them: one setting of each architecture.

    Attributes:
        baseline: the architecture that the others are compared with; it comes first.
        rows: of trainings at the chosen settings, by architecture and seed.
        candidates: of trainings at all tried settings, with the seed that chooses.
        tables: scores, by split and checkpoint.
        all_rows: of all settings.
        printed: rows of what a recipe's own commands have printed.
    """

    def __init__(self, rows: Sequence[Row], folder: Path, baseline: str = ""):
        names = list(dict.fromkeys(row.architecture for row in rows))
        self.baseline = baseline or rows[0].baseline
        if self.baseline not in names:
            if baseline:
                raise ValueError(f"--baseline {baseline}: give one of {', '.join(names)}")
            self.baseline = names[0]
        names.sort(key=lambda name: name != self.baseline)
        self.folder, self.all_rows = folder, rows
        trainings = [row for row in rows if not row.metric]
        chosen = choose_settings(trainings)
        self.candidates = [row for row in trainings if row.tuned and row.seed == chosen.seed]
        self.candidates.sort(key=lambda row: names.index(row.architecture))
        rows = [row for row in rows if chosen.settings.get(row.architecture) == row.tuned]
        self.rows: dict[str, Runs] = {name: {} for name in names}
        self.tables: list[Table] = []
        self.printed = [row for row in rows if row.printed]
        for row in rows:
            if not row.metric:
                self.rows[row.architecture][row.seed] = row
        scored = [row for row in rows if row.score is not None]
        for split, checkpoint in dict.fromkeys((row.split, row.checkpoint) for row in scored):
            scores: dict[str, dict[str, Runs]] = {}
            of_table = [row for row in scored if (row.split, row.checkpoint) == (split, checkpoint)]
            for row in sorted(of_table, key=lambda row: (names.index(row.architecture), row.seed)):
                scores.setdefault(row.architecture, {}).setdefault(row.metric, {})[row.seed] = row
            self.tables.append(Table(split, checkpoint, scores, self.baseline, folder))

    @cached_property
    def trained(self) -> dict[str, Runs]:
        """The trainings that have been validated, by architecture and seed."""
        trained = {
            name: {seed: row for seed, row in sorted(runs.items()) if row.validation is not None}
            for name, runs in self.rows.items()
        }
        return {name: runs for name, runs in trained.items() if runs}

    @cached_property
    def curves(self) -> dict[str, dict[int, Curve]]:
        """The learning curves of these, as far as there are any."""
        return {
            name: {s: read_curve(self.folder / row.curve) for s, row in runs.items() if row.curve}
            for name, runs in self.trained.items()
        }


@dataclass(frozen=True)
class Choice:
    """What tuning has chosen: a setting of each architecture, with one seed."""

    seed: int
    settings: dict[str, str]  # values of tuned options, by architecture


def choose_settings(trainings: Sequence[Row]) -> Choice:
    """The setting of each architecture that validates best with the seed that was tuned with.

    It is the seed that most settings were trained with. Before any has been validated, the first
    setting is chosen.
    """
    seeds = [row.seed for row in trainings]
    seed = max(dict.fromkeys(seeds), key=seeds.count) if seeds else 1
    best: dict[str, Row] = {}
    for row in trainings:
        before = best.setdefault(row.architecture, row)
        if row.seed == seed and row.validation is not None and row.validation == row.validation:
            sign = 1 if row.maximized else -1
            worse = before.validation is None or sign * row.validation > sign * before.validation
            if before.seed != seed or worse:
                best[row.architecture] = row
    return Choice(seed, {name: row.tuned for name, row in best.items()})


def check_version(out: Path) -> None:
    """Check that no earlier version has begun a folder."""
    if (out / OLD_PLAN).exists():
        raise ValueError(
            f"{out} was begun by an earlier version, whose {OLD_PLAN} this one does not read; give "
            f"another folder, such as {find_free_name(out)}"
        )


def read_comparison(out: Path, baseline: str = "") -> Comparison:
    """The comparison in a folder.

    Raises:
        ValueError: there is none; the message has the folder to give.
    """
    check_regular(out)
    check_version(out)
    if not (out / RESULTS).is_file():  # a run, or the folder of a recipe with parts
        paths = (out.parent, *sorted(out.glob("*")))
        near = [path for path in paths if (path / RESULTS).is_file()]
        if near:
            raise ValueError(f"{out}: no comparison; give {' or '.join(map(str, near))}")
        raise ValueError(f"{out}: it has no {RESULTS}; give a folder that was --out of compare")
    rows = read_rows(out)
    if not rows:
        raise ValueError(f"{out / RESULTS}: it has no rows; no run has begun")
    return Comparison([replace(row, comparison="") for row in rows], out, baseline)
