"""Several comparisons on one page: each family's difference from a baseline.

    python examples/scoreboard/scoreboard.py [NAME=]RUNS [[NAME=]RUNS ...] --out DIR

A comparison is a column, and a family of architectures a row. RUNS are folders of ``odeformers
compare`` or a file such as ``trainings.csv``, which has the rows of several comparisons. DIR gets
the page, its figures and rows as CSV, and the forest plot.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import cycle
from pathlib import Path
from statistics import fmean, median_low
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairseq_odeformers.files import markdown_table, replacing, write_csv
from fairseq_odeformers.registry import paper_order
from odeformers.compare.numbers import add_decimals
from odeformers.compare.report.judge import (
    INCONCLUSIVE,
    give_verdicts,
    judge,
    margin_of,
)
from odeformers.compare.report.notes import LEAVES_OPEN, RULES_OUT, Note
from odeformers.compare.results.intervals import MIN_SEEDS, WELCH, Difference, OverSeeds
from odeformers.compare.results.rows import (
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
from odeformers.compare.results.statistics import compare_seeds
from odeformers.compare.run import restore_files
from odeformers.parser import add_margin
from odeformers.plots import PALETTE, legend, panels, save

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
    difference: float | None  # from the baseline, if they are compared; positive is better
    # The simultaneous 95% interval; None where a side has too few seeds, or all equal.
    low: float | None
    high: float | None
    p_value: float | None  # adjusted for the number of families
    test: str  # of the p-value
    verdict: str  # "" of the baseline
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
        if self.low is None or self.high is None:
            return f"{self.difference:+.1f} ({self.runs})"
        shown = show_interval(self.difference, self.low, self.high)
        return f"**{shown}**" if self.low > 0 or self.high < 0 else shown


def show_interval(difference: float, low: float, high: float) -> str:
    digits = 1 if min(abs(low), abs(high)) >= 0.05 else 2  # so that no end of an interval reads 0.0
    return f"{difference:+.1f} ({low:+.{digits}f} to {high:+.{digits}f})"


def write_scoreboard(sources: Sequence[str], out: Path, margin: float | None = None) -> str:
    """Write the page, the cells and runs as CSV and the forest plot, and return the page.

    Args:
        sources: folders of comparisons or files of rows; ``NAME=`` before a folder names its
            column, which otherwise has the folder's name.
        margin: the difference that counts as none, see :func:`.find_margin`.
    """
    columns = [column for source in sources for column in read_columns(source, margin)]
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
    """A comparison on a scoreboard.

    Attributes:
        cells: the baseline's first.
        rows: with its notes, since its predictions and curves stay elsewhere.
        over_seeds: the differences, by architecture.
        margin: the largest difference that counts as none.
        scores_tuning: whether the tuning seed is also scored.
        notes: on its models.
    """

    name: str
    cells: Sequence[Cell]
    rows: Sequence[Row]
    over_seeds: OverSeeds
    margin: float
    scores_tuning: bool
    notes: Sequence[Note]


def read_columns(source: str, margin: float | None = None) -> list[Column]:
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
            columns.append(make_column(each, comparison, table, margin))
    if not columns:
        raise ValueError(f"{source}: no run has finished with a test set; leave it out")
    return columns


def make_column(
    name: str, comparison: Comparison, table: Table, margin: float | None = None
) -> Column:
    """The column of a table of scores, with the notes of its report, or that its rows have kept."""
    if table.first.notes:
        notes = [Note(*each) for each in json.loads(table.first.notes)]
    else:
        notes, judged = judge(comparison)
        notes += next(each.notes for each in judged if each.table is table)
    kept = json.dumps([*map(astuple, notes)])
    changes = {"comparison": name, "notes": kept, "predictions": "", "curve": ""}
    rows = [replace(row, **changes) for row in comparison.rows]
    if table.baseline not in table.main:
        sentence = f"Nothing to compare with: the baseline, {table.baseline}, has no score."
        missing = (table.baseline, *table.main)
        notes.append(Note(RULES_OUT, missing, sentence, "the baseline has no score"))
    chosen, within = choose_families(comparison, table), margin_of(table, margin)
    ruled_out = {name for note in notes if note.kind == RULES_OUT for name in note.subjects}
    compared = {runs[0].architecture: runs for runs in chosen.values() if runs}
    compared = {name: runs for name, runs in compared.items() if name not in ruled_out}
    over_seeds = OverSeeds({})
    if table.baseline in compared:
        over_seeds = compare_seeds(compared, table.baseline)
    verdicts = give_verdicts(table, over_seeds, notes, within)
    baseline = comparison.runs[table.baseline][0]
    cells = []
    for runs in chosen.values():
        row = runs[0] if runs else baseline
        difference = over_seeds.differences.get(row.architecture)
        verdict = str(verdicts.get(row.architecture, ""))
        cells.append(make_cell(name, table, row, runs, difference, verdict, notes))
    scored = {row.seed for runs in table.main.values() for row in runs}
    tuning = {row.seed for row in comparison.candidates}
    return Column(name, cells, rows, over_seeds, within, bool(tuning & scored), notes)


def make_cell(
    column: str,
    table: Table,
    row: Row,
    runs: Sequence[Row],
    difference: Difference | None,
    verdict: str,
    notes: Sequence[Note],
) -> Cell:
    """The cell of a family.

    Args:
        row: the family's first run.
        runs: all scored runs.
        difference: from the baseline, if they are compared.
    """
    is_baseline = row.architecture == table.baseline
    concerned = {row.architecture, table.baseline}
    obstacles = [n for n in notes if n.kind == RULES_OUT and concerned & {*n.subjects}]
    others = [n for n in notes if n.kind != RULES_OUT]
    low, high = (difference and difference.interval) or (None, None)
    return Cell(
        column=column,
        family=row.family,
        architecture=row.architecture,
        tuned=row.tuned,
        seeds=len(runs),
        parameters=row.parameters,
        metric=table.metric,
        mean=fmean(each.value for each in runs) if runs else None,
        difference=difference.mean if difference else 0.0 if is_baseline and runs else None,
        low=low,
        high=high,
        p_value=difference.p_value if difference else None,
        test=difference.method if difference else "",
        verdict=verdict,
        obstacles=" ".join(note.sentence for note in obstacles),
        reservations=" ".join(note.sentence for note in others),
    )


def choose_families(comparison: Comparison, table: Table) -> dict[str, list[Row]]:
    """The runs of each family on a scoreboard: the baseline's first, perhaps without any.

    Another family has its architecture that has validated best with its first seed.
    """
    base = table.main.get(table.baseline, [])
    first = (base or comparison.runs[table.baseline])[0]
    chosen = {first.family: base}
    for runs in table.main.values():
        best = chosen.setdefault(runs[0].family, runs)
        if runs[0].family != first.family and runs[0].quality > best[0].quality:
            chosen[runs[0].family] = runs
    return chosen


def order_families(cells: Iterable[Cell]) -> list[str]:
    """The families of cells in the order of their papers, then baselines."""
    ordered = sorted(cells, key=lambda cell: paper_order(cell.architecture))
    return list(dict.fromkeys(cell.family for cell in ordered))


# --- the page --------------------------------------------------------------------------

LEGEND = """\
*Conclusive differences have thick bars. Hollow points have no interval; n is the number of seeds if
it is not three. An arrow marks an interval beyond the axis, and the number beside it is its
difference.*
"""
TEMPLATE = """\
# Scoreboard

