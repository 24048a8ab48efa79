"""Pictures of a comparison: learning curves, and quality against time and size."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from statistics import fmean
from typing import NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fairseq_odeformers.lab.plots import (
    ARCHITECTURES,
    COLORS,
    FILLS,
    LINES,
    STYLE,
    legend,
    panels,
    styles,
    title,
)

from .results import Curve

SAME_SIZE = 1.1  # the most parameters by the fewest, up to which they say nothing
LEAST_SPAN = 0.1  # of an axis, as a share of its end: less makes noise look like a gap
BESIDE = 0.012  # of an axis, from the marker of a seed to the next, which may be as high
MARKER = {
    **{"linestyle": "", "fillstyle": "full", "markersize": 7},
    **{"markeredgecolor": "white", "markeredgewidth": 0.5},
}


class Quality(NamedTuple):
    """What the trainings of an architecture cost, and how good they are."""

    seconds: float  # that a training has cost
    parameters: int
    scores: Sequence[float]  # of each seed
    error: float  # half of the 95% interval; 0 if unknown


@rc_context(STYLE)
def draw_learning_curves(
    curves: Mapping[str, Sequence[Curve]], unit: str, metric: str = "loss"
) -> Figure:
    """Validation loss, and magnified the metric that chooses, against updates and against time.

    Args:
        curves: by architecture, one per seed.
        unit: of the loss.
        metric: by which the best validations were chosen.
    """
    last = max(curve.seconds[-1] for of_seeds in curves.values() for curve in of_seeds)
    seconds, unit_of_time = choose_time_unit(last)
    loss = f"validation loss\n({unit})"
    chosen = ("loss", loss) if metric == "loss" else ("metric", f"validation {metric}")
    figure, grid = panels(4, 2, 4.5, 2.9)
    shown = product((("loss", loss), chosen), (("updates", 1), ("seconds", seconds)))
    for axes, ((values, label), (cost, scale)) in zip(grid, shown):
        for (name, of_seeds), look in zip(curves.items(), distinct(curves)):
            x = [[each / scale for each in getattr(curve, cost)] for curve in of_seeds]
            y = [getattr(curve, values) for curve in of_seeds]
            draw_curves(axes, x, y, [curve.best for curve in of_seeds], name, look)
        if cost == "updates":
            axes.set_ylabel(label)
    every = [curve for of_seeds in curves.values() for curve in of_seeds]
    limits = span_best_thirds([(getattr(curve, chosen[0]), curve.best) for curve in every])
    for axes in grid[2:]:
        axes.set_ylim(limits)
        axes.set_title("axis fitted to the best third of each training")
    headline, mark = "Learning curves", "best checkpoint"
    if len(every) > len(curves):
        headline += ": mean of the seeds, and band from lowest to highest"
        mark += " of each seed"
    headline += f"\nmarkers: {mark}, by validation {metric}"
    finish(figure, grid, headline, ("updates", f"{unit_of_time} of training"))
    return figure


def draw_curves(
    axes: Axes,
    x: Sequence[Sequence[float]],
    y: Sequence[Sequence[float]],
    best: Sequence[int],
    name: str,
    look: dict,
) -> None:
    """The mean of the seeds' curves, their band, and a marker at the best point of each seed."""
    label = name if len(y) == 1 else f"{name} ({len(y)} seeds)"
    shortest = min(map(len, y))
    mean = np.mean([of_seed[:shortest] for of_seed in x], axis=0)
    heights = np.array([of_seed[:shortest] for of_seed in y])
    axes.plot(mean, heights.mean(0), label=label, **{**look, "marker": ""})
    band = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
    axes.fill_between(mean, heights.min(0), heights.max(0), **band)
    axes.plot(
        [of_seed[at] for of_seed, at in zip(x, best)],
        [of_seed[at] for of_seed, at in zip(y, best)],
        **look | MARKER,
    )


