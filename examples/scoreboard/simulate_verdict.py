"""How often verdicts over seeds are wrong, and what they find: a simulation.

    python examples/scoreboard/simulate_verdict.py --out examples/scoreboard

The script draws scores of several models and seeds from normal distributions, and writes
``simulation.csv`` and ``simulation.md``. For each cell, they contain how often at least one
interval leaves out the true difference, for the verdict
(``odeformers/compare/results/intervals.py``) and for pairwise Welch tests, both uncorrected and at
the Bonferroni level; and how often a model that differs by two standard deviations is found.
100,000 draws per cell take about three minutes.

Means and variances of normal samples are drawn instead of scores.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import f as fisher
from scipy.stats import t as student

from fairseq_odeformers.files import markdown_table, write_csv
from odeformers.compare.results.intervals import (
    LEVEL,
    POOL_LEVEL,
    critical_value,
    minimal_detectable,
)

MODELS, SEEDS = (2, 4, 8), (3, 5, 10)  # models with the baseline
DRAWS = 100_000
TARGET = 0.06
SHIFT = 2.0  # a true difference, in standard deviations

# --- the verdict, of many tables at once -----------------------------------------------


class Tables(NamedTuple):
    """Means and variances of samples, a row per table; the baseline's are in the first column."""

    means: np.ndarray
    variances: np.ndarray
    sizes: np.ndarray  # of the columns


def draw_tables(
    generator: np.random.Generator,
    draws: int,
    spreads: Sequence[float],
    sizes: Sequence[int],
    shift: float = 0.0,
) -> Tables:
    """Samples of normal distributions; the first after the baseline has a mean of *shift*."""
    spread, size = np.asarray(spreads, float), np.asarray(sizes)
    means = generator.standard_normal((draws, len(size))) * spread / np.sqrt(size)
    means[:, 1] += shift
    chi = generator.chisquare(size - 1, (draws, len(size)))
    return Tables(means, spread**2 * chi / (size - 1), size)


def find_pools(tables: Tables) -> np.ndarray:
    """Whether each model of each table is in the pool of its table."""
    variances, freedom = tables.variances, tables.sizes - 1
    pools = np.ones(variances.shape, dtype=bool)
    tested = np.arange(len(pools))
    while len(tested):
        pool, count = pools[tested], pools[tested].sum(1)
        upper = f_tests(variances[tested], freedom, pool)
        p_values = 2 * np.minimum(upper, 1 - upper)
        p_values[~pool] = np.inf
        worst = p_values.argmin(1)
        leaves = p_values[np.arange(len(worst)), worst] < POOL_LEVEL / count
        tested, worst, count = tested[leaves], worst[leaves], count[leaves]
        pools[tested, worst] = False
        tested = tested[(count > 2) & (worst > 0)]
    return pools


def f_tests(variances: np.ndarray, freedom: np.ndarray, pool: np.ndarray) -> np.ndarray:
    """Of each model, the F-test's p-value that its variance is larger than that of the others."""
    squares, weights = variances * freedom * pool, freedom * pool
    rest = weights.sum(1, keepdims=True) - weights
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = variances / ((squares.sum(1, keepdims=True) - squares) / rest)
    return fisher.sf(ratio, freedom, rest)


def half_intervals(tables: Tables, pools: np.ndarray) -> np.ndarray:
    """Half of the interval of each difference from the baseline."""
    halves = welch_half_intervals(tables, LEVEL / (len(tables.sizes) - 1))
    pooled = pools[:, 1:] & pools[:, :1]
    freedom = pools * (tables.sizes - 1)
    with np.errstate(invalid="ignore"):
        shared = np.sqrt((tables.variances * freedom).sum(1) / freedom.sum(1))
    bits = 1 << np.arange(pooled.shape[1])
    for pattern in np.unique(pooled @ bits):
        inside = (pattern & bits) > 0
        if inside.any():
            rows = np.flatnonzero(pooled @ bits == pattern)
            sizes = (int(tables.sizes[0]), *sorted(tables.sizes[1:][inside].tolist()))
            critical = critical_value(sizes, LEVEL * inside.mean())
            error = np.sqrt(1 / tables.sizes[0] + 1 / tables.sizes[1:][inside])
            halves[np.ix_(rows, inside)] = critical * shared[rows, None] * error
    return halves


