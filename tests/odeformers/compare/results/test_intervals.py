"""Intervals over seeds equal scipy's, and unstable models do not widen others' intervals."""

import numpy as np
import pytest
from scipy.stats import dunnett, ttest_ind

from odeformers.compare.results.intervals import (
    DUNNETT,
    WELCH,
    Difference,
    compare_with_baseline,
    find_pool,
)

TOPIC = {  # AG News, three seeds each, as committed
    "base": [84.6, 85.2, 85.9],
    "macaron": [85.6, 85.2, 85.7],
    "transevolve": [85.2, 86.1, 85.6],
    "transject": [88.1, 87.7, 87.6],
    "ode": [87.7, 86.3, 86.1],
    "node": [84.1, 61.6, 68.0],
}


def test_intervals_of_alike_models_are_dunnetts():
    scores = {name: values for name, values in TOPIC.items() if name != "node"}
    comparison = compare_with_baseline(scores, "base")
    others = [scores[name] for name in comparison.differences]
    test = dunnett(*others, control=scores["base"], random_state=0)
    interval = test.confidence_interval()
    for number, each in enumerate(comparison.differences.values()):
        assert each.method == DUNNETT
        assert each.interval == pytest.approx(
            (interval.low[number], interval.high[number]), abs=5e-3
        )
        assert each.p_value == pytest.approx(test.pvalue[number], abs=1e-5)
    transject = comparison.differences["transject"]
    assert transject.interval == pytest.approx((1.26, 3.87), abs=0.01)
    assert transject.p_value == pytest.approx(0.001, abs=5e-4)
    assert not comparison.left


def test_an_unstable_model_leaves_the_pool():
    comparison = compare_with_baseline(TOPIC, "base")
    assert (
        {*comparison.left} == {"node"}
        and "node" not in comparison.pool
        and "base" in comparison.pool
    )
    node, transject = comparison.differences["node"], comparison.differences["transject"]
    welch = ttest_ind(TOPIC["node"], TOPIC["base"], equal_var=False)
    assert node.method == WELCH and node.p_value == pytest.approx(min(1, 5 * welch.pvalue))
    assert node.interval == pytest.approx(tuple(welch.confidence_interval(0.99)))
    alone = compare_with_baseline({k: v for k, v in TOPIC.items() if k != "node"}, "base")
    half = [np.ptp(each.differences["transject"].interval) / 2 for each in (comparison, alone)]
    assert transject.method == DUNNETT and half[1] < half[0] < 1.1 * half[1]


def test_all_intervals_are_welchs_if_the_baseline_leaves():
    scores = {"base": [50.0, 60, 70], "a": [50.1, 50.2, 50.0], "b": [50.3, 50.2, 50.1]}
    comparison = compare_with_baseline(scores, "base")
    assert "base" in comparison.left and comparison.pool == () and comparison.spread is None
    for name, each in comparison.differences.items():
        welch = ttest_ind(scores[name], scores["base"], equal_var=False)
        assert each.method == WELCH
        assert each.interval == pytest.approx(tuple(welch.confidence_interval(0.975)))


def test_few_or_equal_scores_have_no_interval_and_take_no_part():
    scores = {"base": [1.0, 2, 3], "two": [5.0, 6], "same": [2.0, 2, 2], "a": [2.0, 3, 4.5]}
    comparison = compare_with_baseline(scores, "base")
    assert comparison.differences["two"] == Difference(3.5)
    assert comparison.differences["same"] == Difference(0.0)
    alone = compare_with_baseline({name: scores[name] for name in ("base", "a")}, "base")
    assert comparison.differences["a"] == alone.differences["a"]
    for base in ([1.0, 2], [2.0, 2, 2]):
        comparison = compare_with_baseline({**scores, "base": base}, "base")
        assert (
            not any(each.interval for each in comparison.differences.values())
            and not comparison.left
        )


def test_two_models_have_students_test():
    scores = {"base": [1.0, 2.5, 3], "a": [2.0, 3, 4.5]}
    each = compare_with_baseline(scores, "base").differences["a"]
    test = ttest_ind(scores["a"], scores["base"])
    assert each.p_value == pytest.approx(test.pvalue, rel=2e-3)
    assert each.interval == pytest.approx(tuple(test.confidence_interval()), rel=1e-3)


def test_means_do_not_decide_who_leaves():
    generator = np.random.default_rng(3)
    for _ in range(50):
        scores = {str(n): generator.normal(0, n + 1, 4) for n in range(5)}
        shifted = {name: values + 10 * int(name) for name, values in scores.items()}
        assert find_pool(scores, "0")[0] == find_pool(shifted, "0")[0]
