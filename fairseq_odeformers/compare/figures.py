"""Pictures of a comparison: learning curves, and quality against time and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib.figure import Figure

from .results import Training

# Okabe and Ito's colours, which the colour-blind can tell apart.
COLORS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
LINES = ("-", "--", ":", "-.")


def style(index: int) -> dict[str, str]:
    """The colour and line of the architecture that stands at this place of a comparison."""
    return {
        "color": COLORS[index % len(COLORS)],
        "linestyle": LINES[index // len(COLORS) % len(LINES)],
    }


def learning_curves(trainings: Mapping[str, Sequence[Training]], unit: str) -> Figure:
    """Validation loss against updates and against time, whole and over the last third.

    A line is the mean over the seeds, and a band reaches from the lowest to the highest of them.

    Args:
        trainings: those of each architecture, a seed each.
        unit: of the loss.
    """
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col")
    for index, (name, runs) in enumerate(trainings.items()):
        points = min((len(run.losses) for run in runs), default=0)
        if not points:
            continue
        losses = np.array([run.losses[:points] for run in runs])
        label = name if len(runs) == 1 else f"{name} ({len(runs)} seeds)"
        for column, values in enumerate(("updates", "seconds")):
            x = np.mean([getattr(run, values)[:points] for run in runs], axis=0)
            x = x / 60 if values == "seconds" else x
            late = slice(points - max(2, points // 3), None)
            for axes, part in zip(panels[:, column], (slice(None), late)):
                axes.plot(x[part], losses.mean(0)[part], label=label, **style(index))
                axes.fill_between(
                    *(x[part], losses.min(0)[part], losses.max(0)[part]),
                    color=style(index)["color"],
                    alpha=0.15,
                    linewidth=0,
                )
    for axes, title in zip(panels[:, 0], ("all validations", "the last third")):
        axes.set(ylabel=f"validation loss ({unit})", title=title)
    panels[1, 0].set(xlabel="updates")
    panels[1, 1].set(xlabel="minutes of training")
    for axes in panels.flat:
        axes.grid(alpha=0.3)
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle("Learning curves")
    return figure


def quality_against(
    points: Mapping[str, tuple[float, float, Sequence[float]]], quality: str
) -> Figure:
    """A figure of quality against the time of a training and against parameters.

    Args:
        points: minutes, millions of parameters, and the quality of each seed, by architecture.
        quality: its name and unit.
    """
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for index, (name, (time, size, values)) in enumerate(points.items()):
        color = style(index)["color"]
        for axes, x in zip(panels, (time, size)):
            axes.plot([x] * len(values), values, "o", color=color, alpha=0.35, markersize=5)
            axes.plot(x, fmean(values), "D", color=color, label=name, markersize=8)
    panels[0].set(xlabel="minutes of training", ylabel=quality)
    panels[1].set(xlabel="parameters (millions)")
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.margins(0.15)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    figure.suptitle(f"{quality}: mean (diamond) and seeds (dots)")
    return figure
