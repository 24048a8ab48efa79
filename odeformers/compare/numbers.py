"""Numbers as text: scores, intervals, p-values and times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean, stdev

from .results.intervals import Difference
from .results.statistics import half_interval

MANY_TEXTS = 10_000  # number of texts, where one text is 0.01%


def in_percent(metric: str) -> bool:
    """Return whether a metric is in percent."""
    return re.search("accuracy|f1|bleu|chrf", metric, re.IGNORECASE) is not None


def count_decimals(metric: str, texts: int | None = 0) -> int:
    """Return the number of decimals to show; for percentages, two only if a text is 0.01 points."""
    if in_percent(metric):
        return 2 if (texts or 0) >= MANY_TEXTS else 1
    return 2 if metric in ("perplexity", "ppl") else 3


def add_decimals(score: float, digits: int) -> int:
    """Increase a number of decimals if a score below 100 would be shown as 100."""
    while round(score, digits) == 100 > round(score, 6):
        digits += 1
    return digits


def format_seeds(values: Sequence[float], digits: int) -> str:
    """Format the mean, the standard deviation of several seeds, and the 95% interval of three."""
    mean = fmean(values)
    digits = add_decimals(mean, digits)
    text = f"{mean:,.{digits}f}"
    if len(values) > 1:
        text += f" ± {stdev(values):.{digits}f}"
    if half := half_interval(values):
        text += f" ({mean - half:,.{digits}f} to {mean + half:,.{digits}f})"
    return text


def p_as_text(p_value: float) -> str:
    """Format a p-value with three decimals, but never as 0."""
    return f"{p_value:.3f}" if p_value >= 0.001 else "<0.001"


def describe_difference(difference: Difference, digits: int) -> str:
    """Format a difference, with its interval if it has one."""
    figures = [difference.mean, *(difference.interval or ())]
    text, *ends = (f"{round(each, digits) + 0:+,.{digits}f}" for each in figures)
    return f"{text} ({' to '.join(ends)})" if ends else text


def clock(seconds: float) -> str:
    """Format a time such as 1:05:09."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
