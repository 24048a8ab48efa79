"""Draw validation accuracy against CPU time: a line per architecture, a band over its seeds.

    python examples/scoreboard/curves.py TABLE.csv OUT.png --title "Long text, 2,048 bytes"

TABLE.csv has a row per validation, as publish.py writes it; tuned are the values of tuned options.
An architecture is drawn at those with the most seeds; of several such, at those that validated
best.
"""

import argparse
import csv
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import reading
from odeformers.plots import label_families, panels, save, styles

COLUMNS = ("architecture", "tuned", "seed", "cpu_seconds", "valid_accuracy")
POINTS = 97  # of a line


Curves = dict[str, list[tuple[float, float]]]  # CPU minutes and accuracy, by seed


def rank(curves: Curves) -> tuple[int, float]:
    """Settings with more seeds, then with a higher accuracy, come first."""
    return len(curves), max(accuracy for run in curves.values() for _, accuracy in run)


def read_curves(table: Path) -> dict[str, Curves]:
    """The curves of each architecture at the setting that is drawn."""
    settings: defaultdict[str, defaultdict[str, Curves]]
    settings = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    with reading(table), open(table, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise InputError(f"{table}, line 1: add the columns {', '.join(missing)}")
        for row in reader:
            architecture, tuned, seed, *numbers = (row[name] for name in COLUMNS)
            try:
                seconds, accuracy = map(float, numbers)
            except ValueError as error:
                raise InputError(f"{table}, line {reader.line_num}: {error}") from error
            settings[architecture][tuned][seed].append((seconds / 60, accuracy))
    return {
        architecture: max(of_settings.values(), key=rank)
        for architecture, of_settings in settings.items()
    }


def interpolate(runs: Iterable[Sequence[tuple[float, float]]]) -> tuple[np.ndarray, np.ndarray]:
    """The accuracies of runs at common minutes, from the last first to the first last validation.

    Returns:
        The minutes, and the accuracies by runs and minutes.
    """
    minutes, accuracies = zip(*(zip(*run) for run in runs))
    grid = np.linspace(max(m[0] for m in minutes), min(m[-1] for m in minutes), POINTS)
    return grid, np.array([np.interp(grid, m, a) for m, a in zip(minutes, accuracies)])


def draw(chosen: dict[str, Curves], title: str = "") -> Figure:
    """The means over the seeds, and bands from the lowest to the highest seed."""
    figure, (axes,) = panels(1, 1, 5.2, 3.4, margins=(0.6, 0.2))
    labels = label_families(chosen)
    for (architecture, curves), look in zip(chosen.items(), styles(chosen).values()):
        minutes, accuracies = interpolate(curves.values())
        count = len(curves)
        label = f"{labels[architecture]} ({count} {'seed' if count == 1 else 'seeds'})"
        axes.plot(minutes, accuracies.mean(0), label=label, markevery=POINTS // 8, **look)
        band = {"facecolor": to_rgba(look["color"], 0.12), "edgecolor": to_rgba(look["color"], 0.6)}
        axes.fill_between(minutes, accuracies.min(0), accuracies.max(0), linewidth=0.6, **band)
    axes.set(title=title, xlabel="CPU minutes of training", ylabel="validation accuracy (%)")
    axes.set_xlim(left=0)
    by_end = sorted(axes.lines, key=lambda line: -np.asarray(line.get_ydata())[-1])
    axes.legend(handles=by_end, loc="lower right")
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", metavar="TABLE.csv", type=Path)
    parser.add_argument("out", metavar="OUT.png", type=Path)
    parser.add_argument("--title", default="", help="of the picture (default: none)")
    args = parser.parse_args()
    save(lambda chosen: draw(chosen, args.title), read_curves(args.table), args.out)


if __name__ == "__main__":
    main()
