"""Intervals over seeds: by how much are models better or worse than the baseline?

The models of one table and its baseline form a set of comparisons. If spreads over seeds are
equal, the chance is at most about :data:`LEVEL` that any interval of the set excludes the true
difference. ``examples/scoreboard/simulate_verdict.py`` simulates equal and unequal spreads.

* Models with similar variances over seeds share one estimate of the variance. Dunnett's test
  (:func:`scipy.stats.dunnett`) provides their simultaneous intervals and p-values.
* A model whose variance deviates too much (:func:`find_pool`) leaves the pool. Welch's test
  (:func:`scipy.stats.ttest_ind`) compares it at the Bonferroni level. If the baseline leaves,
  Welch's test compares all models.
* A model with fewer than three seeds, or with equal scores, provides no estimate of its variance,
  so it is in no pool and gets no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import fmean, variance
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import dunnett, multivariate_t, nct, ttest_ind
from scipy.stats import f as fisher

LEVEL = 0.05  # the chance that any interval of a table excludes the true difference
POOL_LEVEL = 0.05  # the chance of calling equal variances unequal, with Bonferroni's correction
MIN_SEEDS = 3  # minimum number of seeds for an interval
POWER = 0.8
POINTS = 20_000  # number of points of an integral
RANDOM_STATE = 0  # seed of integrals and bootstraps, so that reports are reproducible

DUNNETT, WELCH = "Dunnett", "Welch"

# --- intervals -------------------------------------------------------------------------


class Difference(NamedTuple):
    """The difference of a mean score from the baseline's, in the unit of the scores.

    Attributes:
        mean: the difference; positive is better.
        interval: simultaneous 95% interval for the whole table; None without an estimate of the
            variance.
        p_value: p-value adjusted for the number of models in the table; None without an interval.
        method: :data:`DUNNETT` or :data:`WELCH`; "" without an interval.
    """

    mean: float
    interval: tuple[float, float] | None = None
    p_value: float | None = None
    method: str = ""


@dataclass(frozen=True)
class OverSeeds:
    """The differences of a table's models from the baseline, and the estimates that they use.

    Attributes:
        differences: differences by model.
        pool: models that share an estimate of the variance; empty if the baseline has left.
        left: models excluded from the pool, possibly including the baseline, each with the p-value
            of the F-test that excluded it.
        spread: standard deviation over seeds that the pool shares, in the unit of the scores.
        seeds: smallest number of seeds of a model in the pool.
    """

    differences: dict[str, Difference]
    pool: tuple[str, ...] = ()
    left: dict[str, float] = field(default_factory=dict)
    spread: float | None = None
    seeds: int = 0

    @property
    def least_difference(self) -> float | None:
        """The smallest true difference that these seeds detect with 80% power."""
        if self.spread is None:
            return None
        pooled = len(self.pool) - 1
        family = sum(each.interval is not None for each in self.differences.values())
        return self.spread * minimal_detectable(pooled, self.seeds, level=LEVEL * pooled / family)


def has_spread(values: Sequence[float]) -> bool:
    """Return whether scores allow an estimate of the variance: three or more, and not all equal."""
    return len(values) >= MIN_SEEDS and len({*values}) > 1


def compare_with_baseline(scores: Mapping[str, Sequence[float]], baseline: str) -> OverSeeds:
    """Compute simultaneous 95% intervals and adjusted p-values of differences from a baseline.

    If q of m models have left the pool, each of them is tested at :data:`LEVEL` / m, and the others
    share the rest: the levels add up to :data:`LEVEL`. The chance of a false claim is slightly
    higher, because the data choose the pool.

    Args:
        scores: scores of each model, one per seed; higher is better. Numbers of seeds may differ.
        baseline: one of the models.
    """
    base = scores[baseline]
    others = {name: values for name, values in scores.items() if name != baseline}
    compared = [n for n, values in others.items() if has_spread(values)] if has_spread(base) else []
    differences = {name: Difference(fmean(v) - fmean(base)) for name, v in others.items()}
    if not compared:
        return OverSeeds(differences)
    pool, left = find_pool({name: scores[name] for name in (*compared, baseline)}, baseline)
    pooled = [name for name in compared if name in pool]
    for name in compared:
        if name not in pooled:
            differences[name] = compare_apart(others[name], base, len(compared))
    if not pooled:
        return OverSeeds(differences, left=left)
    results = compare_pooled([others[name] for name in pooled], base, len(compared))
    differences |= dict(zip(pooled, results))
    shared, _ = pool_variance([scores[name] for name in pool])
    seeds = min(len(scores[name]) for name in pool)
    return OverSeeds(differences, tuple(pool), left, math.sqrt(shared), seeds)


def compare_pooled(
    samples: Sequence[Sequence[float]], base: Sequence[float], family: int
) -> list[Difference]:
    """Compare samples with a baseline by Dunnett's test, with one variance for all of them.

    Args:
        family: number of models in the table; the samples get their share of the level.
    """
    share = len(samples) / family
    test = dunnett(*samples, control=base, random_state=RANDOM_STATE)
    p_values = np.clip(test.pvalue / share, 0, 1)
    shared, _ = pool_variance([base, *samples])
    critical = critical_value((len(base), *map(len, samples)), LEVEL * share)
    differences = []
    for sample, p_value in zip(samples, p_values):
        mean = fmean(sample) - fmean(base)
        half = critical * math.sqrt(shared * (1 / len(sample) + 1 / len(base)))
        differences.append(Difference(mean, (mean - half, mean + half), float(p_value), DUNNETT))
    return differences


@cache
def critical_value(sizes: tuple[int, ...], level: float = LEVEL) -> float:
    """Return half of Dunnett's interval, in standard errors of a difference.

    The statistics have a multivariate t distribution (Dunnett 1955). The result of
    :func:`scipy.stats.dunnett` includes the interval as well, but at levels other than 5%, its
    search often ends at a wrong value: in scipy 1.13, at 295 instead of 3.4.

    Args:
        sizes: numbers of seeds, the baseline's first.
        level: chance that any statistic exceeds the value if there are no differences.
    """
    base, others = sizes[0], np.array(sizes[1:])
    load = np.sqrt(others / (others + base))
    shape = np.outer(load, load)
    np.fill_diagonal(shape, 1)
    freedom = sum(sizes) - len(sizes)

    def excess(value: float) -> float:
        edge = np.full(len(others), value)
        inside = multivariate_t.cdf(
            edge,
            shape=shape,
            df=freedom,
            lower_limit=-edge,
            maxpts=POINTS,
            random_state=RANDOM_STATE,
        )
        return float(inside) - (1 - level)

    return float(brentq(excess, 0.0, 1000.0, xtol=1e-4))


def compare_apart(sample: Sequence[float], base: Sequence[float], family: int) -> Difference:
    """Compare a sample with a baseline by Welch's test, with Bonferroni's correction."""
    test = ttest_ind(sample, base, equal_var=False)
    low, high = test.confidence_interval(1 - LEVEL / family)
    p_value = min(1.0, family * float(test.pvalue))
    return Difference(fmean(sample) - fmean(base), (float(low), float(high)), p_value, WELCH)


# --- the pool --------------------------------------------------------------------------


def find_pool(
    scores: Mapping[str, Sequence[float]], baseline: str
) -> tuple[list[str], dict[str, float]]:
    """Find the models whose variances may be pooled, and the p-values of those that have left.

    A two-sided F-test compares each model's variance with the pooled variance of the other models
    in the pool. The model with the smallest p-value leaves if this p-value is below
    :data:`POOL_LEVEL` divided by the number of models in the pool; then the rest is tested again.
    If the baseline leaves, there is no pool, since its variance is part of all intervals. The test
    does not depend on means.

    Args:
        scores: scores of each model, for three seeds or more and not all equal.
    """
    pool, left = [*scores], {}
    while len(pool) > 1:
        p_values = {name: f_test(name, {n: scores[n] for n in pool}) for name in pool}
        name = min(pool, key=p_values.__getitem__)
        if p_values[name] >= POOL_LEVEL / len(pool):
            break
        left[name] = p_values[name]
        if name == baseline:
            return [], left
        pool.remove(name)
    return pool, left


def f_test(name: str, scores: Mapping[str, Sequence[float]]) -> float:
    """Compare a model's variance with the others' pooled variance by a two-sided F-test."""
    others, freedom = pool_variance([values for n, values in scores.items() if n != name])
    ratio, own = variance(scores[name]) / others, len(scores[name]) - 1
    tails = fisher.sf(ratio, own, freedom), fisher.cdf(ratio, own, freedom)
    return 2 * float(min(tails))


def pool_variance(samples: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Return the variance within samples, and its degrees of freedom."""
    freedom = sum(len(values) - 1 for values in samples)
    return sum((len(values) - 1) * variance(values) for values in samples) / freedom, freedom


# --- power -----------------------------------------------------------------------------


@cache
def minimal_detectable(
    models: int, seeds: int, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest true difference that *seeds* seeds detect, in standard deviations.

    Multiply it by the standard deviation over seeds that the models share
    (:attr:`OverSeeds.spread`). The statistic of a model with a true difference has a noncentral t
    distribution. The difference is detected if the interval is on the right side of zero.

    Args:
        models: number of models that are compared with the baseline.
        seeds: number of seeds, three or more, of each model and the baseline; the smallest if they
            differ.
        power: share of experiments that detect the difference.
    """
    freedom = (models + 1) * (seeds - 1)
    critical = critical_value((seeds,) * (models + 1), level)

    def excess(shift: float) -> float:
        return float(nct.sf(critical, freedom, shift)) - power

    most = 2 * critical + 3  # beyond it, nct may return NaN
    return float(brentq(excess, 0.0, most)) * math.sqrt(2 / seeds)
