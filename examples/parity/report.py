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

from fairseq_odeformers.compare.commands import log_stats
from fairseq_odeformers.files import markdown_table, replacing, write_csv

PAPER = Path(__file__).with_name("paper.csv")
BIN_EDGES = np.arange(55, 100, 5)  # the leftmost bin is below the first
NOT_RUN = "not run"


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


@dataclass(frozen=True)
class Summary:
    """Means of an ensemble and their spread: the standard deviation over the runs."""

    accuracy: tuple[float, float]
    seconds: tuple[float, float]
    updates: float
    runs: str

    def __str__(self) -> str:
        """Accuracy, time, updates (and runs)."""
        accuracy, seconds = plus_minus(*self.accuracy, 1), plus_minus(*self.seconds, 0)
        return f"{accuracy}%, {seconds} s, {self.updates:,.0f} ({self.runs})"


def plus_minus(mean: float, spread: float, digits: int) -> str:
    text = f"{mean:.{digits}f}"
    return text if math.isnan(spread) else f"{text} ± {spread:.{digits}f}"


def read(log: Path, updates: int) -> Result:
    """The result of a run after so many updates, or all that it has, from fairseq's log."""
    with gzip.open(log, "rt", encoding="utf-8") as file:
        epochs = [stats for line in file if (stats := log_stats(line, "train"))]
    epochs = [stats for stats in epochs if int(stats["train_num_updates"]) <= updates]
    best = max(epochs, key=lambda stats: float(stats["train_accuracy"]))
    seconds = float(best["train_wall"]) - float(epochs[0]["train_wall"])
    return Result(float(best["train_accuracy"]), seconds, int(best["train_num_updates"]))


def summarize(results: Sequence[Result]) -> Summary | None:
    """Statistics without the worst sixth of the runs by accuracy; None of no runs."""
    if not results:
        return None
    ordered = sorted(results, key=lambda result: result.accuracy, reverse=True)
    kept = ordered[: len(ordered) - round(len(ordered) / 6)]

    def mean_and_spread(values: list[float]) -> tuple[float, float]:
        return fmean(values), stdev(values) if len(values) > 1 else math.nan

    return Summary(
        mean_and_spread([result.accuracy for result in kept]),
        mean_and_spread([result.seconds for result in kept]),
        fmean(result.updates for result in kept),
        f"{len(kept)} of {len(results)}",
    )


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
        row += ["{accuracy}%, {seconds} s".format(**numbers), str(summarize(found) or NOT_RUN)]
    return markdown_table([[*size, *row] for size, row in rows.items()])


def by_ensemble(results: Results) -> str:
    """A row for each ensemble."""
    rows = [["ensemble", "accuracy, time, updates (runs)"]]
    for ensemble, found in results.items():
        rows.append([label(ensemble), str(summarize(found) or NOT_RUN)])
    return markdown_table(rows)


def label(ensemble: Ensemble) -> str:
    rates = ensemble.learning_rates
    learning_rates = () if rates == LEARNING_RATES else ("--lr", ", ".join(map(str, rates)))
    return " ".join((ensemble.arch, *ensemble.options, *learning_rates))


def histogram(results: Results) -> Figure:
    """Figures 1 and 3 to 5: how many runs of each variant have reached which accuracy."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(results)
    for index, (ensemble, found) in enumerate(results.items()):
        bins = np.digitize([result.accuracy for result in found], BIN_EDGES, right=True)
        counts = np.bincount(bins, minlength=len(BIN_EDGES) + 1)
        name = " ".join(ensemble.options).replace("--", "") or "neither"
        positions = np.arange(len(counts)) + (index - (len(results) - 1) / 2) * width
        axes.bar(positions, counts, width, label=f"{name} ({len(found)} runs)")
    ends = [*BIN_EDGES, 100]
    names = [f"≤ {ends[0]}", *(f"{low}–{high}" for low, high in zip(ends, ends[1:]))]
    axes.set_xticks(range(len(names)), names)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="highest training accuracy (%)", ylabel="runs", title=title(results))
    axes.legend(fontsize="small")
    return figure


def curves(results: Results) -> Figure:
    """Figures 2, 6 and 7: accuracy and time against the weight of the arclength."""
    figure = Figure(figsize=(8, 6), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True)
    summaries = {ensemble: summarize(found) for ensemble, found in results.items() if found}
    weighted = {e.weight: found for e, found in summaries.items() if e.weight}
    names = {"accuracy": "training accuracy (%)", "seconds": "training time (s)"}
    for axes, (attribute, name) in zip(panels, names.items()):
        points = [(weight, *getattr(found, attribute)) for weight, found in weighted.items()]
        if points:
            x, y, spread = zip(*points)
            runs = ", ".join(sorted({found.runs for found in weighted.values()}))
            axes.errorbar(
                *(x, y, np.nan_to_num(spread)),
                fmt="o-",
                capsize=3,
                label=f"{NODE} with regularization ({runs} runs each)",
            )
        lines = [(e, found) for e, found in summaries.items() if not e.weight]
        for color, (ensemble, found) in zip(("C1", "C2"), lines):
            mean, _ = getattr(found, attribute)
            axes.axhline(mean, color=color, label=f"{label(ensemble)} ({found.runs} runs)")
        axes.set_ylabel(name)
    panels[0].set_title(title(results))
    panels[0].legend(fontsize="small")
    panels[1].set_xscale("log", base=4)
    panels[1].set_xlabel("weight of the arclength")
    return figure


def title(results: Results) -> str:
    ensemble = next(iter(results))
    return f"strings of length ≤ {ensemble.max_length}, d = {ensemble.dim}, N = {ensemble.layers}"


def write(name: str, out: Path, results: Results, rows: list[dict]) -> str:
    """Write the table, the runs and the figure of an experiment, and return the table."""
    text = beside_the_paper(name, results) if name in TABLES else by_ensemble(results)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}.md") as path:
        path.write_text(text, encoding="utf-8")
    if rows:
        write_csv(out / f"{name}.csv", rows)
    if rows and (name in HISTOGRAMS or name in CURVES):
        figure = histogram(results) if name in HISTOGRAMS else curves(results)
        with replacing(out / f"{name}.png") as path:
            figure.savefig(path, format="png", dpi=100)
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