[Conclusive](../../docs/comparing.md#verdicts) differences from the {baselines}: {conclusive} of
{differences}. The second table names them. [`{cells}`]({cells}) says why the others are not, and
has remarks that change no verdict.

{table}
The first row shows scores. The other rows show differences from it, in points or in perplexity, and
positive ones are better. In brackets are 95% intervals; bold ones exclude zero. They hold for a
whole column at once, but not for other test texts
([rules](../../docs/reference/verdicts.md#how-intervals-are-computed)). A dash marks a model that
was not run. All [runs]({runs}).

{verdicts}{caveats}
![Differences from the baseline]({picture})

{legend}"""


def describe(columns: Sequence[Column]) -> str:
    """The page: a table of differences, and how they were made."""
    header, shown = ["family"], {}
    for column in columns:
        base, *others = column.cells
        header.append(f"{column.name}, {base.metric}")
        shown |= {(base.family, column.name): base.score}
        shown |= {(cell.family, column.name): cell.advantage for cell in others}
    bases = dict.fromkeys(column.cells[0].family for column in columns)
    families = dict.fromkeys([*bases, *order_families(c for each in columns for c in each.cells)])
    rows = [[f, *(shown.get((f, each.name), "-") for each in columns)] for f in families]
    caveats = list_caveats(columns)
    if tuned := ", ".join(column.name for column in columns if column.scores_tuning):
        caveats += f"- {tuned}: the tuning seed is also scored.\n"
    differences = [cell for each in columns for cell in each.cells[1:]]
    conclusive = sum(map(is_conclusive, differences))
    return TEMPLATE.format(
        differences=len(differences),
        baselines=" or the ".join(bases),
        conclusive=conclusive,
        table=markdown_table([header, *rows]),
        verdicts=tell_verdicts(columns),
        caveats=caveats,
        cells=CELLS,
        runs=RUNS,
        picture=PICTURE,
        legend=LEGEND,
    )


def tell_verdicts(columns: Sequence[Column]) -> str:
    """The conclusive differences of each column, and what the seeds could show."""
    power = "smallest difference detected with 80% power"
    rows = [["data", "margin (same units)", "conclusive", "compared by Welch's test", power]]
    for column in columns:
        families = group(column.cells[1:], "verdict")
        conclusive = [
            f"{', '.join(cell.family for cell in cells)}: {verdict}"
            for verdict, cells in families.items()
            if is_conclusive(cells[0])
        ]
        apart = [cell.family for cell in column.cells if cell.test == WELCH]
        least = column.over_seeds.least_difference
        detected = f"{least:.1f} ({column.over_seeds.seeds} seeds)" if least else ""
        row = [
            column.name,
            f"{column.margin:.3g}",
            "; ".join(conclusive),
            ", ".join(apart),
            detected,
        ]
        if families:
            rows.append(row)
    return f"{markdown_table(rows)}\n" if len(rows) > 1 else ""


def list_caveats(columns: Sequence[Column]) -> str:
    """The notes that can make a verdict inconclusive; a mark is before what rules one out."""
    names_of: dict[str, dict[str, None]] = {}  # columns by caveat
    for column in columns:
        open_ones = " ".join(n.sentence for n in column.notes if n.kind == LEAVES_OPEN)
        obstacles = (f"† {cell.obstacles}" for cell in column.cells if cell.obstacles)
        for caveat in filter(None, (*obstacles, open_ones)):
            names_of.setdefault(caveat, {})[column.name] = None
    lines = [f"- {', '.join(names)}: {caveat}\n" for caveat, names in names_of.items()]
    return "".join(lines)


# --- the picture -----------------------------------------------------------------------

UNITS = {  # others: themselves
    "BLEU": "BLEU, points",
    "accuracy": "accuracy, points",
    "macro-F1": "macro-F1, points",
    "perplexity": "reduction in perplexity",
}
MARKERS = "osDv^PX*p"  # of tasks; one more than hues, so that the ninth task looks different
HUES = "blue vermillion wine green sienna deeppink teal olive".split()  # the colour of each task
THICK, THIN = 3.5, 1.2  # bars of conclusive and of inconclusive differences
LINE = 0.26  # the height of a task in a family's row, in inches


def draw(columns: Sequence[Column]) -> Figure:
    """A forest plot: a panel per metric, a row per family, and in it a line for each task."""
    shown = [cell for column in columns for cell in column.cells[1:]]
    shown = shown or [column.cells[0] for column in columns]
    metrics, names = (
        list(dict.fromkeys(getattr(cell, name) for cell in shown)) for name in ("metric", "column")
    )
    families = order_families(shown)
    shapes = zip(names, cycle(MARKERS), cycle(HUES))
    looks: dict[str, dict] = {c: {"marker": m, "color": PALETTE[hue]} for c, m, hue in shapes}
    cells = {
        (metric, family): [c for c in shown if (c.metric, c.family) == (metric, family)]
        for metric in metrics
        for family in families
    }
    lines = np.array([max(len(cells[metric, family]) for metric in metrics) for family in families])
    edges = np.cumsum([0, *lines]) - 0.5  # of the families' rows
    centres = (edges[:-1] + edges[1:]) / 2
    height = LINE * (lines.sum() + 0.3 * len(families))
    figure, grid = panels(len(metrics), 3, 2.6, height, margins=(1.4, 0.9), sharey=True)
    for axes, metric in zip(grid, metrics):
        low, high = reach([cell for cell in shown if cell.metric == metric])
        for family, centre in zip(families, centres):
            of_family = cells[metric, family]
            for number, cell in enumerate(of_family):
                line = 0.8 * (number - (len(of_family) - 1) / 2)
                draw_cell(axes, cell, centre + line, (low, high), looks[cell.column])
        axes.axvline(0, color="0.6", linewidth=1)
        axes.hlines(edges[1:-1], low, high, color="0.85", linewidth=0.8)
        axes.grid(visible=False, axis="y")
        axes.set_xlim(low, high)
        axes.set_yticks(centres, families)
        axes.set_ylim(edges[-1], edges[0])
        axes.set_xlabel(UNITS.get(metric, metric))
    bases = {each.cells[0].family: None for each in columns if each.name in names}
    figure.suptitle(f"Difference from the {' or '.join(bases)}; right is better")
    handles = [Line2D([], [], linestyle="", label=c, **look) for c, look in looks.items()]
    kinds = {is_conclusive(cell) for cell in shown if cell.low is not None}
    for kind, label, width in ((False, "95% interval", THIN), (True, "conclusive", THICK)):
        if kind in kinds:
            handles.append(Line2D([], [], color="0.4", linewidth=width, label=label))
    legend(figure, handles)
    return figure


def is_conclusive(cell: Cell) -> bool:
    return not cell.verdict.startswith(INCONCLUSIVE)


def draw_cell(axes: Axes, cell: Cell, place: float, edges: tuple[float, float], look: dict) -> None:
    """The difference of a family on a task, thick if conclusive, and notes beside the panel."""
    notes, (left, right) = [], edges
    if cell.obstacles or cell.difference is None:
        notes.append("not compared")
    elif cell.low is not None and cell.high is not None:
        ends = [[cell.difference - cell.low], [cell.high - cell.difference]]
        width = THICK if is_conclusive(cell) else THIN
        bar = {"linestyle": "", "elinewidth": width, "capsize": 3}
        axes.errorbar(cell.difference, place, xerr=ends, **bar, **look)
        for end, arrow, beyond in (left, "<", cell.low < left), (right, ">", cell.high > right):
            if beyond:
                axes.plot(end, place, clip_on=False, zorder=3, **{**look, "marker": arrow})
        if not left <= cell.difference <= right:
            notes.append(f"{cell.difference:+.1f}")
        if is_conclusive(cell):
            notes.append(cell.verdict)
    else:
        axes.plot(cell.difference, place, fillstyle="none", **look)
    if cell.seeds != MIN_SEEDS and not cell.obstacles:
        notes.append(f"n={cell.seeds}")
    beside = {"transform": axes.get_yaxis_transform(), "va": "center", "fontsize": "small"}
    axes.text(1.04, place, ", ".join(notes), color="0.25", **beside)


def reach(cells: Sequence[Cell]) -> tuple[float, float]:
    """The ends of a metric's axis, a little beyond 0, intervals of usual width and other points.

    If a model diverges with one of its seeds, its interval is many times as wide as the others.
    """
    intervals = [(c.low, c.high) for c in cells if c.low is not None and c.high is not None]
    usual = median_low([high - low for low, high in intervals] or [0])
    ends = [end for low, high in intervals if high - low <= 3 * usual for end in (low, high)]
    ends += [c.difference for c in cells if c.low is None and c.difference is not None]
    left, right = min([0, *ends]), max([0, *ends])
    margin = 0.05 * (right - left) or 1
    return left - margin, right + margin


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="[NAME=]RUNS", nargs="+")
    parser.add_argument("--out", metavar="DIR", type=Path, required=True)
    add_margin(parser)
    args = parser.parse_args()
    print(write_scoreboard(args.runs, args.out, args.margin))


if __name__ == "__main__":
    main()
