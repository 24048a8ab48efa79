"""How time and memory grow with the length of a sequence and with depth: a log-log figure.

    python -m fairseq_odeformers.benchmark.growth OUT.png TABLE.json ...

Each file is one that ``--json`` wrote, and becomes a panel; a line is a model. The legend has the
exponent p of the fit y = c x^p over the upper half of the range, by least squares of logarithms.
"""

from __future__ import annotations

import argparse
import json
import logging
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.analysis.figures import style
from fairseq_odeformers.files import replacing


def exponent(x: list[float], y: list[float]) -> float:
    """The slope of log y against log x, over the upper half of the points."""
    upper = slice(len(x) // 2 - (len(x) == 2), None)
    return float(np.polyfit(np.log(x[upper]), np.log(y[upper]), 1)[0])


def draw(tables: list[dict]) -> Figure:
    """A panel a table: its figures against the lengths, or against the layers if these vary."""
    figure = Figure(figsize=(5 * len(tables), 4.5), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(tables)))
    for table, axes in zip(tables, panels):
        rows = table["rows"]
        against = "layers" if len({row["layers"] for row in rows}) > 1 else "length"
        for index, model in enumerate(dict.fromkeys(row["model"] for row in rows)):
            own = [row for row in rows if row["model"] == model]
            x, y = [row[against] for row in own], [row["value"] for row in own]
            label = f"{model} ({exponent(x, y):.2f})"
            axes.loglog(x, y, label=label, **style(index))
        axes.set(xlabel=against, ylabel=f"{rows[0]['what']} ({rows[0]['unit']})")
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
