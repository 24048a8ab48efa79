"""Pictures of a comparison, by the content of their axes."""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean

import pytest

from odeformers.compare.report.figures import choose_time_unit, draw_learning_curves, draw_quality
from odeformers.compare.results.curves import Curve, write_curve
from odeformers.compare.results.rows import Row
from odeformers.compare.results.statistics import interval_of_share
from odeformers.plots import styles


def curve(losses, metric, best):
    updates = [10 * n for n in range(1, len(losses) + 1)]
    return Curve(updates, [2.0 * n for n in updates], losses, metric, losses, best)


def training(folder, curve, metric):
    """The row of a training with a learning curve."""
    name = f"{len([*folder.iterdir()])}.csv"
    write_curve(folder / name, curve)
    place = {"architecture": "a", "folder": folder, "curve": name}
    return Row(**place, tokens=9.0, cpu_seconds=curve.seconds[-1], validated=metric)


def score(value, seconds=300.0, parameters=2_000_000):
    return Row(metric="accuracy", score=value, cpu_seconds=seconds, parameters=parameters)


def test_figures_have_the_units_of_their_values(tmp_path):
    """Parameters have a panel if they differ by over 10%, and axes of distant costs start at 0."""
    minutes = Curve([10, 20], [120.0, 300.0], [5.0, 4.0], [5.0, 4.0], [5.0, 4.0], 1)
    curves = draw_learning_curves([training(tmp_path, minutes, "loss")], "bits")
    updates, minutes = (axes.lines[0].get_xdata().tolist() for axes in curves.axes)
    assert (updates, minutes) == ([10, 20], [2, 5])
    assert curves.axes[1].get_xlabel() == "CPU minutes of training"
    for size, panels in ((2_150_000, 1), (2_250_000, 2)):
        scores = {"a": [score(70.0, 150)], "b": [score(70.0, 60, size)]}
        figure = draw_quality(scores, {})
        time, *sizes = figure.axes
        assert time.get_xlabel() == "CPU seconds of training" and len(sizes) == panels - 1
        assert {line.get_xdata()[0] for line in time.lines} == {150, 60}
        assert {axes.get_xlim()[0] for axes in (time, *curves.axes)} == {0}


@pytest.mark.parametrize("seconds", [(500, 503), (500, 500), (9, 400, 401)])
def test_models_of_similar_cost_are_drawn_side_by_side(seconds):
    """Models are further apart than the width of a mean's line, and within the axis."""
    scores = {name: [score(70.0, each)] for name, each in zip("abc", seconds)}
    (axes,) = draw_quality(scores, {}).axes
    left, right = axes.get_xlim()
    shares = [(line.get_xdata()[0] - left) / (right - left) for line in axes.lines]
    shares = sorted({round(share, 9) for share in shares})
    assert len(shares) == len(seconds) and 0 < shares[0] and shares[-1] < 1
    assert min(later - share for share, later in pairwise(shares)) > 0.05
    assert axes.get_xlabel().endswith("side by side")


@pytest.mark.parametrize("model", ["transformer_prenorm", "transevolve_classifier_fullff_1"])
def test_only_the_baseline_has_its_familys_colour(model, tmp_path):
    """Curves of two models of a family would not differ otherwise."""
    rows = [training(tmp_path, curve([2.0, 1.0], [2.0, 1.0], 1), "loss") for _ in range(3)]
    names = [model, f"{model}-b", "pcformer"]
    rows = [replace(row, architecture=name) for row, name in zip(rows, names)]
    drawn = draw_learning_curves(rows, "bits").legends[0].legend_handles
    own, other, last = (handle.get_color() for handle in drawn)
    assert (
        own == styles([model])[model]["color"] and last == styles(["pcformer"])["pcformer"]["color"]
    )
    assert other not in (own, last)


@pytest.mark.parametrize("seconds, unit", [(179, "seconds"), (3600, "minutes"), (10801, "hours")])
def test_times_have_a_unit_for_their_length(seconds, unit):
    """A unit also says whether the time is the CPU's."""
    rows = [Row(cpu_seconds=9.0), Row(cpu_seconds=8.0)]
    assert choose_time_unit(seconds, rows)[1].startswith(f"CPU {unit}")
    assert choose_time_unit(seconds, [*rows, Row(seconds=7.0)])[1].startswith(unit)


