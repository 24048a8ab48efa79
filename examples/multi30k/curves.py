"""Keep the learning curves of the runs of ``odeformers compare`` in trainings.csv, and draw all.

    python examples/multi30k/curves.py RUNS
    python examples/multi30k/curves.py --table TABLE.csv --out OUT.png

Rows of runs whose folders are removed, or on another machine, stay in the table.
"""

import argparse
import csv
import re
from collections import defaultdict
from pathlib import Path

from matplotlib.figure import Figure

from fairseq_odeformers.files import write_csv
from fairseq_odeformers.lab.compare.logs import Training, read_training
from fairseq_odeformers.lab.plots import legend, panels, save, styles

HERE = Path(__file__).parent
COLUMNS = ("arch", "seed", "parameters", "updates", "loss", "seconds")
Trainings = dict[tuple[str, int], Training]  # by architecture and seed


def read_table(table: Path) -> Trainings:
    """The trainings that :func:`write_table` has written."""
    trainings: Trainings = defaultdict(Training)
    with open(table, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            training = trainings[row["arch"], int(row["seed"])]
            training.parameters = int(row["parameters"])
            training.updates.append(int(row["updates"]))
            training.losses.append(float(row["loss"]))
            training.seconds.append(float(row["seconds"]))
    return trainings


def write_table(table: Path, trainings: Trainings) -> None:
    """A row for each validation of each training."""
    rows = [
        dict(zip(COLUMNS, (arch, seed, run.parameters, updates, loss, round(seconds))))
        for (arch, seed), run in sorted(trainings.items())
        for updates, loss, seconds in zip(run.updates, run.losses, run.seconds)
    ]
    write_csv(table, rows)


def draw(trainings: Trainings) -> Figure:
    """Validation loss against updates and against minutes, where it is near its end.

    A line is a training, and its marker the validation whose checkpoint is scored.
    """
    runs = trainings.values()
    lowest = min(min(run.losses) for run in runs)
    highest = max(run.losses[len(run.losses) * 2 // 3] for run in runs)
    room = 0.1 * (highest - lowest) or 0.1
    figure, grid = panels(2, 2, 4.2, 3.4, margins=(0.6, 0.3), sharey=True)
    looks = styles(dict.fromkeys(arch for arch, _ in trainings))
    costs = ("updates", 1, "updates"), ("seconds", 60, "minutes of training")
    for axes, (column, unit, name) in zip(grid, costs):
        starts = []
        for (arch, _), run in sorted(trainings.items()):
            x = [value / unit for value in getattr(run, column)]
            axes.plot(x, run.losses, label=arch, markevery=[run.find_best()], **looks[arch])
            starts.append(next(at for at, loss in zip(x, run.losses) if loss <= highest))
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
    trainings = read_table(args.table) if args.table.exists() else defaultdict(Training)
    if args.runs:
        for log in args.runs.glob("*-seed*/train.log"):
            arch, seed = re.fullmatch(r"(.+)-seed(\d+)", log.parent.name).groups()
            trainings[arch, int(seed)] = read_training(log)
        write_table(args.table, trainings)
    save(draw, trainings, args.out)


if __name__ == "__main__":
    main()
