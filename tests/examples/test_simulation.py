"""The simulation of verdicts computes what reports do, and its errors stay below the target."""

import csv
import importlib
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_t
from scipy.stats import t as student

from odeformers.compare.results import intervals
from odeformers.compare.results.intervals import DUNNETT, compare_with_baseline, minimal_detectable

FOLDER = Path(__file__).resolve().parents[2] / "examples/scoreboard"
sys.path.insert(0, str(FOLDER))
simulate = importlib.import_module("simulate_verdict")


def test_quadrature_agrees_with_exact_values_and_with_scipy():
    for seeds in (3, 5, 10):
        exact = student.ppf(0.975, 2 * seeds - 2)
        assert simulate.critical_value((seeds, seeds), 2 * seeds - 2, 0.05) == pytest.approx(
            exact, 1e-5
        )
    generator = np.random.default_rng(0)
    for _ in range(20):
        sizes = generator.integers(3, 11, generator.integers(3, 9))
        freedom, critical = int(sizes.sum()) - len(sizes), generator.uniform(1, 4)
        load = np.sqrt(sizes[1:] / (sizes[1:] + sizes[0]))
        shape = np.outer(load, load)
        np.fill_diagonal(shape, 1)
        edge = np.full(len(load), critical)
        scipys = multivariate_t(shape=shape, df=freedom, seed=0).cdf(edge, lower_limit=-edge)
        assert simulate.coverage(critical, sizes, freedom) == pytest.approx(scipys, abs=1e-3)


def test_critical_values_equal_dunnetts_table():
    """The values are the two-sided 5% points of Dunnett (1964), table II."""
    for models, freedom, printed in ((2, 10, 2.57), (4, 10, 2.89), (9, 20, 2.95), (3, 60, 2.41)):
        value = simulate.critical_value((7,) * (models + 1), freedom, 0.05)
        assert value == pytest.approx(printed, abs=0.006)


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


@pytest.mark.parametrize("models", [2, 4, 8])
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_the_family_error_is_at_most_6_percent(models, seeds):
    """The bound holds for equal variances, and from five seeds on for an unstable challenger."""
    for pattern in ("equal", "one challenger 10")[: 1 + (seeds >= 5)]:
        spreads = simulate.PATTERNS[pattern](models)
        cell, *_ = simulate.simulate(pattern, spreads, [seeds] * models, 10_000)
        assert cell.error - 3 * cell.error_se < 0.06


def test_least_difference_is_found_in_four_of_five_cases():
    for models, seeds in ((1, 3), (3, 3), (4, 5), (7, 10)):
        least = minimal_detectable(models, seeds)
        share = simulate.find_share(least, models + 1, seeds, 20_000)
        assert share == pytest.approx(0.8, abs=0.02)  # the pool costs a point


def test_the_page_has_all_errors_of_the_verdict():
    """The committed tables show the errors that the committed figures have."""
    page = (FOLDER / "simulation.md").read_text("utf-8")
    tables = [line.split(" | ") for line in page.partition("**Power**")[0].splitlines()]
    shown = [word.strip("*| ") for row in tables for word in row]
    with open(FOLDER / "simulation.csv", encoding="utf-8") as file:
        errors = [
            row["error"] for row in csv.DictReader(file) if row["test"] in ("verdict", "Welch")
        ]
    printed = [f"{100 * float(error):.1f}" for error in errors]
    assert not Counter(printed) - Counter(shown)


def test_critical_values_are_exact_at_all_levels():
    """scipy's own search fails at levels beside 5%."""
    for sizes in ((3, 3), (3, 3, 3, 3), (10, 3, 5, 3, 10, 3)):
        for level in (0.0125, 0.025, 0.05):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                value = intervals.critical_value(sizes, level)
            exact = simulate.critical_value(sizes, sum(sizes) - len(sizes), level)
            assert value == pytest.approx(exact, rel=1e-3)
