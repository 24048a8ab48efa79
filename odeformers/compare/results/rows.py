"""Results: ``results.csv``, the only file that runs and reports share.

A row is a score of a run, with the settings and the cost of its training. Each run writes its own
rows into its folder. The comparison's file is made from these rows, so that commands that share a
folder do not disturb each other. Reports, notebooks and pandas read this file, together with the
predictions and learning curves that it names. A :class:`Comparison` is what a report shows of it.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar, get_type_hints

from filelock import FileLock

from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import check_regular, reading, write_csv
from fairseq_odeformers.registry import Kind

from .curves import Curve, Likelihoods, Predictions, read_curve, read_likelihoods, read_predictions

RESULTS = "results.csv"
BEST_CHECKPOINT = "best checkpoint"  # the checkpoint that verdicts compare
RUN = "run.yaml"  # a file in the folder of each run
SCHEMA = 1  # version of the columns
NOT_EVALUATED = "not evaluated"  # state of a run that has only trained; the reason may follow
DIVERGED = "the loss or the gradients became NaN or infinite"  # part of the state of such a run
CLASSES = "classes"  # precedes the number of classes in the signature of macro-F1
LOSSES = ("loss", "nll_loss")  # the second excludes label smoothing and regularisers
T = TypeVar("T")


def find_kind(task: str) -> Kind:
    """Find the kind of models that a task trains; an unknown task trains translators."""
    return Kind.of_task(task) or Kind.TRANSLATION


@dataclass(frozen=True)
class Row:
    """A line of ``results.csv``.

    Each run has a row without a metric, about its training. An unknown number is None. Paths are
    relative to the folder of the file.
    """

    # The comparison.
    schema: int = SCHEMA
    comparison: str = ""  # name of the comparison, if a file has several
    baseline: str = ""  # the architecture that others are compared with
    task: str = ""  # task of fairseq
    data: str = ""
    environment: str = ""  # date, machine and versions, when the run started
    command: str = ""  # time when the command that planned the run was started
    # The run.
    run: str = ""  # folder of the run
    begun: str = ""  # time when the run started
    state: str = ""  # why the run is unfinished; "" if it has finished
    family: str = ""  # the row of a scoreboard
    architecture: str = ""  # name in tables
    tuned: str = ""  # the values of tuned options, such as lr 1e-3
    seed: int = 1
    options: str = ""  # options of fairseq-train, as typed
    defaults: str = ""  # other options of the model, as typed
    size: str = ""  # how the width was chosen
    evaluation: str = ""  # options of the evaluation
    # The training.
    parameters: int = 0  # number of trained parameters
    budget: float | None = None  # requested minutes of training
    updates: int | None = None
    epoch_updates: int | None = None  # updates of one epoch
    seconds: float | None = None  # wall-clock time of the updates
    cpu_seconds: float | None = None  # CPU time of the updates
    tokens: float | None = None  # number of tokens in all updates
    validated: str = ""  # the metric that chooses the best checkpoint
    maximized: bool = False  # whether a higher value of this metric is better
    validation: float | None = None  # best value of this metric
    validation_texts: int | None = None
    curve: str = ""  # the path of the learning curve
    # The score.
    checkpoint: str = ""
    split: str = ""
    metric: str = ""
    score: float | None = None
    printed: str = ""  # output of a recipe's own command, the metric
    signature: str = ""  # how the score was computed
    paper: str = ""  # the paper's figures for the architecture and metric
    cited: str = ""  # figures from elsewhere to show beside the score, with their sources
    texts: int | None = None
    unknown: float | None = None  # share of unknown words; for pairs, on either side
    leaked: float | None = None  # the share of texts that are also in the training set
    predictions: str = ""  # the path of a table of references and outputs, or of likelihoods
    notes: str = ""  # notes of the report, if predictions and curves are not kept
    # The next field is not a column.
    folder: Path = field(default=Path(), compare=False)  # contains the file

    @property
    def value(self) -> float:
        """The score, which exists in all rows of tables."""
        assert self.score is not None
        return self.score

    @property
    def trained(self) -> bool:
        """Whether training has ended as it should."""
        return not self.state or self.state.startswith(NOT_EVALUATED)

    @property
    def informative(self) -> bool:
        """Whether the run shows how good its options are: training has ended, or has diverged.

        A run that was killed shows nothing.
        """
        return self.trained or DIVERGED in self.state

    @property
    def cost(self) -> float:
        """The seconds that training has cost: CPU time, or wall-clock time with a GPU.

        Other processes on the machine inflate wall-clock time. All reported times use this
        property, so a comparison uses a single clock; see :func:`share_clock`.
        """
        return self.cpu_seconds or self.seconds or 0.0

    @property
    def effort(self) -> float:
        """The seconds that a budget counts: wall-clock time, or CPU time if that is less.

        With several threads, training takes more CPU time than wall-clock time.
        """
        return min(filter(None, (self.seconds, self.cpu_seconds)), default=0.0)

    @property
    def quality(self) -> float:
        """The validation score of the best checkpoint, after training; higher is better."""
        if not self.trained or self.validation is None or math.isnan(self.validation):
            return -math.inf
        return self.validation if self.maximized else -self.validation

    @property
    def best_loss(self) -> float:
        """The validation loss of the best checkpoint; infinite if there is no learning curve."""
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
        """The split and the checkpoint that the score refers to."""
        return self.split, self.checkpoint

    @cached_property
    def learning(self) -> Curve | None:
        """The learning curve, if its file exists."""
        if not self.curve:
            return None
        curve = read_curve(self.folder / self.curve)
        scale = self.cost / (curve.seconds[-1] or 1)  # 1, unless the clock counts instead
        return replace(curve, seconds=[scale * seconds for seconds in curve.seconds])

    @cached_property
    def outputs(self) -> Predictions | None:
        """The predictions that were scored, if their file exists."""
        if not self.predictions or self.metric == Kind.LANGUAGE_MODEL.score:
            return None
        return read_predictions(self.folder / self.predictions, self.texts)

    @cached_property
    def likelihoods(self) -> Likelihoods | None:
        """The likelihoods that give the perplexity, if their file exists."""
        if not self.predictions or self.metric != Kind.LANGUAGE_MODEL.score:
            return None
        return read_likelihoods(self.folder / self.predictions)


def share_clock(rows: Sequence[Row]) -> list[Row]:
    """Make the costs of rows use one clock: drop all CPU times if a row lacks its CPU time."""
    if all(row.cpu_seconds for row in rows if row.trained and row.validation is not None):
        return [*rows]
    return [replace(row, cpu_seconds=None) for row in rows]


def name_time(rows: Iterable[Row], unit: str = "time") -> str:
    """Name the unit of costs: *unit* of the CPU, or of the clock if a GPU has trained a model."""
    return f"CPU {unit}" if all(row.cpu_seconds for row in rows) else unit


# --- files -------------------------------------------------------------------------------------

COLUMNS = {name: kind for name, kind in get_type_hints(Row).items() if name != "folder"}
ADDED = "cited"  # a column that files of the previous version lack


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write rows in the form that :func:`read_rows` reads."""
    write_csv(path, [{name: getattr(row, name) for name in COLUMNS} for row in rows])


