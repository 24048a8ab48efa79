"""Results: ``results.csv``, which is all that runs and reports share.

A row is a score of a run, with what its training was and cost. Each run writes its own rows into
its folder. The file of the comparison is made of them, so that commands that share a folder do not
disturb each other. Reports, notebooks and pandas read it, together with the predictions and
learning curves that it names.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar, get_type_hints

import numpy as np
from filelock import FileLock

from fairseq_odeformers.files import (
    check_regular,
    naming_faults,
    reading,
    write_csv,
)
from fairseq_odeformers.registry import Kind

RESULTS = "results.csv"
BEST_CHECKPOINT = "best checkpoint"  # whose scores count
RUN = "run.yaml"  # in the folder of each run
SCHEMA = 1  # of the columns
TUNING_SEED = 0  # trainings with this seed choose options
NOT_EVALUATED = "not evaluated"  # what a run lacks that is trained; the reason may follow
LOSSES = ("loss", "nll_loss")  # the second without label smoothing and regularisers
CPU, CLOCK = "cpu", "clock"  # the seconds that training.py adds to the statistics of an epoch
T = TypeVar("T")


def find_kind(task: str) -> Kind:
    """The kind of models that a task trains; translators if nothing tells."""
    return Kind.of_task(task) or Kind.TRANSLATION


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
    tokens: float | None = None  # of all updates
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
    paper: str = ""  # the paper's figures for the architecture and metric
    cited: str = ""  # figures of others that stand beside it, with their sources
    texts: int | None = None
    unknown: float | None = None  # the share of unknown words, of pairs on either side
    leaked: float | None = None  # the share of texts that the training set has, too
    predictions: str = ""  # the path of a table of references and outputs, or of likelihoods
    notes: str = ""  # of the report, where predictions and curves are not kept
    # No column.
    folder: Path = field(default=Path(), compare=False)  # of the file

    @property
    def value(self) -> float:
        """The score, which all rows of tables have."""
        assert self.score is not None
        return self.score

    @property
    def trained(self) -> bool:
        """Whether the training has ended as it should."""
        return not self.state or self.state.startswith(NOT_EVALUATED)

    @property
    def cost(self) -> float:
        """The seconds that the training has cost: of the CPU, or on the clock where a GPU trains.

        Other processes on the machine make the clock's longer. All that is told of time uses it, so
        a comparison has one clock; see :func:`share_clock`.
        """
        return self.cpu_seconds or self.seconds or 0.0

    @property
    def effort(self) -> float:
        """The seconds that a budget counts: the clock's, or the CPU's if these are fewer.

        Several threads make the CPU's more.
        """
        return min(filter(None, (self.seconds, self.cpu_seconds)), default=0.0)

    @property
    def quality(self) -> float:
        """How well the best checkpoint of a training that has ended validates: higher is better."""
        if not self.trained or self.validation is None or math.isnan(self.validation):
            return -math.inf
        return self.validation if self.maximized else -self.validation

    @property
    def best_loss(self) -> float:
        """The validation loss of the best checkpoint; infinite if its curve is not there."""
        for folder in (self.folder, self.folder.parent):  # a run's own rows are in its folder
            if self.curve and (folder / self.curve).is_file():
                curve = read_curve(folder / self.curve)
                return curve.loss[curve.best]
        return math.inf

    @property
    def best_validation(self) -> str:
        """Direction and metric of the best checkpoint, such as ``highest accuracy``."""
        return f"{'highest' if self.maximized else 'lowest'} {self.validated}"

    @property
    def place(self) -> tuple[str, str]:
        """What was scored."""
        return self.split, self.checkpoint

    @cached_property
    def learning(self) -> Curve | None:
        """The learning curve, if it is there."""
        if not self.curve:
            return None
        curve = read_curve(self.folder / self.curve)
        scale = self.cost / (curve.seconds[-1] or 1)  # 1, unless the clock counts instead
        return replace(curve, seconds=[scale * seconds for seconds in curve.seconds])

    @cached_property
    def outputs(self) -> Predictions | None:
        """The predictions that have the score, if they are there."""
        if not self.predictions or self.metric == Kind.LANGUAGE_MODEL.score:
            return None
        return read_predictions(self.folder / self.predictions, self.texts)

    @cached_property
    def likelihoods(self) -> Likelihoods | None:
        """The likelihoods that have the perplexity, if they are there."""
        if not self.predictions or self.metric != Kind.LANGUAGE_MODEL.score:
            return None
        return read_likelihoods(self.folder / self.predictions)


def share_clock(rows: Sequence[Row]) -> list[Row]:
    """Rows whose costs are of one clock: without the CPU's seconds if a training lacks them."""
    if all(row.cpu_seconds for row in rows if row.trained and row.validation is not None):
        return [*rows]
    return [replace(row, cpu_seconds=None) for row in rows]


def name_time(rows: Iterable[Row], unit: str = "time") -> str:
    """What costs are counted in: *unit* of the CPU, or of the clock if a GPU has trained one."""
    return f"CPU {unit}" if all(row.cpu_seconds for row in rows) else unit


# --- files -------------------------------------------------------------------------------------