def welch_half_intervals(tables: Tables, level: float) -> np.ndarray:
    """Half of Welch's interval of each difference from the baseline."""
    squares = tables.variances / tables.sizes
    error = squares[:, 1:] + squares[:, :1]
    terms = squares**2 / (tables.sizes - 1)
    freedom = error**2 / (terms[:, 1:] + terms[:, :1])
    return student.ppf(1 - level / 2, freedom) * np.sqrt(error)


# --- cells -----------------------------------------------------------------------------

PATTERNS = {  # standard deviations by number of models, the baseline's first
    "equal": lambda models: np.ones(models),
    "1 to 4, baseline 1": lambda models: np.linspace(1, 4, models),
    "1 to 4, baseline 4": lambda models: np.linspace(4, 1, models),
    "one challenger 10": lambda models: np.append(np.ones(models - 1), 10.0),
    "baseline 3": lambda models: np.append(3.0, np.ones(models - 1)),
    "baseline 10": lambda models: np.append(10.0, np.ones(models - 1)),
}
UNEQUAL_SEEDS = (  # name, standard deviations and numbers of seeds, the baseline's first
    ("equal", (1, 1, 1, 1), (3, 10, 3, 5)),
    ("1 to 4, baseline 1", (1, 2, 3, 4), (3, 10, 3, 5)),
    ("equal", (1, 1, 1, 1), (10, 3, 3, 5)),
    ("1 to 4, baseline 1", (1, 2, 3, 4), (10, 3, 3, 5)),
    ("1 to 4, baseline 1", (1, 4), (10, 3)),
    ("one challenger 4", (1, 1, 1, 4), (10, 10, 10, 3)),
    ("baseline 4", (4, 1, 1, 1), (3, 10, 10, 10)),
)


@dataclass(frozen=True)
class Cell:
    """What a simulation of tables of one kind shows; shares of tables, with standard errors.

    Attributes:
        error: of tables in which any interval leaves out the true difference.
        left: of tables in which a model has left the pool.
        half: the mean half-width of the first model's interval, in its standard deviations.
        found: of tables in which the first model, which differs by :data:`SHIFT` standard
            deviations, is found better.
    """

    pattern: str
    models: int
    seeds: str
    draws: int
    test: str
    error: float
    error_se: float
    left: float
    half: float
    found: float
    found_se: float


def simulate(
    pattern: str, spreads: Sequence[float], sizes: Sequence[int], draws: int
) -> Iterator[Cell]:
    """The cells of the verdict, and of Welch's test without and with Bonferroni's correction.

    The true difference is in standard deviations of the model that has it.
    """
    tables = draw_tables(np.random.default_rng(0), draws, spreads, sizes)
    pools = find_pools(tables)
    family = len(spreads) - 1
    halves = {
        "verdict": half_intervals(tables, pools),
        "Welch": welch_half_intervals(tables, LEVEL),
        "Welch-Bonferroni": welch_half_intervals(tables, LEVEL / family),
    }
    differences = tables.means[:, 1:] - tables.means[:, :1]
    seeds = f"{sizes[0]}" if len({*sizes}) == 1 else " ".join(map(str, sizes))
    for test, half in halves.items():
        error = float((abs(differences) > half).any(1).mean())
        found = float((differences[:, 0] + SHIFT * spreads[1] > half[:, 0]).mean())
        errors = (float(np.sqrt(share * (1 - share) / draws)) for share in (error, found))
        left = float((~pools).any(1).mean()) if test == "verdict" else 0.0
        width = float(half[:, 0].mean() / spreads[1])
        error_se, found_se = errors
        yield Cell(
            pattern, len(spreads), seeds, draws, test, error, error_se, left, width, found, found_se
        )


def simulate_all(draws: int) -> list[Cell]:
    """All cells of the table."""
    cells = []
    for pattern, spread in PATTERNS.items():
        for models in MODELS:
            for seeds in SEEDS:
                cells += simulate(pattern, spread(models), [seeds] * models, draws)
    cells += simulate("equal", np.ones(5), [3] * 5, draws)
    for pattern, spreads, sizes in UNEQUAL_SEEDS:
        cells += simulate(pattern, np.array(spreads, float), sizes, draws)
    return cells


# --- tables ----------------------------------------------------------------------------

