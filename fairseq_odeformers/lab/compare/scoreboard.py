"""Scoreboards: several comparisons on one page, each family's difference from a baseline.

A comparison is a column, and a family of architectures a row. A file of finished runs, such as
``examples/scoreboard/trainings.csv``, replaces the folders of comparisons that are gone.
"""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, get_type_hints

from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table, reading, replacing, write_csv
from fairseq_odeformers.lab.plots import panels, save, title
from fairseq_odeformers.models.common.papers import family_of

from .caveats import (
    find_ceiling,
    find_obstacles,
    find_open_choices,
    find_reservations,
    find_sampling_error,
)
from .intervals import ENOUGH, EQUAL, difference_interval
from .outcomes import add_decimals, better
from .results import count_seeds, read_results
from .runs import BEST, LOG

PAGE, CELLS, RUNS, PICTURE = "scoreboard.md", "scoreboard.csv", "trainings.csv", "scoreboard.png"


@dataclass(frozen=True)
class Finished:
    """A finished run, a line of a file of runs; a column's first line is of its baseline."""

    column: str
    family: str
    architecture: str
    tuned: str  # the values of tuned options, such as ``lr 1e-3``
    seed: int
    parameters: int
    updates: int
    validated: str  # the metric of the validation
    validation: float
    metric: str  # the metric of the test
    test: float
    obstacles: str = ""  # why it cannot be compared, as its report says
    reservations: str = ""  # what to keep in mind


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
    obstacles: str
    reservations: str

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
        sources: folders of comparisons or files of runs; ``NAME=`` before a folder names its
            column, which otherwise has the folder's name.
    """
    runs = [run for source in sources for run in read_runs(source)]
    identities = Counter((run.column, run.architecture, run.tuned, run.seed) for run in runs)
    ((column, architecture, _, seed), count), *_ = identities.most_common(1)
    if count > 1:
        raise ValueError(
            f"{' '.join(sources)}: the column {column} has seed {seed} of {architecture} twice; "
            "give folders of one name as NAME=RUNS"
        )
    cells = compare_families(runs)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(out / CELLS, [round_figures(asdict(cell)) for cell in cells])
    write_csv(out / RUNS, [asdict(run) for run in runs])
    save(draw, cells, out / PICTURE)
    page = describe(cells)
    with replacing(out / PAGE) as path:
        path.write_text(page, encoding="utf-8")
    return page


def round_figures(row: dict[str, Any]) -> dict[str, Any]:
    """A row of a table as it is kept."""
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}


# --- runs ------------------------------------------------------------------------------


def read_runs(source: str) -> list[Finished]:
    """The finished runs of a folder of a comparison, or of a file of runs."""
    name, _, path = source.rpartition("=")
    is_file = Path(path).suffix == ".csv"
    column = name or Path(path).resolve().name
    runs = read_file(Path(path)) if is_file else list(reduce_folder(column, Path(path)))
    if not runs:
        raise ValueError(f"{source}: no run has finished with a test set; leave it out")
    return runs


def read_file(path: Path) -> list[Finished]:
    """The runs of a file, which has the fields of :class:`Finished` as its columns.

    Files of earlier versions lack the last two.
    """
    types = get_type_hints(Finished)
    with reading(path), open(path, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames not in (list(types), list(types)[:-2]):
            raise ValueError(f"{path}, line 1: give the columns {', '.join(types)}")
        runs = []
        for row in reader:
            try:
                values = {name: types[name](row[name]) for name in reader.fieldnames}
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {reader.line_num}: {error}") from error
            runs.append(Finished(**values))
    return runs


def reduce_folder(column: str, folder: Path) -> Iterable[Finished]:
    """The runs of a comparison whose checkpoint that validated best has a test score."""
    results = read_results(folder)
    recipe = results.plan.recipe
    splits = [split for split, _ in results.outcomes]
    split = "test" if "test" in splits else next(iter(splits), "")
    outcomes = results.outcomes.get((split, BEST))
    if not outcomes:
        return
    obstacles = [*find_obstacles(results, outcomes)]
    notes = [*find_reservations(results), *find_open_choices(results), *find_ceiling(outcomes)]
    reservations = " ".join([*notes, *find_sampling_error(outcomes)])
    for entry in results.plan.entries:
        for seed, outcome in sorted(outcomes.get(entry.name, {}).items()):
            training = results.trainings[entry.name].get(seed)
            if training is None:
                raise ValueError(
                    f"{folder / entry.folder(seed) / LOG}: no validation, but the run has "
                    f"predictions; restore the log, or give odeformers compare --redo {entry.name}"
                )
            yield Finished(
                column=column,
                family=family_of(entry.options["arch"]),
                architecture=entry.name,
                tuned=" ".join(f"{name} {value}" for name, value in entry.tried.items()),
                seed=seed,
                parameters=entry.parameters,
                updates=training.updates[-1],
                validated=recipe.metric,
                validation=round(recipe.best(training.metrics or training.losses), 4),
                metric=outcome.main,
                test=round(outcome.scores[outcome.main], 4),
                obstacles=" ".join(why for why, held in obstacles if entry.name in held),
                reservations=reservations,
            )


# --- cells -----------------------------------------------------------------------------


def compare_families(runs: Sequence[Finished]) -> list[Cell]:
    """The cells of all columns; the first of each column is its baseline."""
    cells = []
    for column in dict.fromkeys(run.column for run in runs):
        of_column = [run for run in runs if run.column == column]
        chosen = {
            family: choose([run for run in of_column if run.family == family])
            for family in dict.fromkeys(run.family for run in of_column)
        }
        baseline = next(iter(chosen.values()))
        cells += [make_cell(group, baseline) for group in chosen.values()]
    return cells


def choose(runs: Sequence[Finished]) -> list[Finished]:
    """The runs of one architecture at one setting: what validates best with the first seed."""
    first = min(run.seed for run in runs)
    tried = [run for run in runs if run.seed == first]
    sign = better(tried[0].validated)
    best = max(tried, key=lambda run: sign * run.validation)
    setting = best.architecture, best.tuned
    return [run for run in runs if (run.architecture, run.tuned) == setting]


def make_cell(runs: Sequence[Finished], baseline: Sequence[Finished]) -> Cell:
    """The difference of a family's runs from the baseline's."""
    sign = better(runs[0].metric)
    ours, theirs = ([sign * run.test for run in group] for group in (runs, baseline))
    interval = difference_interval(ours, theirs) if runs is not baseline else None
    low, high = interval or (None, None)
    run = runs[0]
    return Cell(
        *(run.column, run.family, run.architecture, run.tuned, len(runs), run.parameters),
        *(run.metric, sign * fmean(ours), fmean(ours) - fmean(theirs), low, high),
        *(run.obstacles or baseline[0].obstacles, run.reservations),
    )


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
