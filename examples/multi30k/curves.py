"""Keep the learning curves of the runs of ``odeformers compare`` in trainings.csv, and draw all.

What trainings.csv has of runs whose folders are removed, or on another machine, stays.
"""

import argparse
import csv
import re
from collections import defaultdict
from pathlib import Path

from fairseq_odeformers.files import replacing, write_csv
from fairseq_odeformers.lab.compare.figures import learning_curves
from fairseq_odeformers.lab.compare.logs import Training, read_training

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
    by_arch, best = defaultdict(list), defaultdict(list)
    for (arch, _), training in sorted(trainings.items()):
        by_arch[arch].append(training)
        best[arch].append(training.find_best())
    with replacing(args.out) as path:
        figure = learning_curves(by_arch, best, "label-smoothed, bits per token")
        figure.savefig(path, format="png", dpi=100)


if __name__ == "__main__":
    main()
