"""Growth of time and memory with the length of a sequence and with depth: a log-log figure."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.lab.plots import columns, group_by, panels, styles

from . import timing
from .timing import Row

AXES = {"length": "length (tokens)", "layers": "layers"}
MEASUREMENTS = {"encoder": "training step of the encoder", "memory": "memory of a training step"}


def read_tables(paths: Iterable[Path]) -> dict[str, list[Row]]:
    """Tables by their names: those of files, and those in the column ``table`` of a CSV file."""
    tables = {}
    for path in paths:
        rows = [{"table": path.stem, **row} for row in timing.read_rows(path)]
        tables |= dict(group_by(rows, "table"))
    return tables


def fit_exponent(x: list[float], y: list[float]) -> float | None:
    """p of y = c x^p by least squares of logarithms, over the upper half; None for one point."""
    upper = slice(len(x) // 2 - (len(x) == 2), None)
    if len(set(x[upper])) < 2:
        return None
    return float(np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)[0])


def draw(tables: Iterable[list[Row]]) -> Figure:
    """One panel per measurement, with a line and its exponent for each model.

    A table with several numbers of layers is drawn against these, any other against lengths.
    """
    measured: dict[tuple, list[Row]] = {}
    for table in tables:
        for what, rows in group_by(table, "what"):
            against = "layers" if len({row["layers"] for row in rows}) > 1 else "length"
            measured.setdefault((against, what, rows[0]["unit"]), []).extend(rows)
    figure, grid = panels(len(measured), 2, 4.7, 3.9)
    for axes, ((against, what, unit), rows) in zip(grid, measured.items()):
        models, powers = dict(group_by(rows)), []
        for model, look in styles(models).items():
            x, y = columns(models[model], against, "value")
            powers.append(fit_exponent(x, y))
            label = model if powers[-1] is None else f"{model}: {powers[-1]:.2f}"
            axes.loglog(x, y, label=label, **look)
        ticks = sorted({row[against] for row in rows})
        axes.set_xticks(ticks, labels=map("{:,}".format, ticks))
        axes.set_xticks([], minor=True)
        axes.set(xlabel=AXES[against], ylabel=f"{MEASUREMENTS.get(what, what)} ({unit})")
        low, high = axes.get_ylim()
        axes.set_ylim(low, high * (high / low) ** 0.3)  # room for the legend
        axes.legend(title="exponent" if any(powers) else None, loc="upper left")
    return figure
