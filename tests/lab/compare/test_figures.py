"""Pictures of a comparison, by what their axes show."""

import pytest

from fairseq_odeformers.lab.compare.figures import (
    Quality,
    choose_time_unit,
    distinct,
    draw_learning_curves,
    draw_quality,
)
from fairseq_odeformers.lab.compare.results import Curve
from fairseq_odeformers.lab.plots import ARCHITECTURES


def curve(losses, metric, best):
    updates = [10 * n for n in range(1, len(losses) + 1)]
    return Curve(updates, [2.0 * n for n in updates], losses, metric, losses, best)


def test_figures_have_the_units_of_their_values():
    """Parameters have a panel if they differ by more than 10%; costs begin at 0."""
    training = Curve([10, 20], [120.0, 300.0], [5.0, 4.0], [5.0, 4.0], [5.0, 4.0], 1)
    curves = draw_learning_curves({"a": [training]}, "bits")
    updates, minutes = (axes.lines[0].get_xdata().tolist() for axes in curves.axes[:2])
    assert (updates, minutes) == ([10, 20], [2, 5])
    for size, panels in ((2_150_000, 1), (2_250_000, 2)):
        points = {"a": Quality(150, 2_000_000, [70.0], 0), "b": Quality(90, size, [70.0], 0)}
        figure = draw_quality(points, "accuracy", "headline", "texts", of="CPU")
        time, *sizes = figure.axes
        assert figure.get_suptitle() == "headline"
        assert time.get_xlabel() == "seconds of CPU" and len(sizes) == panels - 1
        assert [line.get_xydata().tolist() for line in time.lines] == [[[150, 70]], [[90, 70]]]
        assert all(axes.lines[0].get_xdata() == [2] for axes in sizes)
        assert {axes.get_xlim()[0] for axes in (*figure.axes, *curves.axes)} == {0}


@pytest.mark.parametrize("seconds, unit", [(179, "seconds"), (3600, "minutes"), (10801, "hours")])
def test_times_have_a_unit_for_their_length(seconds, unit):
    assert choose_time_unit(seconds)[1] == unit


@pytest.mark.parametrize("metric, best", [("loss", (2, 1)), ("accuracy", (3, 3))])
def test_curves_mark_the_best_checkpoints_and_magnify_what_chose_them(metric, best):
    """A point of each seed, at the loss and at the metric; the bad first values leave the axis."""
    losses = [9.0, 3.0, 2.0, 4.0, 5.0, 6.0], [9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    shares = [50.0, 80.0, 85.0, 90.0, 89.0, 88.0], [10.0, 80.0, 85.0, 88.0, 87.0, 86.0, 85.0]
    chosen = losses if metric == "loss" else shares
    figure = draw_learning_curves({"a": [*map(curve, losses, chosen, best)]}, "bits", metric)
    assert figure.get_suptitle() == (
        "Learning curves: mean of the seeds, and band from lowest to highest\n"
        f"markers: best checkpoint of each seed, by validation {metric}"
    )
    for axes, values, scale in zip(figure.axes, (losses, losses, chosen, chosen), (1, 2, 1, 2)):
        line, marks = axes.lines
        assert line.get_xdata().size == 6
        points = [(10 * scale * (at + 1), of_seed[at]) for of_seed, at in zip(values, best)]
        assert [tuple(point) for point in marks.get_xydata()] == points
    for axes in figure.axes[2:]:
        bottom, top = axes.get_ylim()
        assert (1 < bottom < 2 and 4 < top < 6) if metric == "loss" else (84 < bottom and top < 91)


@pytest.mark.parametrize(
    "scores, low, high",
    [([70.0, 70.1], 66.5, 73.6), ([99.9, 99.95], 94.9, 100), ([10.0, 80.0], 0, 90)],
)
def test_noise_does_not_look_like_a_gap(scores, low, high):
    """An axis spans a tenth of the scores at least, if these can be so high, and bars say more."""
    points = {name: Quality(300, 2_000_000, [score], 1.0) for name, score in zip("ab", scores)}
    for kind in ("texts", "seeds"):
        figure = draw_quality(points, "accuracy", "headline", kind, "a caveat")
        assert figure.get_suptitle().endswith(f"bars: 95% interval over the {kind}")
        (axes,) = figure.axes
        bottom, top = axes.get_ylim()
        assert bottom <= low + 1 and top >= high - 1 and bottom >= 0 and top <= 100
        (bar,) = axes.containers[0][2]
        assert (bar.get_linestyle()[0][1] is None) == (kind == "seeds"), "or dotted"
        (segment,) = bar.get_segments()
        assert (segment[1, 1] - segment[0, 1]) / 2 == pytest.approx(1)
        assert axes.get_title() == "a caveat"


def test_each_model_has_a_colour_of_its_own():
    """That of its architecture, unless one before it has that."""
    names = ["transformer", "transformer-dropout-0.1", "transject", "mine"]
    colors = [look["color"] for look in distinct(names)]
    assert len(set(colors)) == len(names)
    assert colors[0] == ARCHITECTURES["transformer"] and colors[2] == ARCHITECTURES["transject"]
