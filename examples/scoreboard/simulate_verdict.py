"""How often verdicts over seeds are wrong, and what they find: a simulation.

    python examples/scoreboard/simulate_verdict.py --out examples/scoreboard

Scores of several models and seeds are drawn from normal distributions. It writes ``simulation.csv``
and ``simulation.md``: of every cell, how often at least one interval leaves out the true
difference, for the verdict (``odeformers/compare/results/intervals.py``) and for pairwise Welch
tests, both uncorrected and at the Bonferroni level; and how often a model that differs by two
standard deviations is found. 100,000 draws per cell take about three minutes.

Means and variances of normal samples are drawn instead of scores. Quadrature computes each critical
value of Dunnett's test once; :mod:`scipy.stats` would take up to a second for each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import f as fisher
from scipy.stats import t as student

from fairseq_odeformers.files import markdown_table, write_csv
from odeformers.compare.results.intervals import LEVEL, POOL_LEVEL, minimal_detectable

MODELS, SEEDS = (2, 4, 8), (3, 5, 10)  # models with the baseline
DRAWS = 100_000
TARGET = 0.06
SHIFT = 2.0  # a true difference, in standard deviations
UNEQUAL_SEEDS = (3, 10, 3, 5), (10, 3, 3, 5)  # the baseline's first

# --- Dunnett's distribution ------------------------------------------------------------

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
QUANTILES, SHARES = (each / 2 for each in np.polynomial.legendre.leggauss(200))


def coverage(critical: float | np.ndarray, sizes: Sequence[int], freedom: int) -> np.ndarray:
    """The chance that no statistic of Dunnett's test is beyond a value, without differences.

    Statistics are (x_i - x_0) / (s sqrt(1 / n_i + 1 / n_0)) with x_i of variance 1 / n_i: given s
    and x_0 they are independent. The integral over x_0 is Gauss and Hermite's, that over quantiles
    of s Gauss and Legendre's (Dunnett 1955, equation 2).

    Args:
        critical: one value, or one for each model.
        sizes: of the baseline's sample, then of the others.
        freedom: of s.
    """
    spread = np.sqrt(chi2.ppf(QUANTILES + 0.5, freedom) / freedom)
    inside = np.ones((len(NODES), len(spread)))
    for size, value in zip(sizes[1:], np.broadcast_to(critical, len(sizes) - 1)):
        load = np.sqrt(size / (size + sizes[0]))
        center, edge = load * NODES[:, None], value * spread
        rest = np.sqrt(1 - load**2)
        inside *= ndtr((center + edge) / rest) - ndtr((center - edge) / rest)
    return WEIGHTS @ inside @ SHARES / WEIGHTS.sum()


@cache
def critical_value(sizes: tuple[int, ...], freedom: int, level: float) -> float:
    """The value that any of Dunnett's statistics exceeds with the chance of a level."""
    return brentq(lambda value: coverage(value, sizes, freedom) - (1 - level), 0.1, 200)


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
            level = LEVEL * inside.mean()
            critical = critical_value(sizes, sum(sizes) - len(sizes), level)
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

PATTERNS = {  # standard deviations of so many models, the baseline's first
    "equal": lambda models: np.ones(models),
    "1 to 4, baseline 1": lambda models: np.linspace(1, 4, models),
    "1 to 4, baseline 4": lambda models: np.linspace(4, 1, models),
    "one challenger 10": lambda models: np.append(np.ones(models - 1), 10.0),
    "baseline 10": lambda models: np.append(10.0, np.ones(models - 1)),
}


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
    for sizes in UNEQUAL_SEEDS:
        cells += simulate("equal", np.ones(len(sizes)), sizes, draws)
        cells += simulate("1 to 4, baseline 1", np.linspace(1, 4, len(sizes)), sizes, draws)
    return cells


# --- tables ----------------------------------------------------------------------------

INTRODUCTION = """# Simulated verdicts

[`simulate_verdict.py`](simulate_verdict.py) draws 100,000 tables of scores per row from normal
distributions, without true differences. **Errors** are the share of tables with an interval that
leaves out the true difference, ± one standard error: 5% is nominal, more than 6% is **bold**.
Spreads are standard deviations over seeds; *models* include the baseline, and its number of seeds
comes first. *A model left* is the share of tables with a model outside the
[pool](../../docs/comparing.md#how-intervals-are-computed).
"""
POWER = """**Power**, with equal spreads: how often a model that is better by two standard
deviations is found, and mean half-widths of the intervals in standard deviations. Welch's tests at
the Bonferroni level err as rarely as the verdict. The report expects to find the least difference
with 80% power; the last column says how often the simulation finds it.
"""


def by_test(cells: Sequence[Cell]) -> dict[tuple[str, int, str], dict[str, Cell]]:
    """The cells of each test, by what was simulated."""
    grouped: dict[tuple[str, int, str], dict[str, Cell]] = {}
    for cell in cells:
        grouped.setdefault((cell.pattern, cell.models, cell.seeds), {})[cell.test] = cell
    return grouped


def percent(share: float, error: float) -> str:
    return f"{100 * share:.1f} ± {100 * error:.2f}"


def tabulate_errors(cells: Sequence[Cell]) -> str:
    """Family errors of all cells; those of the verdict above the target are bold."""
    rows = [
        ["spreads", "models", "seeds", "verdict, %", "Welch, uncorrected, %", "a model left, %"]
    ]
    for (pattern, models, seeds), tests in by_test(cells).items():
        new, old = tests["verdict"], tests["Welch"]
        error = percent(new.error, new.error_se)
        error = f"**{error}**" if new.error > TARGET else error
        left = f"{100 * new.left:.1f}"
        rows.append([pattern, str(models), seeds, error, percent(old.error, old.error_se), left])
    return markdown_table(rows)


def tabulate_power(cells: Sequence[Cell]) -> str:
    """What is found, and half-widths, where variances are equal."""
    tests = "verdict", "Welch", "Welch-Bonferroni"
    names = "verdict", "Welch, uncorrected", "Welch-Bonferroni"
    header = ["models", "seeds", *(f"found: {name}, %" for name in names)]
    header += [*(f"half: {name}" for name in names), "least difference", "found of it, %"]
    rows: list[Sequence[str]] = [header]
    for (pattern, models, seeds), of in by_test(cells).items():
        if pattern == "equal" and seeds.isdecimal():
            found = [percent(of[test].found, of[test].found_se) for test in tests]
            half = [f"{of[test].half:.2f}" for test in tests]
            least = minimal_detectable(models - 1, int(seeds))
            share = find_share(least, models, int(seeds), of["verdict"].draws)
            error = np.sqrt(share * (1 - share) / of["verdict"].draws)
            rows.append([str(models), seeds, *found, *half, f"{least:.2f}", percent(share, error)])
    return markdown_table(rows)


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
    page = f"{INTRODUCTION}\n{tabulate_errors(cells)}\n{POWER}\n{tabulate_power(cells)}"
    (args.out / "simulation.md").write_text(page, encoding="utf-8")
    print(page, end="")


if __name__ == "__main__":
    main()
