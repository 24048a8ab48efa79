"""Keep the learning curves of the runs of ``odeformers compare`` in trainings.csv, and draw all.

    python examples/multi30k/curves.py RUNS
    python examples/multi30k/curves.py --table TABLE.csv --out OUT.png

Rows of runs whose folders are removed, or on another machine, stay in the table.
"""

import argparse
import csv
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from fairseq_odeformers.files import write_csv
from odeformers.compare.results.rows import read_rows
from odeformers.plots import label_families, legend, panels, save, styles

HERE = Path(__file__).parent
COLUMNS = {
    **{"arch": str, "seed": int, "parameters": int},
    **{"updates": int, "loss": float, "seconds": int},
}
Training = list[dict[str, Any]]  # a row of the table for each validation
Trainings = dict[tuple[str, int], Training]  # by architecture and seed


def read_table(table: Path) -> Trainings:
    """The trainings of a table."""
    trainings: Trainings = defaultdict(list)
    with open(table, encoding="utf-8", newline="") as file:
        for cells in csv.DictReader(file):
            row = {name: kind(cells[name]) for name, kind in COLUMNS.items()}
            trainings[row["arch"], row["seed"]].append(row)
    return trainings


def read_runs(out: Path) -> Trainings:
    """The trainings of a comparison, with seconds on the clock, as all of the table have."""
    trainings: Trainings = defaultdict(list)
    for run in read_rows(out):
        if (curve := replace(run, cpu_seconds=None).learning) and not run.metric:
            name = run.architecture, run.seed, run.parameters
            for point in zip(curve.updates, curve.loss, map(round, curve.seconds)):
                trainings[name[:2]].append(dict(zip(COLUMNS, name + point)))
    return trainings


def draw(trainings: Trainings) -> Figure:
    """Validation loss against updates and against minutes, where it is near its end.

    A line is a training, and its marker the validation whose checkpoint is scored.
    """
    losses = {name: [row["loss"] for row in training] for name, training in trainings.items()}
    lowest = min(map(min, losses.values()))
    highest = max(each[len(each) * 2 // 3] for each in losses.values())
    room = 0.1 * (highest - lowest) or 0.1
    figure, grid = panels(2, 2, 4.2, 3.4, margins=(0.6, 0.3), sharey=True)
    archs = dict.fromkeys(arch for arch, _ in trainings)
    looks, labels = styles(archs), label_families(archs)
    costs = ("updates", 1, "updates"), ("seconds", 60, "minutes of training")
    for axes, (column, unit, name) in zip(grid, costs):
        starts = []
        for (arch, seed), training in sorted(trainings.items()):
            x, loss = [row[column] / unit for row in training], losses[arch, seed]
            axes.plot(x, loss, label=labels[arch], markevery=[loss.index(min(loss))], **looks[arch])
            starts.append(next(at for at, each in zip(x, loss) if each <= highest))
        axes.set(xlabel=name, xlim=(0.85 * min(starts), None))
    grid[0].set_ylabel("validation loss\n(label-smoothed, bits per token)")
    grid[0].set_ylim(lowest - room, highest + room)
    legend(figure, [*{line.get_label(): line for line in grid[0].lines}.values()])
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", metavar="RUNS", type=Path, nargs="?", help="whose curves to add")
    parser.add_argument("--table", metavar="CSV", type=Path, default=HERE / "trainings.csv")
    parser.add_argument("--out", metavar="PNG", type=Path, default=HERE / "curves.png")
    args = parser.parse_args()
    trainings = read_table(args.table) if args.table.exists() else {}
    if args.runs:
        trainings |= read_runs(args.runs)
        write_csv(args.table, [row for _, rows in sorted(trainings.items()) for row in rows])
    save(draw, trainings, args.out)


if __name__ == "__main__":
    main()
