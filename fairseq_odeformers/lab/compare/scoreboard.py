"""Scoreboards: several comparisons on one page, each family's difference from a baseline.

A comparison is a column, and a family of architectures a row.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from statistics import fmean, median
from typing import Any

from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table, replacing, write_csv
from fairseq_odeformers.lab.plots import panels, save, title

from .notes import (
    ENOUGH,
    EQUAL,
    RULES_OUT,
    Note,
    add_decimals,
    compare_seeds,
    compute_statistics,
    find_notes,
)
from .report import BEST, count_seeds
from .results import Comparison, Row, Table, read_comparison, read_rows, write_rows

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
    mean: float  # on the test set
    difference: float  # from the baseline; positive is better
    # Of its 95% interval (Welch); None where a side has too few seeds, or all equal.
    low: float | None
    high: float | None
    obstacles: str  # notes that rule its comparison out
    reservations: str  # other notes on the column

    def __str__(self) -> str:
        if self.obstacles:
            return f"not compared{self.mark}"
        spread = f"{self.low:+.1f} to {self.high:+.1f}" if self.low is not None else ""
        return f"{self.difference:+.1f} ({spread or count_seeds(self.seeds)}){self.mark}"

    @property
    def mark(self) -> str:
        return " †" if self.obstacles else ""


def write_scoreboard(sources: Sequence[str], out: Path) -> str:
    """Write the page, the cells and runs as CSV and the forest plot, and return the page.

    Args:
        sources: folders of comparisons or files of rows; ``NAME=`` before a folder names its
            column, which otherwise has the folder's name.
    """
    cells: list[Cell] = []
    rows: list[Row] = []
    for source in sources:
        for column, comparison in read_columns(source):
            if any(cell.column == column for cell in cells):
                raise ValueError(
                    f"{' '.join(sources)}: the column {column} comes twice; give folders of one "
                    "name as NAME=RUNS"
                )
            notes = read_notes(comparison)
            cells += make_cells(column, comparison, notes)
            rows += keep_rows(column, comparison, notes)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / CELLS, [round_figures(asdict(cell)) for cell in cells])
    write_rows(out / RUNS, rows)
    save(draw, cells, out / PICTURE)
    page = describe(cells)
    with replacing(out / PAGE) as path:
        path.write_text(page, encoding="utf-8")
    return page


def round_figures(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table as it is kept."""
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}


# --- cells -----------------------------------------------------------------------------


def read_columns(source: str) -> Iterator[tuple[str, Comparison]]:
    """The comparisons of a source, by the names of their columns.

    Raises:
        ValueError: no run has finished with a test set.
    """
    name, _, path = source.rpartition("=")
    folder = Path(path)
    if folder.suffix != ".csv":
        columns = {name or folder.resolve().name: read_comparison(folder)}
    else:
        rows, columns = read_rows(folder), {}
        for each in dict.fromkeys(row.comparison for row in rows):
            of_column = [row for row in rows if row.comparison == each]
            columns[name or each] = Comparison(of_column, folder.parent)
    columns = {name: each for name, each in columns.items() if find_table(each)}
    if not columns:
        raise ValueError(f"{source}: no run has finished with a test set; leave it out")
    yield from columns.items()


def find_table(comparison: Comparison) -> Table | None:
    """The scores of best checkpoints on the test set, or on the first of several."""
    tables = [table for table in comparison.tables if table.checkpoint == BEST]
    tests = (table for table in tables if table.split == "test")
    return next(tests, next(iter(tables), None))


def read_notes(comparison: Comparison) -> list[Note]:
    """The notes of a comparison's report, or those that its rows have kept of it."""
    table = find_table(comparison)
    assert table is not None  # read_columns has found one
    if table.first.notes:
        return [
            Note(kind, tuple(names), told) for kind, names, told in json.loads(table.first.notes)
        ]
    notes = [*find_notes(comparison), *find_notes(comparison, table)]
    return notes + find_notes(comparison, table, compute_statistics(table, notes))


def keep_rows(column: str, comparison: Comparison, notes: Sequence[Note]) -> list[Row]:
    """The rows of a column with its notes, since its predictions and curves stay elsewhere."""
    kept = json.dumps([[note.kind, note.subjects, note.sentence] for note in notes])
    changes = {"comparison": column, "notes": kept, "predictions": "", "curve": ""}
    return [replace(row, **changes) for row in comparison.all_rows]


def make_cells(column: str, comparison: Comparison, notes: Sequence[Note]) -> list[Cell]:
    """The cells of a column; the first is its baseline."""
    table = find_table(comparison)
    assert table is not None  # read_columns has found one
    obstacles = [note for note in notes if note.kind == RULES_OUT]
    others = " ".join(note.sentence for note in notes if note.kind != RULES_OUT)
    chosen: dict[str, str] = {}  # architectures, by family
    for name, runs in table.main.items():
        family = next(iter(runs.values())).family
        best = chosen.setdefault(family, name)
        if validate(comparison, name) > validate(comparison, best):
            chosen[family] = name
    base, cells = next(iter(chosen.values())), []
    for family, name in chosen.items():
        runs, excluded = table.main[name], [n for n in obstacles if {name, base} & {*n.subjects}]
        row, difference = next(iter(runs.values())), compare_seeds(runs, table.main[base])
        low, high = (difference.interval if name != base else None) or (None, None)
        cells.append(
            Cell(
                column=column,
                family=family,
                architecture=name,
                tuned=row.tuned,
                seeds=len(runs),
                parameters=row.parameters,
                metric=row.metric,
                mean=fmean(each.value for each in runs.values()),
                difference=difference.mean,
                low=low,
                high=high,
                obstacles=" ".join(note.sentence for note in excluded),
                reservations=others,
            )
        )
    return cells


