"""Draw speed and memory against the length of a sequence, relative to the first model.

    python examples/speed/growth.py OUT.png TABLE [TABLE ...] --csv ALL.csv

A TABLE is what ``odeformers benchmark --json`` wrote, or ALL.csv, which has several.
"""

import argparse
import itertools
from collections.abc import Iterable
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from fairseq_odeformers.files import write_csv
from odeformers.benchmark import timing
from odeformers.benchmark.timing import Row
from odeformers.plots import columns, group_by, label_families, legend_beside, panels, save, styles

TITLES = {
    "encoder": "Speed of training the encoder",
    "infer": "Speed of the encoder",
    "memory": "Memory of an update",
}


def read_tables(paths: Iterable[Path]) -> dict[str, list[Row]]:
    """The tables of files by their names; a CSV file has names in its column ``table``."""
    tables = {}
    for path in paths:
        rows = [{"table": path.stem, **row} for row in timing.read_rows(path)]
        tables |= dict(group_by(rows, "table"))
    return tables


def relate(tables: Iterable[list[Row]]) -> list[Row]:
    """The rows of all tables, with their speed or their value relative to the baseline's.

    The baseline is the first model of the first table. In its own table, a row has its ratio to the
    baseline by rounds; a row of another one is related to the last baseline before.

    Raises:
        ValueError: the baseline was not measured at a row's length.
    """
    baseline, values, related = None, {}, []
    for table in tables:
        baseline = baseline or table[0]["model"]
        values |= {place(row): row["value"] for row in table if row["model"] == baseline}
        for row in table:
            if place(row) not in values:
                raise ValueError(
                    f"{row['table']}: {row['model']} has no {baseline} to compare with at length "
                    f"{row['length']}; measure it first, with the same layers"
                )
            own = table[0]["model"] == baseline
            gain = row["ratio"] if own else values[place(row)] / row["value"]
            related.append({**row, "relative": gain if row["unit"] == "ms" else 1 / gain})
    return related


def place(row: Row) -> tuple:
    """What a row can be compared with."""
    return row["what"], row["layers"], row["length"]


def draw(tables: Iterable[list[Row]]) -> Figure:
    """One panel per measurement and number of layers, with a line for each model."""
    rows = relate(tables)
    measured = {
        (what, layers): of_layers
        for what, of_what in group_by(rows, "what")
        for layers, of_layers in group_by(of_what, "layers")
    }
    figure, grid = panels(len(measured), 2, 3.8, 3.2, margins=(2.1, 0.2))
    looks = styles(dict.fromkeys(row["model"] for row in rows))
    names = label_families(looks)
    for axes, ((what, _), of_panel) in zip(grid, measured.items()):
        for model, of_model in group_by(of_panel):
            look = {"label": names[model], **looks[model]}
            axes.loglog(*columns(of_model, "length", "relative"), **look)
        title = TITLES.get(what, what)
        baseline = names[rows[0]["model"]]
        axes.set(title=f"{title}, relative to the {baseline}", xlabel="length (tokens)")
        label_powers(axes, sorted({row["length"] for row in of_panel}))
    legend_beside(figure, grid[0].lines)
    return figure


def label_powers(axes: Axes, lengths: list[int]) -> None:
    """Label the lengths, and ratios by powers of two."""
    axes.set_xticks(lengths, labels=map("{:,}".format, lengths), fontsize="small")
    axes.yaxis.set_major_locator(LogLocator(2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", metavar="OUT.png", type=Path)
    parser.add_argument("tables", metavar="TABLE", type=Path, nargs="+")
    parser.add_argument("--csv", metavar="ALL.csv", type=Path, help="write all tables to one file")
    args = parser.parse_args()
    tables = read_tables(args.tables)
    if args.csv:
        write_csv(args.csv, [*itertools.chain.from_iterable(tables.values())])
    save(draw, tables.values(), args.out)


if __name__ == "__main__":
    main()
