"""The four words of a verdict, and the margin within which models are equivalent."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ..numbers import in_percent
from ..results.intervals import ENOUGH, Difference

MARGIN = 1.0  # points of accuracy, F1, BLEU or chrF that count as no difference
SHARE = 2.0  # percent of the baseline's score that count as no difference, for other metrics
BETTER, WORSE, EQUIVALENT, INCONCLUSIVE = "better", "worse", "equivalent", "inconclusive"
FEW_SEEDS, EQUAL_SCORES = "there are too few seeds", "all seeds score the same"
WIDE = "the interval includes zero"
WORDS = (  # the definition of the verdicts
    "A model is better or worse if the 95% interval over seeds excludes zero, and equivalent if "
    "the interval includes zero and lies within the margin. Otherwise, or if something else leaves "
    "the order open, the verdict is inconclusive."
)


class Verdict(NamedTuple):
    """A word, and its reason or qualification, which may be ""."""

    word: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.word} ({self.reason})" if self.reason else self.word

    def leave_open(self, reasons: Collection[str]) -> Verdict:
        """Return the verdict if *reasons* leave the order open, whatever the seeds say."""
        if not reasons or self.word == INCONCLUSIVE:
            return self
        return Verdict(INCONCLUSIVE, f"{self.word} over these seeds, but {' and '.join(reasons)}")


def find_margin(metric: str, baseline: float, margin: float | None = None) -> float:
    """Return the largest difference that counts as none, in the unit of the metric.

    Args:
        baseline: mean score of the baseline.
        margin: points of a metric in percent, or percent of the baseline's score (default:
            :data:`MARGIN` or :data:`SHARE`).
    """
    if in_percent(metric):
        return MARGIN if margin is None else margin
    return (SHARE if margin is None else margin) / 100 * abs(baseline)


def give_verdict(difference: Difference, margin: float, seeds: int = ENOUGH) -> Verdict:
    """Give the verdict of the seeds on a difference from the baseline.

    *Better* and *worse*: the interval excludes zero. *Equivalent*: the interval includes zero, and
    all of it is within the margin. *Inconclusive*: neither. If all of an interval that excludes
    zero is within the margin, the verdict says so.

    Args:
        margin: largest difference that counts as none.
        seeds: smaller number of seeds of the two models.
    """
    if difference.interval is None:
        return Verdict(INCONCLUSIVE, FEW_SEEDS if seeds < ENOUGH else EQUAL_SCORES)
    low, high = difference.interval
    within = -margin <= low and high <= margin
    if low > 0 or high < 0:
        word = BETTER if low > 0 else WORSE
        return Verdict(word, "by less than the margin" if within else "")
    return Verdict(EQUIVALENT) if within else Verdict(INCONCLUSIVE, WIDE)
