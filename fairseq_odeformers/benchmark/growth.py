"""How time and memory grow with the length of a sequence and with depth: a log-log figure.

    python -m fairseq_odeformers.benchmark.growth OUT.png TABLE.json ...

The files are those that ``--json`` writes. A panel is a measurement, a line a model. The legend has
the exponent p of the fit y = c x^p over the upper half of the range, by least squares of logs.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.files import replacing

MARKERS = "os^Dv<>"


def exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The slope of log y against log x, over the upper half of the points."""
    upper = slice(len(x) // 2 - (len(x) == 2), None)
    return float(np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)[0])


def draw(tables: list[dict]) -> Figure:
    """A panel a measurement: its figures against lengths, or against layers if these vary."""
    panels: dict[tuple, list[dict]] = {}
    for table in tables:
        rows = table["rows"]
        against = "layers" if len({row["layers"] for row in rows}) > 1 else "length"
        panels.setdefault((against, rows[0]["what"], rows[0]["unit"]), []).extend(rows)
    columns = min(2, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(5 * columns, 4 * lines), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes, ((against, what, unit), rows) in zip(grid.flat, panels.items()):
        for index, model in enumerate(dict.fromkeys(row["model"] for row in rows)):
            x, y = zip(*((row[against], row["value"]) for row in rows if row["model"] == model))
            label = f"{model} ({exponent(x, y):.2f})"
            axes.loglog(x, y, marker=MARKERS[index % len(MARKERS)], fillstyle="none", label=label)
        ticks = sorted({row[against] for row in rows})
        axes.set_xticks(ticks, labels=map("{:,}".format, ticks))
        axes.set_xticks([], minor=True)
        axes.set(xlabel=against, ylabel=f"{what} ({unit})")
        axes.legend(fontsize=7)
    return figure


def main(argv=None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_odeformers.benchmark.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", type=Path, nargs="+")
    args = parser.parse_args(argv)
    figure = draw([json.loads(path.read_text("utf-8")) for path in args.tables])
    with replacing(args.out) as new:
        figure.savefig(new, format=args.out.suffix[1:], dpi=120)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