COLUMNS = {name: kind for name, kind in get_type_hints(Row).items() if name != "folder"}
ADDED = "cited"  # a column that files of the version before lack


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as :func:`read_rows` reads them."""
    write_csv(path, [{name: getattr(row, name) for name in COLUMNS} for row in rows])


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, or of the file in a folder.

    Raises:
        ValueError: a line is damaged, or of another schema; the message has its number.
    """
    path = path / RESULTS if path.is_dir() else path
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        reader, rows = csv.DictReader(file), []
        names = reader.fieldnames or []
        if names not in ([*COLUMNS], [name for name in COLUMNS if name != ADDED]):
            raise ValueError(
                f"{path}, line 1: no results of this version; its columns are {', '.join(COLUMNS)}"
            )
        for cells in reader:
            with naming_faults(f"{path}, line {reader.line_num}"):
                values = {name: parse(cells.get(name, ""), kind) for name, kind in COLUMNS.items()}
                row = Row(**values, folder=path.parent)
                if row.schema != SCHEMA:
                    raise ValueError(f"schema {row.schema}; this version reads {SCHEMA}")
                for part in map(PurePath, (row.curve, row.predictions)):
                    if part.is_absolute() or ".." in part.parts:
                        raise ValueError(f"{part} is not below the folder of the file")
            rows.append(row)
    return rows


def parse(cell: str, kind: Any) -> Any:
    """The value of a cell, of the type of its column; an empty one has no number."""
    if kind is str:
        return cell
    if kind is bool:
        return {"True": True, "False": False}[cell]
    if kind in (int, int | None):
        return int(cell) if cell or kind is int else None
    return float(cell) if cell else None


def lock(path: Path) -> FileLock:
    """The lock of a file that is made of rows, and of the files that are written with it.

    Whoever holds it reads the rows anew and writes whole files, so that commands in one folder
    leave no mixture.
    """
    return FileLock(path.with_name(f".{path.stem}.lock"))


def find_runs(out: Path) -> list[Path]:
    """The folders of all runs of a comparison that have begun."""
    return sorted(path.parent for path in out.glob(f"*/{RUN}"))


def read_runs(out: Path) -> list[Row]:
    """The rows that the runs of a comparison have written, each in its folder."""
    files = [folder / RESULTS for folder in find_runs(out)]
    return [row for path in files if path.exists() for row in read_rows(path)]


def collect_rows(out: Path, order: Iterable[str] = ()) -> None:
    """Make the file of a comparison of the rows that its runs have written.

    Architectures are in the order of their first runs.

    Args:
        order: architectures that are in this order, in the places that they have together.
    """
    with lock(out / RESULTS):
        rows = read_runs(out)
        begun = {n: min(r.begun for r in runs) for n, runs in group(rows, "architecture").items()}
        names = sorted(begun, key=lambda name: begun[name])
        ordered = [name for name in order if name in begun]
        following = iter(ordered)
        names = [next(following) if name in ordered else name for name in names]
        rows.sort(key=lambda row: (names.index(row.architecture), row.begun))
        if rows:
            write_rows(out / RESULTS, rows)


# --- learning curves and predictions -------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A learning curve: what each validation of a training has shown."""

    updates: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # that the training has cost until there
    loss: list[float] = field(default_factory=list)
    metric: list[float] = field(default_factory=list)  # that chooses the best checkpoint
    train_loss: list[float] = field(default_factory=list)
    best: int = 0  # the number of the validation whose checkpoint is scored

    @property
    def late_gain(self) -> float:
        """By how much the last quarter of the updates has lowered the loss; 0 if it was lower.

        It is a share of the first loss, since a classifier's last one may be near zero.
        """
        if self.loss[-1] >= min(self.loss[:-1], default=-np.inf):
            return 0.0
        before = float(np.interp(0.75 * self.updates[-1], self.updates, self.loss))
        return (before - self.loss[-1]) / self.loss[0]


def write_curve(path: Path, curve: Curve) -> None:
    best = [number == curve.best for number in range(len(curve.updates))]
    write_columns(path, {**asdict(curve), "best": best})


def read_curve(path: Path) -> Curve:
    """A curve that :func:`write_curve` has written."""
    with reading(path):
        columns = read_columns(path)
        best, updates = columns.pop("best").index("True"), [*map(int, columns.pop("updates"))]
        values = {name: [*map(float, cells)] for name, cells in columns.items()}
        return Curve(updates, **values, best=best)


@dataclass(frozen=True)
class Predictions:
    """The outputs of a model for the texts of a split, in their order."""

    source: list[str]  # what was translated, or has a class
    reference: list[str]  # the translation as published, or the class
    output: list[str]
    probability: list[float]  # of the right class; none of translations


def write_predictions(path: Path, predictions: Predictions) -> None:
    numbers = range(len(predictions.output))
    shares = predictions.probability or [""] * len(numbers)
    write_columns(path, {"id": numbers, **asdict(predictions), "probability": shares})