def span_best_thirds(runs: Sequence[tuple[Sequence[float], int]]) -> tuple[float, float]:
    """Limits of an axis that shows the third of each run's values that is nearest to its best."""
    ends = []
    for values, best in runs:
        nearest = sorted(values, key=lambda value: abs(value - values[best]))
        ends += filter(math.isfinite, (values[best], nearest[len(values) // 3]))
    low, high = min(ends, default=0.0), max(ends, default=0.0)
    room = (high - low or 1) / 10
    return low - room, high + room


@rc_context(STYLE)
def draw_quality(
    points: Mapping[str, Quality],
    quality: str,
    headline: str,
    interval: str,
    caveat: str = "",
    of: str = "training",
) -> Figure:
    """A figure of quality against the time of a training and, where they differ, parameters.

    Args:
        points: by architecture.
        quality: the name of the score.
        headline: what the score is of.
        interval: what the errors are over, seeds or texts.
        caveat: of the times.
        of: what the times are of, training by the clock or the CPU.
    """
    times = [point.seconds for point in points.values()]
    sizes = [point.parameters for point in points.values()]
    unit, unit_of_time = choose_time_unit(max(times))
    costs = {f"{unit_of_time} of {of}": [time / unit for time in times]}
    if max(sizes) > SAME_SIZE * min(sizes):
        costs["parameters (millions)"] = [size / 1e6 for size in sizes]
    figure, grid = panels(len(costs), 2, 4.2 if len(costs) > 1 else 7.4, 3, sharey=True)
    for axes, values in zip(grid, costs.values()):
        drawn = zip(values, points.items(), distinct(points))
        for place, (x, (name, point), look) in enumerate(drawn):
            mean, color = fmean(point.scores), look["color"]
            cap = 7 - place % 4  # so that a bar below others is seen
            bar = axes.errorbar(x, mean, point.error or None, ecolor=color, fmt="none", capsize=cap)
            if interval == "texts":
                for line in bar.lines[2]:
                    line.set_linestyle((0, (1, 2)))
            if len(point.scores) > 1:
                axes.plot(x, mean, "_", color=color, markersize=20, markeredgewidth=2)
            middle = (len(point.scores) - 1) / 2
            aside = [x + (n - middle) * BESIDE * max(values) for n in range(len(point.scores))]
            axes.plot(aside, point.scores, label=name, **look | MARKER)
        axes.margins(0.15)
    grid[0].set_ylim(widen(*grid[0].get_ylim()))
    if grid[0].get_ylim()[1] > 100 >= max(max(point.scores) for point in points.values()):
        grid[0].set_ylim(top=100)  # no score in percent is above
    grid[0].set_ylabel(quality)
    title(grid[0], caveat)
    marks = []
    if any(len(point.scores) > 1 for point in points.values()):
        marks.append("markers: seeds, side by side, lines: their means")
    if any(point.error for point in points.values()):
        bars = {"seeds": "bars", "texts": "dotted bars"}[interval]
        marks.append(f"{bars}: 95% interval over the {interval}")
    finish(figure, grid, f"{headline}\n{', '.join(marks)}".strip(), [*costs])
    return figure


def choose_time_unit(longest: float) -> tuple[int, str]:
    """The unit for times up to so many seconds: its length in seconds, and its name."""
    if longest < 180:
        return 1, "seconds"
    return (60, "minutes") if longest <= 3 * 3600 else (3600, "hours")


def widen(low: float, high: float) -> tuple[float, float]:
    """Limits of an axis of positive values that spans enough."""
    more = max(0.0, LEAST_SPAN * high - (high - low)) / 2
    return max(0.0, low - more), high + more


def distinct(names: Iterable[str]) -> list[dict]:
    """The looks of names as in all figures, but in colours of their own, as far as these go."""
    looks, seen = list(styles(names).values()), set()
    free = [color for color in COLORS if color not in {look["color"] for look in looks}]
    free.sort(key=[*ARCHITECTURES.values()].__contains__)  # an architecture's come last
    for look in looks:
        if look["color"] in seen and free:
            look.update(color=free.pop(0), linestyle=LINES[0], fillstyle=FILLS[0])
        seen.add(look["color"])
    return looks


def finish(figure: Figure, grid: Sequence[Axes], headline: str, labels: Sequence[str]) -> None:
    """Headline, legend, and at most two columns of panels with horizontal axes from zero."""
    for axes, label in zip(grid, [*labels] * 2):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlim(0, 1.05 * axes.get_xlim()[1])
        axes.set_xlabel(label)
    legend(figure, grid[0].get_legend_handles_labels()[0])
    figure.suptitle(headline)
