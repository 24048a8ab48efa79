"""Tabulate and draw the runs of run.py, as the N-ODE Transformer's paper does.

Prints a table in Markdown, and leaves it in the folder of the runs, with the runs in a CSV file and
the figure in a PNG file. What has not been run is called so. Needs the extra ``plots``.
"""

import csv
import gzip
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean, stdev

import numpy as np
from experiments import (
    CURVES,
    HISTOGRAMS,
    KEY,
    LEARNING_RATES,
    NODE,
    TABLES,
    Ensemble,
    chosen,
    finished,
    make_parser,
)
from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table, replacing, write_csv
from fairseq_odeformers.lab.compare.commands import log_stats
from fairseq_odeformers.lab.plots import architecture_color, means_and_ranges, panels, save

PAPER = Path(__file__).with_name("paper.csv")
BIN_EDGES = np.arange(55, 100, 5)  # the leftmost bin is below the first
NOT_RUN = "not run"
HATCHES = ("", "//", "..", "xx")  # variants of an architecture have its colour


@dataclass(frozen=True)
class Result:
    """What a run has reached: its highest training accuracy, in percent, and when it first did.

    Attributes:
        seconds: of training since the first update, which comes after the start of the program.
    """

    accuracy: float
    seconds: float
    updates: int


Results = Mapping[Ensemble, Sequence[Result]]


def read(log: Path, updates: int) -> Result:
    """The result of a run after so many updates, or all that it has, from fairseq's log."""
    with gzip.open(log, "rt", encoding="utf-8") as file:
        epochs = [stats for line in file if (stats := log_stats(line, "train"))]
    epochs = [stats for stats in epochs if int(stats["train_num_updates"]) <= updates]
    best = max(epochs, key=lambda stats: float(stats["train_accuracy"]))
    seconds = float(best["train_wall"]) - float(epochs[0]["train_wall"])
    return Result(float(best["train_accuracy"]), seconds, int(best["train_num_updates"]))


class Summary:
    """Means and standard deviations of runs, without the worst sixth of them by accuracy."""

    def __init__(self, results: Sequence[Result]):
        ordered = sorted(results, key=lambda result: result.accuracy, reverse=True)
        self.kept = ordered[: len(ordered) - round(len(ordered) / 6)]
        self.runs = f"{len(self.kept)} of {len(ordered)}"

    def values(self, attribute: str) -> list[float]:
        return [getattr(result, attribute) for result in self.kept]

    def mean_and_spread(self, attribute: str) -> tuple[float, float]:
        """The mean of an attribute of the results, and its standard deviation; nan of one run."""
        values = self.values(attribute)
        return fmean(values), stdev(values) if len(values) > 1 else math.nan

    def __str__(self) -> str:
        """Accuracy, time, updates (and runs)."""
        if not self.kept:
            return NOT_RUN
        accuracy, seconds, (updates, _) = map(
            self.mean_and_spread, ("accuracy", "seconds", "updates")
        )
        accuracy, seconds = plus_minus(*accuracy, 1), plus_minus(*seconds, 0)
        return f"{accuracy}%, {seconds} s, {updates:,.0f} ({self.runs})"


def plus_minus(mean: float, spread: float, digits: int) -> str:
    text = f"{mean:.{digits}f}"
    return text if math.isnan(spread) else f"{text} ± {spread:.{digits}f}"


def beside_the_paper(name: str, results: Results) -> str:
    """Tables 1 to 3: a row for each size, beside the numbers of the paper."""
    with open(PAPER, encoding="utf-8", newline="") as file:
        paper = {
            (row["arch"], int(row["dim"]), int(row["layers"])): row
            for row in csv.DictReader(file)
            if row["table"] == name
        }
    archs = dict.fromkeys(ensemble.arch for ensemble in results)
    rows = {("d", "N"): [f"`{arch}`, {whose}" for arch in archs for whose in ("paper", "ours")]}
    for ensemble, found in results.items():
        numbers = paper[ensemble.arch, ensemble.dim, ensemble.layers]
        row = rows.setdefault((str(ensemble.dim), str(ensemble.layers)), [])
        row += ["{accuracy}%, {seconds} s".format(**numbers), str(Summary(found))]
    return markdown_table([[*size, *row] for size, row in rows.items()])


def by_ensemble(results: Results) -> str:
    """A row for each ensemble."""
    rows = [[label(ensemble), str(Summary(found))] for ensemble, found in results.items()]
    return markdown_table([["ensemble", "accuracy, time, updates (runs)"], *rows])