def read_predictions(path: Path, count: int | None = None) -> Predictions:
    """Predictions that :func:`write_predictions` has written, of so many texts."""
    with reading(path):
        columns = read_columns(path)
        texts = [columns[name] for name in ("source", "reference", "output")]
        shares = [float(cell) for cell in columns["probability"] if cell]
        if len(texts[0]) != (count or len(texts[0])) or len(shares) not in (0, len(texts[0])):
            raise ValueError(f"{path} has no predictions of {count} texts; it is damaged")
        return Predictions(*texts, probability=shares)


@dataclass(frozen=True)
class Likelihoods:
    """How a language model predicts texts, or blocks of them.

    Attributes:
        tokens: the number of tokens in each text.
        nll: the sum of their negative log-likelihoods, in nats.
    """

    tokens: np.ndarray
    nll: np.ndarray

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll.sum() / self.tokens.sum())


def write_likelihoods(path: Path, likelihoods: Likelihoods) -> None:
    nll = [round(value, 6) for value in likelihoods.nll.tolist()]
    write_columns(path, {"tokens": likelihoods.tokens.tolist(), "nll": nll})


def read_likelihoods(path: Path) -> Likelihoods:
    """Likelihoods that :func:`write_likelihoods` has written."""
    with reading(path):
        columns = read_columns(path)
        return Likelihoods(
            np.array([*map(int, columns["tokens"])]), np.array(columns["nll"], float)
        )


def write_columns(path: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    write_csv(path, [dict(zip(columns, row)) for row in zip(*columns.values())])


def read_columns(path: Path) -> dict[str, list[str]]:
    """The cells of a table with a header, by column."""
    csv.field_size_limit(1 << 30)  # a text may be long
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if any(None in row or None in row.values() for row in rows):
        raise ValueError(f"{path} has lines of other lengths than its header; it is damaged")
    return {name: [row[name] for row in rows] for name in rows[0]}


# --- comparisons ---------------------------------------------------------------------------------

Runs = dict[str, list[Row]]  # rows of each architecture, one per seed, in the order of the seeds


def group(rows: Iterable[T], column: str) -> dict[Any, list[T]]:
    """The rows that have each value of a column, in their order."""
    groups: dict[Any, list[T]] = {}
    for row in rows:
        groups.setdefault(getattr(row, column), []).append(row)
    return groups


class Table:
    """The scores of a checkpoint on a split.

    Attributes:
        scores: by metric, the one that counts first.
        main: of the one that counts.
        first: one of its rows.
    """

    def __init__(self, rows: Sequence[Row], baseline: str):
        self.baseline, self.first = baseline, rows[0]
        self.split, self.checkpoint = self.first.split, self.first.checkpoint
        metrics = group(rows, "metric")
        self.scores: dict[str, Runs] = {m: group(of, "architecture") for m, of in metrics.items()}
        self.metric, self.main = next(iter(self.scores.items()))


class Comparison:
    """The rows of one comparison, as a report shows them: one setting of each architecture.

    Attributes:
        baseline: the architecture that the others are compared with; it comes first.
        rows: all of the comparison.
        runs: rows of trainings at the chosen settings; these and the following have one clock.
        trained: the same, of trainings that have ended.
        candidates: rows of trainings at all tried settings, with the seed that chooses.
        kind: of the models.
        tables: scores of each split and checkpoint.
        printed: rows of what a recipe's own commands have printed.
    """

    def __init__(self, rows: Sequence[Row], baseline: str = ""):
        names = list(dict.fromkeys(row.architecture for row in rows))
        if baseline and baseline not in names:
            raise ValueError(f"--baseline {baseline}: give one of {', '.join(names)}")
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
    """Whether a training has chosen options, and so counts in no table of scores.

    Args:
        scored: the runs that have scores: earlier versions scored the seed that tunes.
    """
    return bool(row.tuned) and row.seed == TUNING_SEED and row.run not in scored


class Begun(Protocol):
    """A training that has begun, as a row or a variant tells."""

    @property
    def seed(self) -> int: ...

    @property
    def begun(self) -> str: ...


def find_tuning_seed(trainings: Iterable[Begun]) -> int:
    """The seed that options are tuned with: most settings were trained with it.

    Among equal seeds the training that began first decides; a seed may have been trained anew.
    """
    seeds = [row.seed for row in sorted(trainings, key=lambda row: row.begun)]
    return max(seeds, key=seeds.count, default=1)


def choose_settings(trainings: Iterable[Row]) -> dict[str, str]:
    """The values of tuned options, by architecture, that validate best with the seed that tunes.

    If several are equal, the one with the lowest validation loss is chosen. If their losses are
    equal, too, or if no training has ended, it is the one that began first.
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
    """The comparison in a folder.

    Raises:
        ValueError: the folder has none; the message says which folder to give.
    """
    check_regular(out)
    rows = read_rows(out) if (out / RESULTS).is_file() else []
    if not rows:  # a run, the folder of a recipe with parts, or no run has begun
        paths = (out.parent, *sorted(out.glob("*")))
        near = " or ".join(str(path) for path in paths if (path / RESULTS).is_file())
        fault = "no comparison" if near else f"no {RESULTS} with a row"
        raise ValueError(f"{out}: {fault}; give {near or 'a folder that was --out of compare'}")
    return Comparison(rows, baseline)
