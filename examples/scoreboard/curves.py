"""Draw validation accuracy against CPU time: a line per architecture, a band over its seeds.

    python examples/scoreboard/curves.py TABLE.csv OUT.png --title "Long text, 2,048 bytes"

TABLE.csv has a row per validation, as publish.py writes it; tuned are the values of tuned options.
An architecture is drawn at those with the most seeds; of several such, at those that validated
best.
"""

import argparse
import csv
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import reading
from fairseq_odeformers.registry import family_of
from odeformers.plots import legend_beside, panels, save, styles

COLUMNS = ("architecture", "tuned", "seed", "updates", "cpu_seconds", "valid_accuracy")


@dataclass
class Curves:
    """The validations of an architecture at one setting: accuracy and CPU minutes, by updates."""

    seeds: set[str] = field(default_factory=set)
    points: dict[int, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    @property
    def rank(self) -> tuple[int, float]:
        """Settings with more seeds, then with a higher accuracy, come first."""
        return len(self.seeds), max(y for point in self.points.values() for _, y in point)


def read_curves(table: Path) -> dict[str, Curves]:
    """The curves of each architecture at the setting that is drawn."""
    settings: defaultdict[str, defaultdict[str, Curves]]
    settings = defaultdict(lambda: defaultdict(Curves))
    with reading(table), open(table, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise InputError(f"{table}, line 1: add the columns {', '.join(missing)}")
        for row in reader:
            architecture, tuned, seed, *numbers = (row[name] for name in COLUMNS)
            curves = settings[architecture][tuned]
            try:
                updates, seconds, accuracy = int(numbers[0]), *map(float, numbers[1:])
            except ValueError as error:
                raise InputError(f"{table}, line {reader.line_num}: {error}") from error
            curves.seeds.add(seed)
            curves.points[updates].append((seconds / 60, accuracy))
    return {
        architecture: max(of_settings.values(), key=lambda curves: curves.rank)
        for architecture, of_settings in settings.items()
    }


def draw(chosen: dict[str, Curves], title: str = "") -> Figure:
    """The means over the seeds, and bands from the lowest to the highest seed."""
    figure, (axes,) = panels(1, 1, 5.2, 3.4, margins=(2.6, 0.2))
    families = [family_of(architecture) for architecture in chosen]
    for (architecture, curves), look in zip(chosen.items(), styles(chosen).values()):
        count = len(curves.seeds)
        complete = [each for each in curves.points.values() if len(each) == count]
        minutes, accuracies = np.moveaxis(np.array(complete), -1, 0)
        family = family_of(architecture)
        name = family if families.count(family) == 1 else architecture
        label = f"{name} ({count} {'seed' if count == 1 else 'seeds'})"
        axes.plot(minutes.mean(1), accuracies.mean(1), label=label, **look)
        band = {"color": look["color"], "alpha": 0.15, "linewidth": 0}
        axes.fill_between(minutes.mean(1), accuracies.min(1), accuracies.max(1), **band)
    axes.set(title=title, xlabel="CPU minutes of training", ylabel="validation accuracy (%)")
    axes.set_xlim(left=0)
    legend_beside(figure, [*axes.lines])
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
