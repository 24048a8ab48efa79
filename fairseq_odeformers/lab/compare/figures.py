"""Pictures of a comparison: learning curves, and quality against time and size."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

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
)

from .logs import Training

LATE = 6  # validations from which on the last third of them has panels of its own


@rc_context(STYLE)
def learning_curves(trainings: Mapping[str, Sequence[Training]], unit: str) -> Figure:
    """Validation loss against updates and against time, whole and over the last third.

    A line is the mean over the seeds, and a band reaches from the lowest to the highest of them.

    Args:
        trainings: by architecture, one training per seed.
        unit: of the loss.
    """
    points = {name: min(len(run.losses) for run in runs) for name, runs in trainings.items()}
    rows = 2 if max(points.values()) >= LATE else 1
    figure, grid = panels(2 * rows, 2, 4.2, 2.9)
    for (name, runs), look in zip(trainings.items(), distinct(trainings)):
        losses = np.array([run.losses[: points[name]] for run in runs])
        label = name if len(runs) == 1 else f"{name} ({len(runs)} seeds)"
        marker = {"marker": look["marker"] if losses.shape[1] < LATE else ""}
        for column, values in enumerate(("updates", "seconds")):
            x = np.mean([getattr(run, values)[: points[name]] for run in runs], axis=0)
            x = x / 60 if values == "seconds" else x
            for axes, first in zip(grid[column::2], (0, points[name] * 2 // 3)):
                y, bounds = losses[:, first:], {"color": look["color"], "alpha": 0.15}
                axes.plot(x[first:], y.mean(0), label=label, **{**look, **marker})
                axes.fill_between(x[first:], y.min(0), y.max(0), linewidth=0, **bounds)
    for place, axes in enumerate(grid):
        axes.set_title("the last third" if place > 1 else "all validations")
    for axes in grid[::2]:
        axes.set_ylabel(f"validation loss\n({unit})")
    bands = any(len(runs) > 1 for runs in trainings.values())
    title = "Learning curves" + ": mean of the seeds, and band from lowest to highest" * bands
    finish(figure, grid, title, ("updates", "minutes of training"))
    return figure


@rc_context(STYLE)
def quality_against(
    points: Mapping[str, tuple[float, float, Sequence[float]]], quality: str, caveat: str = ""
) -> Figure:
    """A figure of quality against the time of a training and against parameters.

    Args:
        points: minutes, millions of parameters, and the quality of each seed, by architecture.
        quality: its name and unit.
        caveat: of the times.
    """
    figure, grid = panels(2, 2, 4.2, 3, sharey=True)
    for (name, (time, size, values)), look in zip(points.items(), distinct(points)):
        look["linestyle"] = ""
        seed = {**look, "fillstyle": "none", "markersize": 4}
        mean = {**look, "fillstyle": "full", "markersize": 8}
        for axes, x in zip(grid, (time, size)):
            axes.plot([x] * len(values), values, **seed, alpha=0.5, clip_on=False)
            axes.plot(x, fmean(values), label=name, **mean, clip_on=False)
    for axes in grid:
        axes.margins(0.15)
        axes.set_xlim(0, 1.15 * axes.dataLim.x1 or 1)
    if grid[0].dataLim.y1 <= 100 < grid[0].get_ylim()[1]:  # no score in percent is above
        grid[0].set_ylim(top=100)
    grid[0].set(ylabel=quality, title=caveat)
    title = f"{quality}: mean (filled) and seeds"
    finish(figure, grid, title, ("minutes of training", "parameters (millions)"))
    return figure


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


def finish(figure: Figure, grid: Sequence[Axes], title: str, labels: Sequence[str]) -> None:
    """Title, legend, and two columns of panels with horizontal axes of few numbers."""
    for axes, label in zip(grid, [*labels] * 2):
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.set_xlabel(label)
    legend(figure, grid[0].get_legend_handles_labels()[0])
    figure.suptitle(title)