@pytest.mark.parametrize("metric, best", [("loss", (2, 1)), ("accuracy", (3, 3))])
def test_curves_mark_the_best_checkpoints(metric, best, tmp_path):
    """Each seed has a point on its curve, at the loss and at the metric; axes leave out bad first
    values, and the line of the mean ends with the shorter curve."""
    losses = [9.0, 3.0, 2.0, 4.0, 5.0, 6.0], [9.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    shares = [50.0, 80.0, 85.0, 90.0, 89.0, 88.0], [10.0, 80.0, 85.0, 88.0, 87.0, 86.0, 85.0]
    chosen = losses if metric == "loss" else shares
    curves = map(curve, losses, chosen, best)
    figure = draw_learning_curves([training(tmp_path, each, metric) for each in curves], "bits")
    panels = [losses, losses] + [chosen, chosen] * (metric != "loss")
    for axes, values, scale in zip(figure.axes, panels, (1, 2, 1, 2), strict=False):
        *of_seeds, line, marks = axes.lines
        assert [each.get_ydata().tolist() for each in of_seeds] == [*values]
        assert line.get_xdata().size == 6
        points = [(10 * scale * (at + 1), of_seed[at]) for of_seed, at in zip(values, best)]
        assert [tuple(point) for point in marks.get_xydata()] == points
        assert all(p in map(tuple, s.get_xydata()) for p, s in zip(points, of_seeds, strict=True))
    assert len(figure.axes) == len(panels)
    bottom, top = figure.axes[-1].get_ylim()
    assert (1 < bottom < 2 and 4 < top < 6) if metric == "loss" else (84 < bottom and top < 91)


@pytest.mark.parametrize(
    "values, low, high",
    [([70.0, 70.1], 66.5, 73.6), ([99.9, 99.95], 94.9, 100), ([10.0, 80.0], 0, 90)],
)
def test_noise_does_not_look_like_a_gap(values, low, high):
    """An axis spans at least a tenth of the scores, if these can be so high."""
    scores = {name: [score(value)] for name, value in zip("ab", values)}
    (axes,) = draw_quality(scores, dict.fromkeys("ab", 1.0)).axes
    bottom, top = axes.get_ylim()
    assert bottom <= low + 1 and top >= high - 1 and bottom >= 0 and top <= 100


@pytest.mark.parametrize("values", [[70.0], [70.0, 75.0], [70.0, 71.0, 75.0]])
def test_an_architectures_line_is_at_its_mean(values):
    """The line is at the mean of the costs, too, and the markers are the seeds."""
    runs = [score(value, seconds) for value, seconds in zip(values, (100, 110, 150))]
    (axes,) = draw_quality({"a": runs}, {"a": 1.0}).axes
    cost = fmean(run.cost for run in runs)
    (line, *_) = axes.containers[0]
    assert line.get_xydata().tolist() == [[cost, fmean(values)]]
    (markers,) = [other for other in axes.lines if other.get_label() == "a"]
    assert markers.get_xydata().tolist() == [[cost, value] for value in values]


@pytest.mark.parametrize("count, half", [(2, 1.0), (3, 2.484)])
def test_bars_are_over_seeds_from_three_on(count, half):
    """Bars of fewer seeds are the given ones over texts."""
    values = [70.0, 71.0, 72.0][:count]
    (axes,) = draw_quality({"a": [score(v) for v in values]}, {"a": 1.0}).axes
    (bar,) = axes.containers[0][2]
    (segment,) = bar.get_segments()
    assert (segment[1, 1] - segment[0, 1]) / 2 == pytest.approx(half, abs=1e-3)
    assert ("seeds" if count == 3 else "texts") in axes.figure.get_suptitle().split("over")[1]


def test_the_axis_of_losses_includes_the_lowest(tmp_path):
    """The lowest loss is on the axis even if the metric chooses a checkpoint of a higher one."""
    losses, shares = [2.0, 0.58, 0.9, 0.95, 1.0, 1.1], [50.0, 60.0, 70.0, 80.0, 90.0, 89.0]
    rows = [training(tmp_path, curve(losses, shares, 4), "accuracy")]
    for axes in draw_learning_curves(rows, "bits").axes[:2]:
        assert axes.get_ylim()[0] < 0.58 < 1.0 < axes.get_ylim()[1] < 2


def test_equal_values_do_not_fill_an_axis(tmp_path):
    """The axis spans a tenth of the values, like an axis of scores."""
    shares = [18.67, 18.67, 18.68]
    rows = [training(tmp_path, curve([2.0, 1.5, 1.0], shares, 2), "accuracy")]
    bottom, top = draw_learning_curves(rows, "bits").axes[2].get_ylim()
    assert top - bottom == pytest.approx(1.868) and (top + bottom) / 2 == pytest.approx(18.675)


@pytest.mark.parametrize("validations, line", [(1, "None"), (2, "-")])
def test_the_legend_shows_what_is_drawn(validations, line, tmp_path):
    """A single validation is a marker, since a line needs two points."""
    losses = [2.0, 1.0][:validations]
    rows = [replace(training(tmp_path, curve(losses, losses, 0), "loss"), architecture="pcformer")]
    (handle,) = draw_learning_curves(rows, "bits").legends[0].legend_handles
    assert handle.get_linestyle() == line
    assert (handle.get_marker() not in ("", "None")) == (validations == 1)


def test_markers_at_100_are_not_clipped():
    """The axis ends at 100, and the score has an interval."""
    low, high = interval_of_share(120, 120)
    error = (high - low) / 2
    figure = draw_quality({"a": [score(100.0)], "b": [score(90.0)]}, {"a": error, "b": 1.0})
    (axes,) = figure.axes
    assert axes.get_ylim()[1] == 100
    assert not any(line.get_clip_on() for line in axes.lines if line.get_label() in ("a", "b"))
    (segment,) = axes.containers[0][2][0].get_segments()
    assert segment[1, 1] - segment[0, 1] == pytest.approx(2 * error) and error > 1