PAGE = """# Simulated verdicts

**Verdicts err about as rarely as intended if spreads over seeds are equal. They err more often if
spreads are unequal, in some cases even with ten seeds.**
[`simulate_verdict.py`](simulate_verdict.py) draws 100,000 tables of scores for each figure from
normal distributions. Standard errors are below 0.2 points. *Spreads* are standard deviations over
seeds; *models* include the baseline. [`simulation.csv`](simulation.csv) has more figures.

**Errors**: the percentage of tables with an interval that misses the true difference. 5 is
intended; in the verdict's columns, more than 6 is **bold**.

{errors}
With unequal numbers of seeds, the baseline's first:

{unequal}
**Power**: the percentage of tables in which a model that is better by two standard deviations is
found. With equal numbers of seeds, Welch's tests at the Bonferroni level err in at most {welch}% of
tables, whatever the spreads, but they find less.

{power}
A report states this difference, in standard deviations, as the smallest that its seeds detect with
80% power. In brackets is the percentage of tables in which the simulation finds it:

{least}"""
ERRORS = {"verdict": "verdict", "Welch": "Welch, uncorrected"}  # heads of columns, by test
POWER = {"verdict": "verdict", "Welch-Bonferroni": "Welch-Bonferroni"}


def show_error(cell: Cell) -> str:
    """The family error in percent; the verdict's is bold if it is above the target."""
    error = f"{100 * cell.error:.1f}"
    return f"**{error}**" if cell.test == "verdict" and cell.error > TARGET else error


def show_power(cell: Cell) -> str:
    return f"{100 * cell.found:.1f}"


def show_least_difference(cell: Cell) -> str:
    """The least difference, in standard deviations, and how often the verdict finds it."""
    least = minimal_detectable(cell.models - 1, int(cell.seeds))
    share = find_share(least, cell.models, int(cell.seeds), cell.draws)
    return f"{least:.2f} ({100 * share:.1f})"


def tabulate(cells: Sequence[Cell], tests: Mapping[str, str], show: Callable[[Cell], str]) -> str:
    """A row for each spread and number of models, a column for each test and number of seeds.

    Args:
        tests: the heads of columns, by test.
    """
    rows: dict[tuple[str, int], dict[tuple[str, str], str]] = {}
    columns = [(test, str(seeds)) for test in tests for seeds in SEEDS]
    for cell in cells:
        if (cell.test, cell.seeds) in columns:
            row = rows.setdefault((cell.pattern, cell.models), {})
            row[cell.test, cell.seeds] = show(cell)
    head = ["spreads", "models", *(f"{tests[test]}, {seeds} seeds" for test, seeds in columns)]
    ordered = sorted(rows, key=lambda row: ([*PATTERNS].index(row[0]), row[1]))
    lines = [
        [row[0], str(row[1]), *(rows[row].get(each, "") for each in columns)] for row in ordered
    ]
    return markdown_table([head, *lines])


def tabulate_unequal(cells: Sequence[Cell]) -> str:
    """Family errors where models have different numbers of seeds."""
    rows: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        if cell.test in ERRORS and not cell.seeds.isdecimal():
            rows.setdefault((cell.pattern, cell.seeds), []).append(show_error(cell))
    lines = [[pattern, seeds, *errors] for (pattern, seeds), errors in rows.items()]
    return markdown_table([["spreads", "seeds", *ERRORS.values()], *lines])


def write_page(cells: Sequence[Cell]) -> str:
    equal = [cell for cell in cells if cell.pattern == "equal"]
    corrected = (c.error for c in cells if c.test == "Welch-Bonferroni" and c.seeds.isdecimal())
    return PAGE.format(
        welch=f"{100 * max(corrected):.1f}",
        errors=tabulate(cells, ERRORS, show_error),
        unequal=tabulate_unequal(cells),
        power=tabulate(equal, POWER, show_power),
        least=tabulate(equal, {"verdict": "least difference"}, show_least_difference),
    )


def find_share(shift: float, models: int, seeds: int, draws: int) -> float:
    """How often the verdict finds a difference of one model, in standard deviations."""
    generator = np.random.default_rng(1)
    tables = draw_tables(generator, draws, np.ones(models), [seeds] * models, shift)
    half = half_intervals(tables, find_pools(tables))[:, 0]
    return float((tables.means[:, 1] - tables.means[:, 0] > half).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=DRAWS)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    cells = simulate_all(args.draws)
    rows = [asdict(cell) for cell in cells]
    rounded = [{k: f"{v:.5f}" if isinstance(v, float) else v for k, v in r.items()} for r in rows]
    write_csv(args.out / "simulation.csv", rounded)
    page = write_page(cells)
    (args.out / "simulation.md").write_text(page, encoding="utf-8")
    print(page, end="")


if __name__ == "__main__":
    main()