def label(ensemble: Ensemble) -> str:
    rates = ensemble.learning_rates
    learning_rates = () if rates == LEARNING_RATES else ("--lr", ", ".join(map(str, rates)))
    return " ".join((ensemble.arch, *ensemble.options, *learning_rates))


def title(results: Results) -> str:
    ensemble = next(iter(results))
    return f"strings of length ≤ {ensemble.max_length}, d = {ensemble.dim}, N = {ensemble.layers}"


def histogram(results: Results) -> Figure:
    """Figures 1 and 3 to 5: how many runs of each variant have reached which accuracy."""
    figure, (axes,) = panels(1, 1, 7.4, 3.4)
    width = 0.8 / len(results)
    color = architecture_color(NODE)
    for index, (ensemble, found) in enumerate(results.items()):
        bins = np.digitize([result.accuracy for result in found], BIN_EDGES, right=True)
        counts = np.bincount(bins, minlength=len(BIN_EDGES) + 1)
        name = " ".join(ensemble.options).replace("--", "") or "neither"
        positions = np.arange(len(counts)) + (index - (len(results) - 1) / 2) * width
        look = {"hatch": HATCHES[index % len(HATCHES)], "edgecolor": "white"}
        axes.bar(positions, counts, width, color=color, label=f"{name} ({len(found)} runs)", **look)
    ends = [*BIN_EDGES, 100]
    names = [f"≤ {ends[0]}", *(f"{low}–{high}" for low, high in zip(ends, ends[1:]))]
    axes.set_xticks(range(len(names)), names)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="highest training accuracy (%)", ylabel="runs", title=title(results))
    axes.legend()
    return figure


def curves(results: Results) -> Figure:
    """Figures 2, 6 and 7: accuracy and time against the weight of the arclength.

    The bars go from the lowest to the highest run that counts.
    """
    figure, grid = panels(2, 1, 7.4, 2.7, sharex=True)
    summaries = {ensemble: Summary(found) for ensemble, found in results.items() if found}
    weighted = {e.weight: summary for e, summary in summaries.items() if e.weight}
    names = {"accuracy": "training accuracy (%)", "seconds": "training time (s)"}
    for axes, (attribute, name) in zip(grid, names.items()):
        if weighted:
            values = [summary.values(attribute) for summary in weighted.values()]
            runs = ", ".join(sorted({summary.runs for summary in weighted.values()}))
            text = f"{NODE} with regularization ({runs} runs each)"
            look = {"color": architecture_color(NODE), "label": text}
            means_and_ranges(axes, [*weighted], values, **look)
        for ensemble, summary in summaries.items():
            if not ensemble.weight:
                mean, _ = summary.mean_and_spread(attribute)
                text = f"{label(ensemble)} ({summary.runs} runs)"
                color = architecture_color(ensemble.arch)
                axes.axhline(mean, color=color, linestyle="--", label=text)
        axes.set_ylabel(name)
    grid[0].set_title(title(results))
    grid[0].legend()
    grid[1].set_ylim(bottom=0)
    grid[1].set_xscale("log", base=4)
    grid[1].set_xticks([*weighted], [f"$4^{{{math.log(weight, 4):.0f}}}$" for weight in weighted])
    grid[1].set_xlabel("weight of the arclength")
    return figure


def write(name: str, out: Path, results: Results, rows: list[dict]) -> str:
    """Write the table, the runs and the figure of an experiment, and return the table."""
    text = beside_the_paper(name, results) if name in TABLES else by_ensemble(results)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}.md") as path:
        path.write_text(text, encoding="utf-8")
    if rows:
        write_csv(out / f"{name}.csv", rows)
    if rows and (name in HISTOGRAMS or name in CURVES):
        save(histogram if name in HISTOGRAMS else curves, results, out / f"{name}.png")
    return text


def main() -> None:
    parser = make_parser(__doc__.splitlines()[0])
    args = parser.parse_args()
    ensembles = chosen(parser, args)
    try:
        done = finished(args.reports)
        results = {ensemble: [] for ensemble in ensembles}
        rows = []
        for run in chain(*ensembles.values()):
            if log := run.log(args.out):
                result = read(log, run.updates)
            elif row := done.get(run.key):
                result = Result(float(row["accuracy"]), float(row["seconds"]), int(row["updates"]))
            else:
                continue
            results[run.ensemble].append(result)
            rows.append({**dict(zip(KEY, run.key)), **vars(result)})
        print(write(args.experiment, args.out, results, rows), end="")
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: error: {error}")


if __name__ == "__main__":
    main()
