"""The four words of a verdict, and margins."""

import pytest

from odeformers.compare.report.judge import EQUIVALENT, INCONCLUSIVE, find_margin, give_verdict
from odeformers.compare.results.intervals import Difference


@pytest.mark.parametrize(
    "low, high, words",
    [
        (0.2, 2, "better"),
        (-2, -0.2, "worse"),
        (-0.9, 0.8, "equivalent"),
        (-0.9, 1.1, "inconclusive (the interval includes zero)"),
        (0.1, 0.8, "better (by less than the margin)"),
        (-0.8, -0.1, "worse (by less than the margin)"),
    ],
)
def test_an_interval_gives_one_of_four_words(low, high, words):
    assert str(give_verdict(Difference((low + high) / 2, (low, high), 0.1), 1.0)) == words


def test_reasons_leave_a_verdict_open():
    better = give_verdict(Difference(1, (0.2, 2), 0.01), 1)
    left = better.leave_open(["other texts may not agree", "values were not tuned"])
    assert left.word == INCONCLUSIVE
    assert left.reason == (
        "better over these seeds, but other texts may not agree and values were not tuned"
    )
    assert better.leave_open([]) == better
    few = give_verdict(Difference(3.0), 1, seeds=2)
    assert few == (INCONCLUSIVE, "there are too few seeds") == few.leave_open(["not tuned"])
    assert give_verdict(Difference(3.0), 1).reason == "all seeds of a model score the same"


def test_margins_are_points_or_percent_of_the_baseline():
    assert find_margin("accuracy", 85) == find_margin("BLEU", 30) == 1
    assert find_margin("macro-F1", 85, 0.5) == 0.5
    assert find_margin("perplexity", 250) == 5 and find_margin("perplexity", -250, 1) == 2.5
    within = Difference(1, (-4, 4), 1)
    assert give_verdict(within, find_margin("perplexity", 250)).word == EQUIVALENT
