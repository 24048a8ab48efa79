"""Scoreboards: several comparisons on one page, each family's difference from a baseline.

A comparison is a column, and a family of architectures a row.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairseq_odeformers.files import markdown_table, replacing, write_csv
from odeformers.plots import legend, panels, save, shades

from .notes import RULES_OUT, Note, judge
from .restore import restore_files
from .results import (
    BEST_CHECKPOINT,
    Comparison,
    Row,
    Table,
    group,
    lock,
    read_comparison,
    read_rows,
    write_rows,
)
from .statistics import ENOUGH, add_decimals, compare_seeds

PAGE, CELLS, RUNS, PICTURE = "scoreboard.md", "scoreboard.csv", "trainings.csv", "scoreboard.png"


@dataclass(frozen=True)
class Cell:
    """A family in a column."""

    column: str
    family: str
    architecture: str
    tuned: str
    seeds: int  # the number of runs
    parameters: int
    metric: str
    mean: float | None  # on the test set; None of a baseline without a score
    difference: float | None  # from the baseline, if that has a score; positive is better
    # Of its 95% interval (Welch); None where a side has too few seeds, or all equal.
    low: float | None
    high: float | None
    obstacles: str  # notes that rule its comparison out
    reservations: str  # other notes on the column

    @property
    def mark(self) -> str:
        return " †" if self.obstacles else ""

    @property
    def runs(self) -> str:
        return "one seed" if self.seeds == 1 else f"{self.seeds} seeds"

    @property
    def score(self) -> str:
        if self.mean is None:
            return f"no score{self.mark}"
        return f"{self.mean:.{add_decimals(self.mean, 1)}f} ({self.runs}){self.mark}"

    @property
    def advantage(self) -> str:
        if self.obstacles or self.difference is None:
            return f"not compared{self.mark}"
        spread = self.runs if self.low is None else f"{self.low:+.1f} to {self.high:+.1f}"
        return f"{self.difference:+.1f} ({spread})"


def write_scoreboard(sources: Sequence[str], out: Path) -> str:
    """Write the page, the cells and runs as CSV and the forest plot, and return the page.

    Args:
        sources: folders of comparisons or files of rows; ``NAME=`` before a folder names its
            column, which otherwise has the folder's name.
    """
    columns = [column for source in sources for column in read_columns(source)]
    names = [column.name for column in columns]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(
            f"{' '.join(sources)}: the column {twice[0]} comes twice; give folders of one name as "
            "NAME=RUNS"
        )
    figures = [
        {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(cell).items()}
        for column in columns
        for cell in column.cells
    ]
    page = describe(columns)
    out.mkdir(parents=True, exist_ok=True)
    with lock(out / PAGE):
        write_csv(out / CELLS, figures)
        write_rows(out / RUNS, [row for column in columns for row in column.rows])
        save(draw, columns, out / PICTURE)
        with replacing(out / PAGE) as path:
            path.write_text(page, encoding="utf-8")
    return page


# --- columns and cells -----------------------------------------------------------------


class Column(NamedTuple):
    """A comparison on a board.

    Attributes:
        cells: the baseline's first.
        rows: with its notes, since its predictions and curves stay elsewhere.
    """

    name: str
    cells: Sequence[Cell]
    rows: Sequence[Row]


def read_columns(source: str) -> list[Column]:
    """The comparisons of a source.

    Raises:
        ValueError: no run has finished with a test set.
    """
    name, _, path = source.rpartition("=")
    folder = Path(path)
    if folder.suffix == ".csv":
        several = group(read_rows(folder), "comparison")
        comparisons = [(name or each, Comparison(rows)) for each, rows in several.items()]
    else:
        restore_files(folder)
        comparisons = [(name or folder.resolve().name, read_comparison(folder))]
    columns = []
    for each, comparison in comparisons:
        if tables := [t for t in comparison.tables if t.checkpoint == BEST_CHECKPOINT]:
            table = min(tables, key=lambda table: table.split != "test")
            columns.append(make_column(each, comparison, table))
    if not columns:
        raise ValueError(f"{source}: no run has finished with a test set; leave it out")
    return columns


def make_column(name: str, comparison: Comparison, table: Table) -> Column:
    """The column of a table of scores, with the notes of its report, or that its rows have kept."""
    if table.first.notes:
        notes = [Note(*each) for each in json.loads(table.first.notes)]
    else:
        notes, judged = judge(comparison)
        notes += next(each.notes for each in judged if each.table is table)
    kept = json.dumps([*map(astuple, notes)])
    changes = {"comparison": name, "notes": kept, "predictions": "", "curve": ""}
    rows = [replace(row, **changes) for row in comparison.rows]
    return Column(name, make_cells(name, comparison, table, notes), rows)


def make_cells(
    column: str, comparison: Comparison, table: Table, notes: Sequence[Note]
) -> list[Cell]:
    """The cells of a column; the first is its baseline, perhaps without a score.

    The cell of another family is its architecture that has validated best with its first seed.
    """
    obstacles = [note for note in notes if note.kind == RULES_OUT]
    others = " ".join(note.sentence for note in notes if note.kind != RULES_OUT)
    name, base = table.baseline, table.main.get(table.baseline)
    first = (base or comparison.runs[name])[0]
    if base is None:
        sentence = f"Nothing to compare with: the baseline, {name}, has no score."
        obstacles.append(Note(RULES_OUT, (name,), sentence))
    chosen = {first.family: base or []}
    for runs in table.main.values():
        best = chosen.setdefault(runs[0].family, runs)
        if runs[0].family != first.family and runs[0].quality > best[0].quality:
            chosen[runs[0].family] = runs
    cells = []
    for family, runs in chosen.items():
        row = runs[0] if runs else first
        concerned = {row.architecture, name}
        difference = compare_seeds(runs, base) if base else None
        low, high = (difference and runs is not base and difference.interval) or (None, None)
        cells.append(
            Cell(
                column=column,
                family=family,
                architecture=row.architecture,
                tuned=row.tuned,
                seeds=len(runs),
                parameters=row.parameters,
                metric=table.metric,
                mean=fmean(each.value for each in runs) if runs else None,
                difference=difference.mean if difference else None,
                low=low,
                high=high,
                obstacles=" ".join(n.sentence for n in obstacles if concerned & {*n.subjects}),
                reservations=others,
            )
        )
    return cells


# --- the page --------------------------------------------------------------------------


def describe(columns: Sequence[Column]) -> str:
    """The page: a table of differences, and how they were made."""
    header, shown = ["family"], {}
    for name, (base, *others), _ in columns:
        header.append(f"{name}, {base.metric}{' ‡' if base.reservations else ''}")
        shown |= {(base.family, name): base.score}
        shown |= {(cell.family, name): cell.advantage for cell in others}
    families = dict.fromkeys(family for family, _ in shown)
    rows = [[f, *(shown.get((f, each.name), "-") for each in columns)] for f in families]
    return (
        f"# Scoreboard\n\n{markdown_table([header, *rows])}\n"
        "The first row gives scores, the others differences from it (+ is better), with 95% "
        "intervals (Welch) over three\nseeds or more, not over test texts, uncorrected; - was not "
        "run. Validation chose checkpoints and, with the first\nseed, tuned options. All "
        f"[figures]({CELLS}) and [runs]({RUNS}).\n\n"
        f"{list_caveats(columns)}"
        f"![Differences from the baseline]({PICTURE})\n\n{LEGEND}"
    )


def list_caveats(columns: Sequence[Column]) -> str:
    """What the reports of the columns say against comparing them, with the marks of the table."""
    told: dict[str, dict[str, None]] = {}  # columns by caveat
    for cell in (cell for column in columns for cell in column.cells):
        for mark, caveat in (("†", cell.obstacles), ("‡", cell.reservations)):
            if caveat:
                told.setdefault(f"{mark} {caveat}", {})[cell.column] = None
    lines = [f"- {', '.join(names)}: {caveat}\n" for caveat, names in told.items()]
    return "".join([*lines, "\n"]) if lines else ""


# --- the picture -----------------------------------------------------------------------

LEGEND = (
    "n is the number of seeds where it is not three. Hollow points have no interval. An arrow "
    "marks one that goes\nbeyond the axis; a difference beyond it is beside the panel.\n"
)
UNITS = {"accuracy": "points of accuracy", "macro-F1": "points of macro-F1"}  # others: themselves
MARKERS = "osDv^P"  # of tasks
LINE = 0.26  # the height of a task in a family's row, in inches


def draw(columns: Sequence[Column]) -> Figure:
    """A forest plot: a panel per metric, a row per family, and in it a line for each task."""
    shown = [cell for column in columns for cell in column.cells[1:]]
    shown = shown or [column.cells[0] for column in columns]
    metrics, families, names = (
        list(dict.fromkeys(getattr(cell, name) for cell in shown))
        for name in ("metric", "family", "column")
    )
    colors = shades([*names, "too light"])
    looks = {c: {"marker": m, "color": colors[c]} for c, m in zip(names, cycle(MARKERS))}
    tasks = {m: list(dict.fromkeys(c.column for c in shown if c.metric == m)) for m in metrics}
    height = LINE * (0.6 + max(map(len, tasks.values()))) * len(families)
    figure, grid = panels(len(metrics), 3, 3.2, height, margins=(1.4, 0.9), sharey=True)
    for axes, metric in zip(grid, metrics):
        of_metric = [cell for cell in shown if cell.metric == metric]
        edge = reach(of_metric)
        for cell in of_metric:
            line = (tasks[metric].index(cell.column) + 0.5) / len(tasks[metric]) - 0.5
            draw_cell(
                axes, cell, families.index(cell.family) + 0.8 * line, edge, looks[cell.column]
            )
        axes.axvline(0, color="0.6", linewidth=1)
        axes.hlines(np.arange(1, len(families)) - 0.5, -edge, edge, color="0.85", linewidth=0.8)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(-edge, edge)
        axes.set_yticks(range(len(families)), families)
        axes.set_ylim(len(families) - 0.5, -0.5)
        axes.set_xlabel(f"{UNITS.get(metric, metric)}, better to the right")
    bases = {each.cells[0].family: None for each in columns if each.name in names}
    figure.suptitle(f"Difference from the {' or '.join(bases)}, 95% interval over seeds")
    legend(figure, [Line2D([], [], linestyle="", label=c, **look) for c, look in looks.items()])
    return figure


def draw_cell(axes: Axes, cell: Cell, place: float, edge: float, look: dict) -> None:
    """The difference of a family on a task, and beside the panel what it cannot show."""
    notes = []
    if cell.obstacles or cell.difference is None:
        notes.append("not compared")
    elif cell.low is not None and cell.high is not None:
        ends = [[cell.difference - cell.low], [cell.high - cell.difference]]
        axes.errorbar(cell.difference, place, xerr=ends, linestyle="", capsize=3, **look)
        for end, arrow, beyond in (-edge, "<", cell.low < -edge), (edge, ">", cell.high > edge):
            if beyond:
                axes.plot(end, place, clip_on=False, zorder=3, **{**look, "marker": arrow})
        if abs(cell.difference) > edge:
            notes.append(f"{cell.difference:+.1f}")
    else:
        axes.plot(cell.difference, place, fillstyle="none", **look)
    if cell.seeds != ENOUGH and not cell.obstacles:
        notes.append(f"n={cell.seeds}")
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": "small"}
    axes.text(1.04, place, ", ".join(notes), color="0.4", **beside)


def reach(cells: Sequence[Cell]) -> float:
    """How far the axis of a metric goes from 0: twice the usual interval, and to all other points.

    If a model diverges with one of its seeds, its interval is many times as wide as the others.
    """
    ends = [max(-c.low, c.high) for c in cells if c.low is not None and c.high is not None]
    points = (abs(c.difference) for c in cells if c.low is None and c.difference is not None)
    return 1.1 * max(2 * median(ends or [0]), *points, 0) or 1
