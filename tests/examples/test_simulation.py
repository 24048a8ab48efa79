"""The simulation of verdicts computes what reports do, and its figures are the committed ones."""

import csv
import importlib
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2
from scipy.stats import t as student

from odeformers.compare.results.intervals import (
    DUNNETT,
    compare_with_baseline,
    critical_value,
    minimal_detectable,
)

FOLDER = Path(__file__).resolve().parents[2] / "examples/scoreboard"
sys.path.insert(0, str(FOLDER))
simulate = importlib.import_module("simulate_verdict")


NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(80)
QUANTILES, SHARES = (each / 2 for each in np.polynomial.legendre.leggauss(200))


def coverage(critical, sizes):
    """The chance that no statistic of Dunnett's test is beyond a value, by quadrature.

    Statistics are (x_i - x_0) / (s sqrt(1 / n_i + 1 / n_0)) with x_i of variance 1 / n_i: given s
    and x_0, they are independent. The integral over x_0 uses Gauss-Hermite quadrature, that over
    quantiles of s Gauss-Legendre quadrature (Dunnett 1955, equation 2).
    """
    freedom = sum(sizes) - len(sizes)
    spread = np.sqrt(chi2.ppf(QUANTILES + 0.5, freedom) / freedom)
    inside = np.ones((len(NODES), len(spread)))
    for size in sizes[1:]:
        load = np.sqrt(size / (size + sizes[0]))
        center, edge = load * NODES[:, None], critical * spread
        rest = np.sqrt(1 - load**2)
        inside *= ndtr((center + edge) / rest) - ndtr((center - edge) / rest)
    return WEIGHTS @ inside @ SHARES / WEIGHTS.sum()


@pytest.mark.parametrize("level", [0.0125, 0.025, 0.05])
def test_critical_values_are_exact_at_all_levels(level):
    """scipy's own search fails at levels beside 5%."""
    for sizes in ((3, 3), (3, 3, 3, 3), (10, 3, 5, 3, 10, 3)):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            value = critical_value(sizes, level)
        assert 1 - coverage(value, sizes) == pytest.approx(level, rel=0.01)
    exact = student.ppf(1 - level / 2, 4)
    assert critical_value((3, 3), level) == pytest.approx(exact, 1e-4)


def test_critical_values_equal_dunnetts_table():
    """The values are two-sided 5% points of Dunnett (1964), table II."""
    for models, seeds, printed in ((4, 3, 2.89), (9, 3, 2.95), (4, 5, 2.65), (3, 16, 2.41)):
        assert critical_value((seeds,) * (models + 1)) == pytest.approx(printed, abs=0.006)


@pytest.mark.parametrize("equal", [True, False])
def test_the_simulation_equals_the_verdict(equal):
    """Pools and intervals agree; scipy's intervals have an error of a thousandth."""
    generator = np.random.default_rng(1)
    for _ in range(25):
        models = int(generator.integers(2, 6))
        spreads = np.exp(generator.normal(0, 1.2, models))
        sizes = np.full(models, 3) if equal else generator.integers(3, 9, models)
        samples = [generator.normal(0, s, n) for s, n in zip(spreads, sizes)]
        comparison = compare_with_baseline({str(n): s.tolist() for n, s in enumerate(samples)}, "0")
        tables = simulate.Tables(
            np.array([[s.mean() for s in samples]]),
            np.array([[s.var(ddof=1) for s in samples]]),
            sizes,
        )
        pools = simulate.find_pools(tables)
        half = simulate.half_intervals(tables, pools)[0]
        for number, each in enumerate(comparison.differences.values()):
            assert (each.method == DUNNETT) == bool(pools[0, 0] and pools[0, number + 1])
            assert np.ptp(each.interval) / 2 == pytest.approx(half[number], rel=1e-3)


@cache
def read_cells():
    """The committed figures."""
    with open(FOLDER / "simulation.csv", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    kinds = {"models": int, "draws": int, "pattern": str, "seeds": str, "test": str}
    return [simulate.Cell(**{k: kinds.get(k, float)(v) for k, v in row.items()}) for row in rows]


@pytest.mark.parametrize("pattern", simulate.PATTERNS)
@pytest.mark.parametrize("models", simulate.MODELS)
@pytest.mark.parametrize("seeds", simulate.SEEDS)
def test_the_committed_errors_are_those_of_the_simulation(pattern, models, seeds):
    spreads = simulate.PATTERNS[pattern](models)
    for cell in simulate.simulate(pattern, spreads, [seeds] * models, 10_000):
        key = (pattern, models, str(seeds), cell.test)
        (committed,) = (c for c in read_cells() if (c.pattern, c.models, c.seeds, c.test) == key)
        assert cell.error == pytest.approx(committed.error, abs=4 * cell.error_se + 1e-3)
        assert cell.found == pytest.approx(committed.found, abs=4 * cell.found_se + 1e-3)


def test_errors_are_at_most_6_percent_where_the_verdict_promises_it():
    """The bound holds for equal spreads, and from five seeds on for an unstable challenger."""
    cells = [c for c in read_cells() if c.test == "verdict" and c.seeds.isdecimal()]
    bounded = [
        cell
        for cell in cells
        if cell.pattern == "equal" or (cell.pattern == "one challenger 10" and int(cell.seeds) >= 5)
    ]
    assert len(bounded) == 10 + 6 and max(cell.error for cell in bounded) < simulate.TARGET


def test_least_difference_is_found_in_four_of_five_cases():
    for models, seeds in ((1, 3), (3, 3), (4, 5), (7, 10)):
        least = minimal_detectable(models, seeds)
        share = simulate.find_share(least, models + 1, seeds, 20_000)
        assert share == pytest.approx(0.8, abs=0.02)  # the pool costs a point


def test_the_page_has_the_committed_figures():
    page, cells = (FOLDER / "simulation.md").read_text("utf-8"), read_cells()
    equal = [cell for cell in cells if cell.pattern == "equal"]
    assert simulate.tabulate(cells, simulate.ERRORS, simulate.show_error) in page
    assert simulate.tabulate_unequal(cells) in page
    assert simulate.tabulate(equal, simulate.POWER, simulate.show_power) in page
