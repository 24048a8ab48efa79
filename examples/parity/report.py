"""Tabulate and draw the runs of run.py, as the N-ODE Transformer's paper does.

Prints a table in Markdown, and writes it to OUT with a CSV file of the runs and the figure as PNG.
Needs the extra ``plots``.
"""

import csv
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev

import experiments
import numpy as np
from experiments import CURVES, HISTOGRAMS, NODE, TABLES, Ensemble, Result
from matplotlib.figure import Figure

from fairseq_odeformers.files import markdown_table, replacing, write_csv
from odeformers import plots

PAPER = Path(__file__).with_name("paper.csv")
BIN_EDGES = np.arange(55, 100, 5)  # the leftmost bin is below the first
# The first has its architecture's colour.
VARIANTS = plots.PURPLE, plots.BLUE, plots.ORANGE, plots.GREEN

NAMES = {
    "--skip-connection": "skip connection",
    "--time-dependent-attention": "time-dependent attention",
}

Results = Mapping[Ensemble, Sequence[Result]]


def best_runs(results: Sequence[Result]) -> list[Result]:
    """The runs without the worst sixth of them by accuracy (section 5 of the paper)."""
    ordered = sorted(results, key=lambda result: result.accuracy, reverse=True)
    return ordered[: len(ordered) - round(len(ordered) / 6)]


def summarize(results: Sequence[Result]) -> str:
    """Mean and standard deviation of accuracy and time, mean updates, and the number of runs."""
    if not results:
        return "not run"
    best = best_runs(results)
    accuracy = mean_and_deviation([result.accuracy for result in best], 1)
    seconds = mean_and_deviation([result.seconds for result in best], 0)
    updates = fmean(result.updates for result in best)
    return f"{accuracy}%, {seconds} s, {updates:,.0f} ({len(best)} of {len(results)})"


def mean_and_deviation(values: Sequence[float], digits: int) -> str:
    mean = f"{fmean(values):.{digits}f}"
    return f"{mean} ± {stdev(values):.{digits}f}" if len(values) > 1 else mean


def tabulate_sizes(name: str, results: Results) -> str:
    """Tables 1 to 3: a row for each size, with the paper's numbers beside ours."""
    with open(PAPER, encoding="utf-8", newline="") as file:
        paper = {
            (row["arch"], int(row["dim"]), int(row["layers"])): row
            for row in csv.DictReader(file)
            if row["table"] == name
        }
    archs = dict.fromkeys(ensemble.arch for ensemble in results)
    rows = {("d", "N"): [f"`{arch}`, {whose}" for arch in archs for whose in ("paper", "ours")]}
    for ensemble, runs in results.items():
        numbers = paper[ensemble.arch, ensemble.dim, ensemble.layers]
        row = rows.setdefault((str(ensemble.dim), str(ensemble.layers)), [])
        row += ["{accuracy}%, {seconds} s".format(**numbers), summarize(runs)]
    return markdown_table([[*size, *row] for size, row in rows.items()])


def tabulate_ensembles(results: Results) -> str:
    """A row for each ensemble."""
    rows = [[label(ensemble), summarize(runs)] for ensemble, runs in results.items()]
    return markdown_table([["ensemble", "accuracy, time, updates (runs)"], *rows])


def label(ensemble: Ensemble, model: str | None = None) -> str:
    words = [model or ensemble.arch, *ensemble.options]
    if ensemble.learning_rates != experiments.LEARNING_RATES:
        words += ["--lr", ", ".join(map(str, ensemble.learning_rates))]
    return " ".join(words)


def title(results: Results) -> str:
    ensemble = next(iter(results))
    return f"strings of length ≤ {ensemble.max_length}, d = {ensemble.dim}, N = {ensemble.layers}"


