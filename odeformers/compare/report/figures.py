"""Draw pictures of a comparison: learning curves, and quality against cost and size."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, product
from statistics import fmean
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from odeformers.plots import STYLE, legend, panels, styles

from ..results.curves import Curve
from ..results.intervals import MIN_SEEDS
from ..results.rows import LOSSES, Row, Runs, group, name_time
from ..results.statistics import half_interval

SAME_SIZE = 1.1  # up to this ratio of sizes, parameters are not drawn
SAME = 0.01  # values are nearly equal if their span is a smaller share of them
MIN_SPAN = 0.1  # least ratio of an axis's span to its end; with less, noise looks like a gap
GAP = 0.08  # least share of an axis of costs between neighbours
MARKER = {"linestyle": "", "markersize": 7}


@rc_context(STYLE)
def draw_learning_curves(trained: Sequence[Row], unit: str) -> Figure:
    """Draw the validation loss and the metric that chooses against updates and against cost.

    Args:
        trained: rows with learning curves.
        unit: unit of the loss.
    """
    curves = {
        name: [row.learning for row in rows if row.learning]
        for name, rows in group(trained, "architecture").items()
    }
    every, metric = [*chain(*curves.values())], trained[0].validated
    seconds, time = choose_time_unit(max(curve.seconds[-1] for curve in every), trained)
    rows = {"loss": f"validation loss\n({unit})"}
    if metric not in LOSSES:
        rows["metric"] = f"validation {metric}"
    looks = styles(curves, distinct=True).values()  # the baseline is the first
    figure, grid = panels(2 * len(rows), 2, 4.5, 2.9)
    for axes, (values, (cost, scale)) in zip(
        grid, product(rows, (("updates", 1), ("seconds", seconds)))
    ):
        for (name, of_seeds), look in zip(curves.items(), looks):
            x = [np.divide(getattr(curve, cost), scale) for curve in of_seeds]
            y = [np.array(getattr(curve, values)) for curve in of_seeds]
            draw_curves(axes, x, y, [curve.best for curve in of_seeds], label=name, **look)
        lowest = lowest_losses(every) if values == "loss" else []
        axes.set_ylim(span_best_thirds([(getattr(c, values), c.best) for c in every], lowest))
        if cost == "updates":
            axes.set_ylabel(rows[values])
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
    best = trained[0].best_validation
    headline = "Learning curves, axes fitted to the best third\n"
    headline += f"markers: each run's checkpoint of {best}"
    if len(every) > len(curves):
        headline += "; thick lines: mean of the seeds"
    finish(figure, grid, headline, ("updates", time))
    return figure


def draw_curves(
    axes: Axes, x: Sequence[np.ndarray], y: Sequence[np.ndarray], best: Sequence[int], **look
) -> None:
    """Draw the seeds' curves, their mean, and a marker at each seed's best point.

    Seeds may differ in cost and number of updates; each marker is on the curve of its seed.
    """
    shortest = min(map(len, y))
    mean = np.mean([of_seed[:shortest] for of_seed in x], axis=0)
    height = np.mean([of_seed[:shortest] for of_seed in y], axis=0)
    hidden: dict[str, Any] = {"label": None}  # not in the legend
    line = {"marker": ""} if shortest > 1 else hidden  # one point leaves no line
    for of_x, of_y in zip(x, y):
        axes.plot(of_x, of_y, color=look["color"], alpha=0.4, linewidth=0.8)
    axes.plot(mean, height, **look | line)
    points = [(of_x[at], of_y[at]) for of_x, of_y, at in zip(x, y, best)]
    axes.plot(*zip(*points), **look | MARKER | (hidden if shortest > 1 else {}))


def lowest_losses(curves: Sequence[Curve]) -> list[float]:
    """Return the lowest loss of each run, even if another metric chooses another checkpoint."""
    return [min(filter(math.isfinite, curve.loss), default=math.nan) for curve in curves]


def span_best_thirds(
    runs: Sequence[tuple[Sequence[float], int]], more: Sequence[float]
) -> tuple[float, float]:
    """Choose an axis that shows the third of each run's values that is nearest to its best value.

    Args:
        runs: values of each run, and the index of the best checkpoint's value.
        more: values to show in any case.
    """
    ends = [value for value in more if math.isfinite(value)]
    for values, best in runs:
        nearest = sorted(values, key=lambda value: abs(value - values[best]))
        ends += filter(math.isfinite, (values[best], nearest[len(values) // 3]))
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    span = high - low
    # Differences of equal or nearly equal values are not magnified.
    room = span / 10 if span > SAME * abs(high) else (MIN_SPAN * abs(high) - span) / 2 or 1
    return low - room, high + room


@rc_context(STYLE)
def draw_quality(scores: Runs, errors: Mapping[str, float]) -> Figure:
    """Draw a score against the cost of a training run and, where they differ, parameters.

    Bars are intervals over the seeds, or over the texts if there are too few seeds.

    Args:
        errors: half of the interval over the texts, by architecture.
    """
    every = [row for runs in scores.values() for row in runs]
    unit, time = choose_time_unit(max(row.cost for row in every), every)
    costs = {time: [fmean(row.cost for row in runs) / unit for runs in scores.values()]}
    sizes = [runs[0].parameters / 1e6 for runs in scores.values()]
    if max(sizes) > SAME_SIZE * min(sizes):
        costs["parameters (millions)"] = sizes
    over = "seeds" if min(map(len, scores.values())) >= MIN_SEEDS else "texts"
    figure, grid = panels(len(costs), 2, 4.2 if len(costs) > 1 else 7.4, 3, sharey=True)
    looks = styles(scores, distinct=True).values()  # the baseline is the first
    labels = []
    for axes, (label, exact) in zip(grid, costs.items()):
        places = fit_costs(axes, exact)
        beside = "" if np.allclose(places, exact, rtol=1e-3) else ", near ones side by side"
        labels.append(label + beside)
        for x, (name, runs), look in zip(places, scores.items(), looks):
            values = [row.value for row in runs]
            error = half_interval(values) if over == "seeds" else errors.get(name, 0.0)
            mean = {"fmt": "_", "markersize": 20, "capsize": 4, "color": look["color"]}
            axes.errorbar(x, fmean(values), error or None, **mean)
            # Without clipping, a marker at 100, where the axis ends, is whole.
            axes.plot([x] * len(values), values, label=name, clip_on=False, **look | MARKER)
        axes.margins(y=0.15)
    low, high = grid[0].get_ylim()
    more = max(0.0, MIN_SPAN * high - (high - low)) / 2
    most = 100 if max(row.value for row in every) <= 100 else math.inf  # in percent, or above
    grid[0].set_ylim(max(0.0, low - more), min(high + more, most))
    first = every[0]
    grid[0].set_ylabel(first.metric)
    headline = f"{first.metric} on {first.split}, {first.checkpoint}\nmarkers: seeds; lines: means"
    finish(figure, grid, f"{headline}; bars: 95% intervals over the {over}", labels)
    return figure


def fit_costs(axes: Axes, costs: Sequence[float]) -> list[float]:
    """Fit a horizontal axis to costs; returns where to draw them, nearly equal ones side by side.

    The axis begins at zero unless the costs would then share its right half.
    """
    low, high = min(costs), max(costs)
    width = high if low < high / 2 else max(high - low, MIN_SPAN * high)
    places = move_apart(costs, width * min(GAP, 1 / len(costs)))
    left, right = min(places), max(places)
    room = max(GAP * width, (width - (right - left)) / 2)
    axes.set_xlim(0 if low < high / 2 else left - room, right + room)
    return places


def move_apart(places: Sequence[float], gap: float) -> list[float]:
    """Move places as little as makes neighbours *gap* apart, each crowd around its middle."""
    order, gaps = np.argsort(places, kind="stable"), gap * np.arange(len(places))
    moved = np.empty(len(places))
    moved[order] = isotonic_regression(np.array(places)[order] - gaps).x + gaps
    return moved.tolist()


def choose_time_unit(longest: float, rows: Iterable[Row]) -> tuple[int, str]:
    """Choose the unit for costs up to *longest* seconds; returns its seconds and name."""
    if longest < 180:
        length, name = 1, "seconds"
    else:
        length, name = (60, "minutes") if longest <= 3 * 3600 else (3600, "hours")
    return length, f"{name_time(rows, name)} of training"


def finish(figure: Figure, grid: Sequence[Axes], headline: str, labels: Sequence[str]) -> None:
    """Add headline, legend and labels to panels."""
    for axes, label in zip(grid, [*labels] * 2):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(label)
    legend(figure, grid[0].get_legend_handles_labels()[0])
    figure.suptitle(headline)
