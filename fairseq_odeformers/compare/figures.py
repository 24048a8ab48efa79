"""Pictures of a comparison: learning curves, and quality against time and size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from fairseq_odeformers.plots import STYLE, styles

from .results import Training


@rc_context(STYLE)
def learning_curves(trainings: Mapping[str, Sequence[Training]], unit: str) -> Figure:
    """Validation loss against updates and against time, whole and over the last third.

    A line is the mean over the seeds, and a band reaches from the lowest to the highest of them.

    Args:
        trainings: those of each architecture, a seed each.
        unit: of the loss.
    """
    figure = Figure(figsize=(9, 6), layout="constrained")
    panels = figure.subplots(2, 2, sharex="col")
    for (name, runs), look in zip(trainings.items(), styles(trainings).values()):
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
                axes.plot(x[part], losses.mean(0)[part], label=label, **{**look, "marker": ""})
                axes.fill_between(
                    *(x[part], losses.min(0)[part], losses.max(0)[part]),
                    color=look["color"],
                    alpha=0.15,
                    linewidth=0,
                )
    for axes, title in zip(panels[:, 0], ("all validations", "the last third")):
        axes.set(ylabel=f"validation loss ({unit})", title=title)
    panels[1, 0].set(xlabel="updates")
    panels[1, 1].set(xlabel="minutes of training")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle("Learning curves")
    return figure


@rc_context(STYLE)
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
    for (name, (time, size, values)), look in zip(points.items(), styles(points).values()):
        look = {**look, "linestyle": ""}
        for axes, x in zip(panels, (time, size)):
            axes.plot([x] * len(values), values, **{**look, "markersize": 4}, alpha=0.5)
            filled = {"markerfacecolor": look["color"], "markersize": 8}
            axes.plot(x, fmean(values), label=name, **{**look, **filled})
    panels[0].set(xlabel="minutes of training", ylabel=quality)
    panels[1].set(xlabel="parameters (millions)")
    for axes in panels:
        axes.margins(0.15)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    figure.suptitle(f"{quality}: mean (filled) and seeds")
    return figure
