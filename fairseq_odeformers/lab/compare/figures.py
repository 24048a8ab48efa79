"""Pictures of a comparison: learning curves, and quality against time and size."""

from collections.abc import Iterable, Mapping, Sequence
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

from .logs import Training

LATE = 6  # validations from which on the end of the trainings has panels of its own
SAME_SIZE = 1.02  # the most parameters by the fewest, up to which they say nothing
LEAST_SPAN = 0.1  # of an axis, as a share of its end: less makes noise look like a gap


class Quality(NamedTuple):
    """What the trainings of an architecture cost, and how good they are."""

    seconds: float  # of a training
    parameters: int
    scores: Sequence[float]  # of each seed
    error: float  # half of the 95% interval; 0 if unknown


@rc_context(STYLE)
def learning_curves(trainings: Mapping[str, Sequence[Training]], unit: str) -> Figure:
    """Validation loss against updates and against time, whole and at the end.

    A line is the mean over the seeds, and a band reaches from the lowest to the highest of them.

    Args:
        trainings: by architecture, one training per seed.
        unit: of the loss.
    """
    points = {name: min(len(run.losses) for run in runs) for name, runs in trainings.items()}
    last = max(run.seconds[-1] for runs in trainings.values() for run in runs)
    seconds, unit_of_time = choose_time_unit(last)
    rows = 2 if max(points.values()) >= LATE else 1
    figure, grid = panels(2 * rows, 2, 4.5, 2.9)
    for column, (values, scale) in enumerate((("updates", 1), ("seconds", seconds))):
        curves = {
            name: np.mean([getattr(run, values)[: points[name]] for run in runs], axis=0) / scale
            for name, runs in trainings.items()
        }
        end = min(x[-1] for x in curves.values()) * 2 / 3
        for axes, start in zip(grid[column::2], (0, end)):
            for (name, runs), look in zip(trainings.items(), distinct(trainings)):
                late = curves[name] >= start
                x, y = curves[name][late], [np.array(run.losses[: late.size])[late] for run in runs]
                label = name if len(runs) == 1 else f"{name} ({len(runs)} seeds)"
                marker = {"marker": look["marker"] if late.size < LATE else ""}
                axes.plot(x, np.mean(y, 0), label=label, **{**look, **marker})
                bounds = {"color": look["color"], "alpha": 0.15}
                axes.fill_between(x, np.min(y, 0), np.max(y, 0), linewidth=0, **bounds)
    for place, axes in enumerate(grid):
        late = "from two thirds of the shortest training on"
        axes.set_title(late if place > 1 else "all validations")
    for axes in grid[::2]:
        axes.set_ylabel(f"validation loss\n({unit})")
    bands = any(len(runs) > 1 for runs in trainings.values())
    headline = "Learning curves" + ": mean of the seeds, and band from lowest to highest" * bands
    finish(figure, grid, headline, ("updates", f"{unit_of_time} of training"))
    return figure


@rc_context(STYLE)
def quality_against(
    points: Mapping[str, Quality], quality: str, headline: str, caveat: str = ""
) -> Figure:
    """A figure of quality against the time of a training and, where they differ, parameters.

    Args:
        points: by architecture.
        quality: the name of the score.
        headline: what the score is of, and what the bars are.
        caveat: of the times.
    """
    times = [point.seconds for point in points.values()]
    sizes = [point.parameters for point in points.values()]
    unit, unit_of_time = choose_time_unit(max(times))
    costs = {f"{unit_of_time} of training": [time / unit for time in times]}
    if max(sizes) > SAME_SIZE * min(sizes):
        costs["parameters (millions)"] = [size / 1e6 for size in sizes]
    figure, grid = panels(len(costs), 2, 4.2 if len(costs) > 1 else 7.4, 3, sharey=True)
    for axes, values in zip(grid, costs.values()):
        drawn = zip(values, points.items(), distinct(points))
        for place, (x, (name, point), look) in enumerate(drawn):
            look |= {"linestyle": "", "fillstyle": "full", "markersize": 7}
            cap = 7 - place % 4  # so that a bar below others is seen
            error = point.error or None
            axes.errorbar(x, fmean(point.scores), error, capsize=cap, label=name, **look)
            if len(point.scores) > 1:
                seeds = {**look, "fillstyle": "none", "markersize": 4, "alpha": 0.5}
                axes.plot([x] * len(point.scores), point.scores, **seeds)
        axes.margins(0.15)
        axes.set_xlim(widen(*axes.get_xlim()))
    grid[0].set_ylim(widen(*grid[0].get_ylim()))
    if grid[0].get_ylim()[1] > 100 >= max(max(point.scores) for point in points.values()):
        grid[0].set_ylim(top=100)  # no score in percent is above
    grid[0].set_ylabel(quality)
    title(grid[0], caveat)
    finish(figure, grid, headline, [*costs])
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
    """Headline, legend, and at most two columns of panels with horizontal axes of few numbers."""
    for axes, label in zip(grid, [*labels] * 2):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(label)
    legend(figure, grid[0].get_legend_handles_labels()[0])
    figure.suptitle(headline)
