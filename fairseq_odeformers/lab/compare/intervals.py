"""Intervals over seeds and corrected p-values, for the report of a comparison and scoreboards."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from scipy.stats import t as student
from scipy.stats import ttest_ind

from .outcomes import add_decimals

ENOUGH = 3  # seeds for an interval
EQUAL = "one side's seeds are all equal"  # why a difference of enough seeds has no interval
SPREAD = (
    "± gives the standard deviation over seeds, brackets the 95% interval of the mean, with three "
    "seeds or more, unless all are equal."
)


def over_seeds(values: Sequence[float], digits: int) -> str:
    """The mean, of several seeds its standard deviation, and of three Student's 95% interval."""
    mean = fmean(values)
    digits = add_decimals(mean, digits)
    text = f"{mean:,.{digits}f}"
    if len(values) > 1:
        text += f" ± {stdev(values):.{digits}f}"
    if len(values) >= ENOUGH and (half := half_interval(values)):  # 0 of a few texts is no interval
        text += f" ({mean - half:,.{digits}f} to {mean + half:,.{digits}f})"
    return text


def half_interval(values: Sequence[float]) -> float:
    """Half of Student's 95% interval of the mean."""
    return student.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))


class Difference(NamedTuple):
    """A difference of means, with its 95% interval if it has one."""

    mean: float
    interval: tuple[float, float] | None
    digits: int

    def __str__(self) -> str:
        figures = [self.mean, *(self.interval or ())]
        text, *ends = (f"{round(each, self.digits) + 0:+,.{self.digits}f}" for each in figures)
        return f"{text} ({' to '.join(ends)})" if ends else text

    @property
    def excludes_zero(self) -> bool:
        low, high = self.interval or (0, 0)
        return low * high > 0


def difference_interval(
    ours: Sequence[float], theirs: Sequence[float]
) -> tuple[float, float] | None:
    """Welch's 95% interval of a difference of means.

    None if a side has fewer than three values, or equal ones, which say nothing of their variance.
    """
    if any(len(values) < ENOUGH or len({*values}) == 1 for values in (ours, theirs)):
        return None
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    return float(low), float(high)


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values, adjusted so that the chance of any false rejection stays below the level."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(np.asarray(p_values)[order] * factors)
    return np.minimum(corrected, 1).tolist()
