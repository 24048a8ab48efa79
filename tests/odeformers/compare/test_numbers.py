"""Numbers as text."""

import pytest

from odeformers.compare.numbers import count_decimals, describe_difference, format_seeds
from odeformers.compare.results.intervals import Difference


def test_intervals_need_three_seeds():
    assert format_seeds([1.0], 1) == "1.0"
    assert format_seeds([1.0, 2.0], 1) == "1.5 ± 0.7"
    assert format_seeds([1.0, 2.0, 3.0], 1) == "2.0 ± 1.0 (-0.5 to 4.5)"
    assert format_seeds([5.0, 5.0, 5.0], 1) == "5.0 ± 0.0"


def test_a_score_below_100_is_not_shown_as_100():
    assert format_seeds([99.953], 1) == "99.95" and format_seeds([99.7], 0) == "99.7"
    assert format_seeds([100.0 - 1e-12], 1) == "100.0" and format_seeds([99.94], 1) == "99.9"
    assert format_seeds([99.95, 99.97], 1) == "99.96 ± 0.01"


@pytest.mark.parametrize(
    "metric, texts, decimals",
    [
        *(("accuracy", 64, 1), ("macro_f1", None, 1), ("BLEU", 9_999, 1), ("BLEU", 10_000, 2)),
        *(("perplexity", 64, 2), ("loss", None, 3), ("mcc", None, 3)),
    ],
)
def test_few_texts_have_few_decimals(metric, texts, decimals):
    assert count_decimals(metric, texts) == decimals


@pytest.mark.parametrize(
    "difference, digits, text",
    [
        (Difference(5.0, (0.84, 9.16)), 1, "+5.0 (+0.8 to +9.2)"),
        (Difference(-5.0, (-9.157, -0.843)), 2, "-5.00 (-9.16 to -0.84)"),
        (Difference(3.0), 1, "+3.0"),
        (Difference(-0.01), 1, "+0.0"),
    ],
)
def test_differences_are_described(difference, digits, text):
    assert describe_difference(difference, digits) == text
