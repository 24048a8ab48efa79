"""Growth of time and memory with the length of a sequence and with depth: a log-log figure."""

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.lab.plots import columns, grouped, panels, styles

from .timing import Row

AXES = {"length": "length (tokens)", "layers": "layers"}


def exponent(x: list[float], y: list[float]) -> float | None:
    """p of y = c x^p, by least squares of logarithms, over the upper half; None of one point."""
    upper = slice(len(x) // 2 - (len(x) == 2), None)
    if len(set(x[upper])) < 2:
        return None
    return float(np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)[0])


def draw(tables: list[list[Row]]) -> Figure:
    """A panel a measurement, with a line and its exponent for each model.

    A table that has several numbers of layers is drawn against these, else against lengths.
    """
    found: dict[tuple, list[Row]] = {}
    for rows in tables:
        for what, own in grouped(rows, "what"):
            against = "layers" if len({row["layers"] for row in own}) > 1 else "length"
            found.setdefault((against, what, own[0]["unit"]), []).extend(own)
    figure, grid = panels(len(found), 2, 4.7, 3.9)
    for axes, ((against, what, unit), rows) in zip(grid, found.items()):
        models, powers = dict(grouped(rows)), []
        for model, look in styles(models).items():
            x, y = columns(models[model], against, "value")
            powers.append(exponent(x, y))
            label = model if powers[-1] is None else f"{model}: {powers[-1]:.2f}"
            axes.loglog(x, y, label=label, **look)
        ticks = sorted({row[against] for row in rows})
        axes.set_xticks(ticks, labels=map("{:,}".format, ticks))
        axes.set_xticks([], minor=True)
        axes.set(xlabel=AXES[against], ylabel=f"{what} ({unit})")
        axes.legend(title="exponent" if any(powers) else None)
    return figure