def read_rows(path: Path) -> list[Row]:
    """Read the rows of a file, or of the file in a folder.

    Raises:
        InputError: a line is damaged, or of another schema; the message names its number.
    """
    path = path / RESULTS if path.is_dir() else path
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        reader, rows = csv.DictReader(file), []
        names = reader.fieldnames or []
        if names not in ([*COLUMNS], [name for name in COLUMNS if name != ADDED]):
            raise InputError(
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
    """Parse a cell as the type of its column; an empty cell of numbers is None."""
    if kind is str:
        return cell
    if kind is bool:
        return {"True": True, "False": False}[cell]
    if kind in (int, int | None):
        return int(cell) if cell or kind is int else None
    return float(cell) if cell else None


def lock(path: Path) -> FileLock:
    """Return the lock of a file that is made from rows, and of the files written with it.

    The holder reads the rows again and rewrites whole files, so that concurrent commands in one
    folder cannot mix their output.
    """
    return FileLock(path.with_name(f".{path.stem}.lock"))


def find_runs(out: Path) -> list[Path]:
    """Find the folders of all started runs of a comparison."""
    return sorted(path.parent for path in out.glob(f"*/{RUN}"))


def read_runs(out: Path) -> list[Row]:
    """Read the rows that the runs of a comparison have written, each in its folder."""
    files = [folder / RESULTS for folder in find_runs(out)]
    return [row for path in files if path.exists() for row in read_rows(path)]


def collect_rows(out: Path, order: Iterable[str] = ()) -> None:
    """Make the file of a comparison from the rows that its runs have written.

    Architectures are in the order of their first runs.

    Args:
        order: architectures to list in this order, in the positions that they occupy together; all
            others keep their positions.
    """
    with lock(out / RESULTS):
        rows = read_runs(out)
        first = {n: min(r.begun for r in runs) for n, runs in group(rows, "architecture").items()}
        names = sorted(first, key=lambda name: first[name])
        ordered = [name for name in order if name in first]
        following = iter(ordered)
        names = [next(following) if name in ordered else name for name in names]
        rows.sort(key=lambda row: (names.index(row.architecture), row.begun))
        if rows:
            write_rows(out / RESULTS, rows)


def group(rows: Iterable[T], column: str) -> dict[Any, list[T]]:
    """Group rows by their values in a column; each group keeps the order of its rows."""
    groups: dict[Any, list[T]] = {}
    for row in rows:
        groups.setdefault(getattr(row, column), []).append(row)
    return groups


# --- comparisons -------------------------------------------------------------------------------

TUNING_SEED = 0  # runs with this seed choose options
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
        runs: rows of runs with the chosen settings; all costs from here on use one clock.
        trained: those rows of *runs* whose training has ended.
        candidates: rows of runs with all settings tried, with the seed that chooses.
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
        runs = [row for row in rows if not row.metric]
        self.kind = find_kind(runs[0].task)
        seed, settings = find_tuning_seed(runs), choose_settings(runs)
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
    """Return whether a run served only to choose options, so that no table of scores contains it.

    Args:
        scored: runs with scores; earlier versions also scored the seed that tunes.
    """
    return bool(row.tuned) and row.seed == TUNING_SEED and row.run not in scored


class Started(Protocol):
    """A run that has started, described by a row or a variant."""

    @property
    def seed(self) -> int: ...

    @property
    def begun(self) -> str: ...


def find_tuning_seed(runs: Iterable[Started]) -> int:
    """Find the seed that tunes options: the seed with which most settings were trained.

    Ties go to the seed whose run started first. A seed may have been trained again.
    """
    seeds = [row.seed for row in sorted(runs, key=lambda row: row.begun)]
    return max(seeds, key=seeds.count, default=1)


def choose_settings(runs: Iterable[Row]) -> dict[str, str]:
    """Choose each architecture's values of tuned options that validate best with the tuning seed.

    Among equal settings, one that other seeds have trained is chosen, then the one with the lowest
    validation loss. If the losses are equal too, or if no training run has ended, the setting that
    started first is chosen.
    """
    in_order, settings = sorted(runs, key=lambda row: row.begun), {}
    seed = find_tuning_seed(in_order)
    for name, rows in group(in_order, "architecture").items():
        tried = (row for row in rows if row.seed == seed)
        kept = {row.tuned for row in rows if row.seed != seed}  # losses are in curves, perhaps lost
        best = sorted(tried, key=lambda row: -row.quality)
        equal = [row for row in best if row.quality == best[0].quality] or rows[:1]
        if equal[1:]:
            equal.sort(key=lambda row: (row.tuned not in kept, row.best_loss))
        settings[name] = equal[0].tuned
    return settings


def read_comparison(out: Path, baseline: str = "") -> Comparison:
    """Read the comparison in a folder.

    Raises:
        InputError: the folder contains no comparison; the message says which folder to give.
    """
    check_regular(out)
    rows = read_rows(out) if (out / RESULTS).is_file() else []
    if not rows:  # the folder is a run, or of a recipe with parts, or no run has started
        paths = (out.parent, *sorted(out.glob("*")))
        near = " or ".join(str(path) for path in paths if (path / RESULTS).is_file())
        fault = "no comparison" if near else f"no {RESULTS} with a row"
        raise InputError(f"{out}: {fault}; give {near or 'a folder that was --out of compare'}")
    return Comparison(rows, baseline)