def draw_histogram(results: Results) -> Figure:
    """Figures 1 and 3 to 5: how many runs of each variant have reached which accuracy."""
    figure, (axes,) = plots.panels(1, 1, 7.4, 3.4)
    width = 0.8 / len(results)
    for index, (ensemble, runs) in enumerate(results.items()):
        bins = np.digitize([run.accuracy for run in runs], BIN_EDGES, right=True)
        counts = np.bincount(bins, minlength=len(BIN_EDGES) + 1)
        name = " and ".join(map(NAMES.__getitem__, ensemble.options)) or "neither"
        positions = np.arange(len(counts)) + (index - (len(results) - 1) / 2) * width
        look = {"color": VARIANTS[index % len(VARIANTS)], "label": f"{name} ({len(runs)} runs)"}
        axes.bar(positions, counts, width, **look)
    ends = [*BIN_EDGES, 100]
    names = [f"≤ {ends[0]}", *(f"{low}–{high}" for low, high in zip(ends, ends[1:]))]
    axes.set_xticks(range(len(names)), names)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="highest training accuracy (%)", ylabel="runs", title=title(results))
    axes.legend()
    return figure


def draw_curves(results: Results) -> Figure:
    """Figures 2, 6 and 7: accuracy and time against the weight of the arclength.

    A bar goes from the lowest to the highest of the best runs.
    """
    figure, grid = plots.panels(2, 1, 7.4, 2.7, sharex=True)
    best = {ensemble: best_runs(runs) for ensemble, runs in results.items() if runs}
    counts = {e: f"{len(runs)} of {len(results[e])}" for e, runs in best.items()}
    weighted = [ensemble for ensemble in best if ensemble.weight]
    weights = [ensemble.weight for ensemble in weighted]
    models = plots.label_families([NODE, *(ensemble.arch for ensemble in best)])
    names = {"accuracy": "training accuracy (%)", "seconds": "training time (s)"}
    for axes, (attribute, measure) in zip(grid, names.items()):
        values = {e: [getattr(run, attribute) for run in runs] for e, runs in best.items()}
        if weighted:
            runs = ", ".join(sorted({counts[ensemble] for ensemble in weighted}))
            text = f"{models[NODE]} with the regulariser ({runs} runs: mean, lowest to highest)"
            (style,) = plots.styles([NODE]).values()
            look = {"color": style["color"], "label": text}
            plots.means_and_ranges(axes, weights, [values[e] for e in weighted], **look)
        for ensemble in best:
            if not ensemble.weight:
                (style,) = plots.styles([ensemble.arch]).values()
                look = {"color": style["color"], "linestyle": "--"}
                look["label"] = (
                    f"{label(ensemble, models[ensemble.arch])} ({counts[ensemble]} runs)"
                )
                axes.axhline(fmean(values[ensemble]), **look)
        axes.set_ylabel(measure)
    grid[0].set_title(title(results))
    grid[0].legend()
    grid[1].set_ylim(bottom=0)
    grid[1].set_xscale("log", base=4)
    exponents = [round(math.log(weight, 4), 3) for weight in weights]
    powers = {4.0**exponent: exponent for exponent in exponents if exponent.is_integer()}
    grid[1].set_xticks(list(powers), [f"$4^{{{exponent:.0f}}}$" for exponent in powers.values()])
    grid[1].minorticks_off()
    grid[1].set_xlabel("weight of the arclength")
    return figure


def write_report(name: str, out: Path, results: Results) -> str:
    """Write the table, the runs and the figure of an experiment, and return the table."""
    table = tabulate_sizes(name, results) if name in TABLES else tabulate_ensembles(results)
    out.mkdir(parents=True, exist_ok=True)
    with replacing(out / f"{name}.md") as path:
        path.write_text(table, encoding="utf-8")
    if rows := [run._asdict() for runs in results.values() for run in runs]:
        write_csv(out / f"{name}.csv", rows)
        if name in HISTOGRAMS or name in CURVES:
            draw = draw_histogram if name in HISTOGRAMS else draw_curves
            plots.save(draw, results, out / f"{name}.png")
    return table


def main() -> None:
    parser = experiments.make_parser(__doc__.splitlines()[0])
    args = parser.parse_args()
    ensembles = experiments.choose(parser, args)
    try:
        finished = experiments.read_results(args)
        results = {}
        for ensemble in ensembles:
            keys = ((ensemble.name, *ensemble.run(number)) for number in range(args.runs))
            results[ensemble] = [finished[key] for key in keys if key in finished]
        print(write_report(args.experiment, args.out, results), end="")
    except (OSError, ValueError) as error:
        sys.exit(f"report.py: error: {error}")


if __name__ == "__main__":
    main()
