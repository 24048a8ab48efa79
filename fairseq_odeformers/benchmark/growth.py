"""How time and memory grow with the length of a sequence and with depth: a log-log figure.

    odeformers benchmark.growth OUT.png TABLE.json ...

The files are those that ``--json`` writes. A panel is a measurement, a line a model. The legend has
the exponent p of the fit y = c x^p over the upper half of the range, by least squares of logs,
where it has more than one point.
"""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.files import replacing

from .timing import read_rows

MARKERS = "os^Dv<>"


def exponent(x: Sequence[float], y: Sequence[float]) -> float | None:
    """The slope of log y against log x, over the upper half of the points; None of a point."""
    upper = slice(len(x) // 2 - (len(x) == 2), None)
    if len(set(x[upper])) < 2:
        return None
    return float(np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)[0])


def draw(tables: list[list[dict]]) -> Figure:
    """A panel a measurement: its figures against lengths, or against layers if a table has several.

    Args:
        tables: the rows of each.
    """
    panels: dict[tuple, list[dict]] = defaultdict(list)
    for table in tables:
        for what, unit in dict.fromkeys((row["what"], row["unit"]) for row in table):
            rows = [row for row in table if (row["what"], row["unit"]) == (what, unit)]
            against = "layers" if len({row["layers"] for row in rows}) > 1 else "length"
            panels[against, what, unit] += rows
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5 * columns, 4 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes, ((against, what, unit), rows) in zip(grid.flat, panels.items()):
        for index, model in enumerate(dict.fromkeys(row["model"] for row in rows)):
            x, y = zip(*((row[against], row["value"]) for row in rows if row["model"] == model))
            power = exponent(x, y)
            label = model if power is None else f"{model} ({power:.2f})"
            axes.loglog(x, y, marker=MARKERS[index % len(MARKERS)], fillstyle="none", label=label)
        ticks = sorted({row[against] for row in rows})
        axes.set_xticks(ticks, labels=map("{:,}".format, ticks))
        axes.set_xticks([], minor=True)
        axes.set(xlabel=against, ylabel=f"{what} ({unit})")
        axes.legend(fontsize=7)
    return figure


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        prog="odeformers benchmark.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", type=Path, nargs="+")
    args = parser.parse_args(argv)
    try:
        figure = draw([read_rows(path) for path in args.tables])
        with replacing(args.out) as new:
            figure.savefig(new, format=args.out.suffix[1:], dpi=120)
    except (ValueError, OSError) as error:
        sys.exit(f"{parser.prog}: error: {error}")


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