def validate(comparison: Comparison, name: str) -> float:
    """How well an architecture has validated with its first seed, the higher the better."""
    row = next(iter(comparison.trained.get(name, {}).values()), None)
    if row is None or row.validation is None:
        return -inf
    return row.validation if row.maximized else -row.validation


# --- the page --------------------------------------------------------------------------


def describe(cells: Sequence[Cell]) -> str:
    """The page: a table of differences, and how they were made."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    families = list(dict.fromkeys(cell.family for cell in cells))
    baselines = {column: next(c for c in cells if c.column == column) for column in columns}
    shown = {(cell.family, cell.column): str(cell) for cell in cells}
    for cell in baselines.values():
        score = f"{cell.mean:.{add_decimals(cell.mean, 1)}f} ({count_seeds(cell.seeds)}){cell.mark}"
        shown[cell.family, cell.column] = score
    rows = [["family"]]
    for column, cell in baselines.items():
        rows[0].append(f"{column}, {cell.metric}{' ‡' if cell.reservations else ''}")
    for family in families:
        rows.append([family, *(shown.get((family, column), "not run") for column in columns)])
    return (
        f"# Scoreboard\n\n{markdown_table(rows)}\n"
        "The first row gives scores, the others their differences from it; positive is better. "
        "Brackets give the 95%\ninterval (Welch) over three seeds or more, which covers neither "
        "the choice of test texts nor the number of\ncomparisons. Each architecture has the "
        "setting, if several were tried, that validated best with the first seed.\nEach score is "
        f"of the checkpoint that validated best. [`{CELLS}`]({CELLS}) has all figures,\n"
        f"[`{RUNS}`]({RUNS}) the runs.\n\n{list_caveats(cells, baselines)}"
        f"![Differences from the baseline]({PICTURE})\n\n"
        "The diamond is the baseline, and n the number of seeds. Hollow points have no interval: "
        "fewer than three\nseeds, or all equal. An arrow marks an interval that goes beyond the "
        "axis,\na number a difference beyond it.\n"
    )


def list_caveats(cells: Sequence[Cell], baselines: Mapping[str, Cell]) -> str:
    """What the reports of the columns say against comparing them, with the marks of the table.

    If enough seeds give no interval, they are all equal.
    """
    columns: dict[str, dict[str, None]] = {}  # by caveat
    for cell in cells:
        for mark, caveat in (("†", cell.obstacles), ("‡", cell.reservations)):
            if caveat:
                columns.setdefault(f"{mark} {caveat}", {})[cell.column] = None
    lines = [f"- {', '.join(names)}: {caveat}\n" for caveat, names in columns.items()]
    for cell in cells:
        baseline = baselines[cell.column]
        plain = cell is not baseline and cell.low is None and not cell.obstacles
        if plain and min(cell.seeds, baseline.seeds) >= ENOUGH:
            lines.append(f"- {cell.column}, {cell.family}: no interval, since {EQUAL}.\n")
    return "".join([*lines, "\n"]) if lines else ""


def draw(cells: Sequence[Cell]) -> Figure:
    """A forest plot: a panel per column, with a line for each family."""
    columns = list(dict.fromkeys(cell.column for cell in cells))
    families = list(dict.fromkeys(cell.family for cell in cells))
    width, height = 3.2, 0.5 + 0.32 * len(families)
    figure, grid = panels(len(columns), 3, width, height, sharey=True)
    for axes, column in zip(grid, columns):
        of_column = [cell for cell in cells if cell.column == column]
        edge = reach(of_column)
        axes.axvline(0, color="0.6", linewidth=1)
        axes.plot(0, families.index(of_column[0].family), "D", color="0.2")
        for cell in of_column:
            place, look = families.index(cell.family), {"color": "0.2"}
            if cell.obstacles:
                if cell is not of_column[0]:
                    axes.text(0, place, "not compared", ha="center", va="center", color="0.5")
            elif cell.low is not None and cell.high is not None:
                ends = [[cell.difference - cell.low], [cell.high - cell.difference]]
                axes.errorbar(cell.difference, place, xerr=ends, fmt="o", capsize=3, **look)
                beyond = (-edge, "<", cell.low < -edge), (edge, ">", cell.high > edge)
                for end, arrow, cut in beyond:
                    if cut:
                        axes.plot(end, place, arrow, clip_on=False, zorder=3, **look)
                if abs(cell.difference) > edge:
                    look |= {"ha": "center", "va": "bottom", "fontsize": "small"}
                    axes.text(0, place, f"{cell.difference:+.1f}", **look)
            elif cell is not of_column[0]:
                axes.plot(cell.difference, place, "o", markerfacecolor="none", **look)
            beside = {"transform": axes.get_yaxis_transform(), "va": "center"}
            axes.text(1.03, place, f"n={cell.seeds}", color="0.4", fontsize="x-small", **beside)
        axes.set_xlim(-edge, edge)
        axes.set_yticks(range(len(families)), families)
        axes.set_ylim(len(families) - 0.5, -0.5)
        axes.set_xlabel(f"{of_column[0].metric}, better to the right")
        title(axes, column + of_column[0].mark)
    return figure


def reach(cells: Sequence[Cell]) -> float:
    """How far the axis of a column goes from 0: twice the usual interval, and to all other points.

    If a model diverges with one of its seeds, its interval is many times as wide as the others.
    """
    ends = [
        max(-cell.low, cell.high)
        for cell in cells
        if cell.low is not None and cell.high is not None
    ]
    points = (abs(cell.difference) for cell in cells if cell.low is None)
    return 1.1 * max(2 * median(ends or [0]), *points, 0) or 1
