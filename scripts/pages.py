"""Fill the pages: with figures from the tables that trainings and measurements left, and with help.

    .venv/bin/python scripts/pages.py

A page names a figure in a comment, ``<!--=cost; transject-->1.26<!--/-->``: the function
:func:`cost` of this file, with its arguments, says what comes between the two comments. A number
has no other marks; a table has empty lines around it.
"""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from statistics import fmean, median, stdev

import yaml
from scipy.stats import ttest_ind

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT), str(ROOT / "examples" / "scoreboard")]

from questions import correct_by_holm  # noqa: E402  a script beside its results
from scoreboard import Cell, show_interval  # noqa: E402

from odeformers.compare.report.judge import FEW_SEEDS, WIDE_INTERVAL  # noqa: E402
from odeformers.compare.report.notes import EDGE_REASON, TEXTS_REASON  # noqa: E402
from odeformers.compare.results.intervals import OverSeeds, compare_with_baseline  # noqa: E402
from odeformers.compare.results.rows import group  # noqa: E402
from scripts import reference  # noqa: E402
from scripts.reference import table  # noqa: E402

MARKED = re.compile(r"(<!--=(.+?)-->)(.*?)(<!--/-->)", re.S)
BASELINE, LINEAR = "transformer_classifier_prenorm", "transformer_classifier_linear"
BOARD = "examples/scoreboard"
LOSS = "validation loss (bits per token)"
REASONS = {
    WIDE_INTERVAL: "interval",
    FEW_SEEDS: "seeds",
    EDGE_REASON: "grid edge",
    TEXTS_REASON: "texts",
}
PAPERS_RATE = "examples/transject/table3/results.csv"
FIGURES: dict[str, Callable[..., str]] = {
    "commands": reference.commands,
    "names": reference.names,
    "options": reference.options,
    "models": reference.base_models,
    "tasks": reference.registered("--task"),
    "criterions": reference.registered("--criterion"),
    "task-options": reference.registered_options("--task"),
    "criterion-options": reference.registered_options("--criterion"),
    **{name: reference.docstrings(name) for name in reference.TABLES},
}

Row = dict[str, str]


def figure(function: Callable[..., str]) -> Callable[..., str]:
    FIGURES[function.__name__] = function
    return function


@cache
def read(path: str) -> list[Row]:
    with open(ROOT / path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- scores -----------------------------------------------------------------------------------


def values(experiment: str, measure: str, arch: str) -> list[str]:
    """The scores of all seeds."""
    return [
        row["value"]
        for row in read("examples/results.csv")
        if (row["experiment"], row["measure"], row["arch"]) == (experiment, measure, arch)
    ]


def archs(experiment: str) -> list[str]:
    rows = read("examples/results.csv")
    return [*dict.fromkeys(row["arch"] for row in rows if row["experiment"] == experiment)]


@figure
def seeds(experiment: str, measure: str, arch: str) -> str:
    """The scores of all seeds, one after the other."""
    return ", ".join(values(experiment, measure, arch))


@figure
def p(experiment: str, measure: str, arch: str, last: str = "") -> str:
    """p-values of all seeds, without zeros at their ends; ``and`` may come before the last one."""
    *others, end = (f"{float(value):g}" for value in values(experiment, measure, arch))
    return ", ".join([*others, end]) if not last else f"{', '.join(others)} {last} {end}"


@figure
def mean(experiment: str, measure: str, arch: str) -> str:
    return f"{fmean(map(float, values(experiment, measure, arch))):.1f}"


@figure
def transevolve(experiment: str) -> str:
    """The lowest and the highest mean of the four kinds of classifiers."""
    kinds = [f"{ff}_{blocks}" for ff in ("randomff", "fullff") for blocks in (1, 2)]
    means = (mean(experiment, "accuracy", f"transevolve_classifier_{kind}") for kind in kinds)
    lowest, *_, highest = sorted(means, key=float)
    return f"{lowest} to {highest}"


def translators(experiment: str, measures: Iterable[str], more: Callable[[str], list[str]]):
    for arch in archs(experiment):
        (size,) = values(experiment, "parameters", arch)
        numbers = ", ".join(str(n + 1) for n in range(len(values(experiment, "loss", arch))))
        shown = (seeds(experiment, measure, arch) for measure in measures)
        yield [f"`{arch}`", f"{int(size):,}", numbers, *shown, *more(arch)]


@figure
def multi30k() -> str:
    head = ["`--arch`", "parameters", "seeds", "BLEU, best checkpoint"]
    head += ["BLEU, last three averaged", LOSS]
    rows = translators("multi30k", ("BLEU", "averaged BLEU", "loss"), lambda arch: [])
    return table(head, "lrllll", rows)


@figure
def l10n() -> str:
    def more(arch: str) -> list[str]:
        tested = values("l10n-paired-bootstrap", "p", arch)
        return [seeds("l10n", "hours", arch), ", ".join(tested)]

    head = ["`--arch`", "parameters", "seeds", "BLEU", "chrF", LOSS, "hours", "p"]
    return table(head, "lrllllll", translators("l10n", ("BLEU", "chrF", "loss"), more))


@figure
def agnews() -> str:
    rows = []
    for arch in archs("agnews"):
        of_one = len(values("agnews", "accuracy", arch)) == 1
        shown = "" if of_one else mean("agnews", "accuracy", arch)
        rows.append([f"`{arch}`", seeds("agnews", "accuracy", arch), shown])
    return table(["`--arch`", "accuracy (%), seeds 1, 2, 3", "mean"], "llr", rows)


@figure
def listops() -> str:
    rows = [["the most frequent class", "15.5"]]
    rows += ([f"`{arch}`", seeds("listops", "accuracy", arch)] for arch in archs("listops"))
    return table(["`--arch`", "accuracy (%, ±3)"], "ll", rows)


@figure
def ptb() -> str:
    """With the paper's perplexities, which the recipe has."""
    text = (ROOT / "examples/transject/ptb.yaml").read_text("utf-8")
    part = yaml.safe_load(text)["parts"]["paper"]
    (cited,) = part["cited"].values()
    rows = (
        [
            f"`{arch}`",
            f"{shown['valid']:.2f}",
            f"{shown['test']:.2f}",
            seeds("ptb", "perplexity", arch),
        ]
        for arch, shown in (part["paper"] | cited).items()
    )
    return table(["`--arch`", "paper, valid", "paper, test", "trial, valid"], "lrrr", rows)


def scores(path: str, arch: str, **columns: str) -> list[float]:
    """The scores of an architecture in a file of runs, from rows with these values in columns."""
    wanted = {"architecture": arch, **columns}.items()
    return [float(row["score"]) for row in read(path) if wanted <= row.items()]


@figure
def table3() -> str:
    """The perplexities of TransJect's Table 3 at two learning rates, one per seed."""
    files = {"0.01": PAPERS_RATE, "0.001": "examples/transject/table3_1e-3/results.csv"}

    def cell(arch: str, path: str, split: str) -> str:
        shown = [f"{score:.1f}" for score in scores(path, arch, split=split)]
        runs = (row for row in read(path) if row["architecture"] == arch)
        return ", ".join([*shown, *("diverges" for run in runs if run["state"])])

    columns = [(rate, split) for rate in files for split in ("valid", "test")]
    archs = dict.fromkeys(row["architecture"] for path in files.values() for row in read(path))
    rows = (
        [f"`{arch}`", *(cell(arch, files[rate], split) for rate, split in columns)]
        for arch in archs
    )
    head = ["`--arch`", *(f"{rate}, {split}" for rate, split in columns)]
    return table(head, "lrrrr", rows)


@figure
def table3_mean(arch: str) -> str:
    """The mean validation perplexity over seeds, at the paper's rate."""
    return f"{fmean(scores(PAPERS_RATE, arch, split='valid')):.1f}"


@figure
def truncation() -> str:
    depths = ("one layer", "two layers")
    rows = (
        [f"`{block}`", *(seeds("truncation", depth, block) for depth in depths)]
        for block in archs("truncation")
    )
    return table(["block", *depths], "lrr", rows)


@figure
def truncation_gain() -> str:
    """By how much the mean perplexities of higher orders are lower than the residual block's."""

    def of(block: str, depth: str) -> float:
        return fmean(map(float, values("truncation", depth, block)))

    first, *others = archs("truncation")
    gains = (
        of(first, depth) - of(block, depth)
        for block in others
        for depth in ("one layer", "two layers")
    )
    return span(gains, " to ")


@cache
def board_cells() -> list[Cell]:
    numbers = ("mean", "difference", "low", "high", "p_value")
    return [
        Cell(
            **row
            | {name: float(row[name]) if row[name] else None for name in numbers}
            | {name: int(row[name]) for name in ("seeds", "parameters")}
        )
        for row in read(f"{BOARD}/scoreboard.csv")
    ]


@figure
def differences() -> str:
    """The scoreboard's differences by data set, the best first; only its first row names it."""
    bases = {cell.column: cell for cell in board_cells() if not cell.verdict}

    def relative(cell: Cell, baseline: Cell) -> str:
        if cell.metric != "perplexity":
            return ""
        return f"{cell.difference / baseline.mean:+.1%}"

    rows = []
    for column, cells in group((cell for cell in board_cells() if cell.verdict), "column").items():
        base = bases[column]
        scored = f"{column}: {base.metric} {base.mean:.1f}"
        scored += "%" * (base.metric == "accuracy")
        best_first = sorted(cells, key=lambda cell: -cell.difference)
        for number, cell in enumerate(best_first):
            word, _, reason = cell.verdict.removesuffix(")").partition(" (")
            why = reason.rpartition("but ")[2]
            verdict = REASONS.get(why, why) if why else f"**{word}**"
            name = "" if number else scored
            rows.append([name, cell.family, cell.advantage, relative(cell, base), verdict])
    head = [
        "data: the Transformer's score",
        "model",
        "difference in points or perplexity (95% interval); + is better",
        "the same in percent",
        "verdict, or why inconclusive",
    ]
    return table(head, "lllrl", rows)


@figure
def baselines() -> str:
    """The pre-norm Transformer of each of the scoreboard's columns."""

    def training(cell: Row) -> Row:
        rows = read(f"{BOARD}/trainings.csv")
        wanted = (cell["column"], cell["architecture"])
        return next(row for row in rows if (row["comparison"], row["architecture"]) == wanted)

    rows = (
        [
            cell["column"],
            f"{int(cell['parameters']):,}",
            f"{int(training(cell)['updates']):,}",
            cell["tuned"].removeprefix("lr "),
        ]
        for cell in read(f"{BOARD}/scoreboard.csv")
        if not cell["verdict"]
    )
    head = ["data", "parameters", "updates", "learning rate"]
    return table(head, "lrrr", rows)


@cache
def against_retuned() -> OverSeeds:
    """AG News against the Transformer of its newer column, where another seed chose the rate."""

    def of_column(column: str) -> dict[str, list[float]]:
        return {
            cell.architecture: scores(
                f"{BOARD}/trainings.csv",
                cell.architecture,
                comparison=column,
                tuned=cell.tuned,
                metric="accuracy",
            )
            for cell in board_cells()
            if cell.column == column
        }

    retuned = {BASELINE: of_column("AG News, second round")[BASELINE]}
    return compare_with_baseline(of_column("AG News") | retuned, BASELINE)


@figure
def retuned(arch: str) -> str:
    difference = against_retuned().differences[arch]
    assert difference.interval
    return show_interval(difference.mean, *difference.interval)


@figure
def simulated_errors() -> str:
    """The highest error of the verdict's simulation by spreads and number of seeds."""
    kinds = {
        "equal": ("verdict", True),
        "equal, with uncorrected Welch intervals instead": ("Welch", True),
        "unequal": ("verdict", False),
        "unequal, with Welch intervals at the Bonferroni level instead": (
            "Welch-Bonferroni",
            False,
        ),
    }
    highest: dict[str, dict[str, float]] = {kind: {} for kind in kinds}
    for row in read(f"{BOARD}/simulation.csv"):
        for kind, of_kind in kinds.items():
            if (row["test"], row["pattern"] == "equal") == of_kind and row["seeds"].isdecimal():
                seeds = row["seeds"]
                highest[kind][seeds] = max(highest[kind].get(seeds, 0), float(row["error"]))
    numbers = [*highest["equal"]]
    rows = (
        [kind, *(f"{errors[seeds]:.1%}" for seeds in numbers)] for kind, errors in highest.items()
    )
    return table(["spread over seeds", *(f"{seeds} seeds" for seeds in numbers)], "lrrr", rows)


@figure
def error_of_unequal_seeds() -> str:
    """The highest error of the verdict if models have different numbers of seeds."""
    errors = (
        float(row["error"])
        for row in read(f"{BOARD}/simulation.csv")
        if row["test"] == "verdict" and not row["seeds"].isdecimal()
    )
    return f"{max(errors):.1%}"


def higher(gain: float, low: float, high: float) -> str:
    """By how much a perplexity differs, with the interval, from the gain on the scoreboard."""

    def show(difference: float) -> str:
        return f"{abs(difference):.1f} {'higher' if difference > 0 else 'lower'}"

    ends = [show(-high), show(-low)]
    if (low > 0) == (high > 0):
        ends = [f"{size:.1f}" for size in sorted((abs(low), abs(high)))]
    return f"{show(-gain)} ({' to '.join(ends)})"


@figure
def perplexity_on_board(arch: str) -> str:
    (cell,) = (cell for cell in board_cells() if cell.architecture == arch)
    assert cell.low is not None
    return higher(cell.difference, cell.low, cell.high)


@figure
def perplexity_difference(arch: str) -> str:
    """The difference from the baseline of the later runs."""
    return differ_in_perplexity(f"{BOARD}/language_model.csv", "transformer_lm_prenorm", arch)


@figure
def table3_difference(arch: str) -> str:
    """The difference from TransJect's test perplexity, at the paper's rate."""
    return differ_in_perplexity(PAPERS_RATE, "transject_lm", arch, split="test")


def differ_in_perplexity(path: str, baseline: str, arch: str, **of_rows: str) -> str:
    """The difference of an architecture from a baseline, jointly with the others of a file."""
    every = dict.fromkeys(row["architecture"] for row in read(path))
    reached = {name: scores(path, name, metric="perplexity", **of_rows) for name in every}
    reached = {name: perplexities for name, perplexities in reached.items() if perplexities}
    difference = compare_with_baseline(reached, baseline).differences[arch]
    assert difference.interval
    low, high = difference.interval
    return higher(-difference.mean, -high, -low)


def scores_on_bytes(arch: str) -> list[float]:
    """The accuracies on IMDb as bytes."""
    return scores(f"{BOARD}/long_text/results.csv", arch, metric="accuracy")


@figure
def on_bytes(arch: str) -> str:
    return f"{fmean(scores_on_bytes(arch)):.2f}"


@figure
def seeds_on_bytes(arch: str) -> str:
    return str(len(scores_on_bytes(arch)))


@figure
def lead_on_bytes(arch: str) -> str:
    """p of TransJect's lead over a model, corrected for two."""
    others = (BASELINE, LINEAR)
    first = scores_on_bytes("transject")
    tests = (ttest_ind(first, scores_on_bytes(other), equal_var=False) for other in others)
    corrected = correct_by_holm([test.pvalue for test in tests])
    return f"{corrected[others.index(arch)]:.2f}"


@figure
def parity(kind: str, best: str = "") -> str:
    """Training accuracy on strings of six bits: mean and deviation, or mean of the best runs."""
    runs = sorted(
        float(row["accuracy"])
        for row in read("examples/parity/table1.csv")
        if row["ensemble"].startswith(kind)
    )
    if not best:
        return f"{fmean(runs):.1f} ± {stdev(runs):.1f}%"
    return f"{fmean(runs[-int(best) :]):.1f}"


# --- speed and memory -------------------------------------------------------------------------


def seconds(path: str, arch: str, column: str = "seconds") -> float:
    """CPU seconds of an update."""
    (row,) = (row for row in read(path) if row["architecture"] == arch)
    return float(row[column])


@figure
def cost(arch: str, digits: str = "2") -> str:
    """CPU time of an update on AG News, relative to the Transformer's."""
    path = f"{BOARD}/cost.csv"
    return f"{seconds(path, arch) / seconds(path, BASELINE):.{digits}f}"


@figure
def cost_on_treebank(arch: str) -> str:
    """The same on the Penn Treebank: the medians over runs that trained beside each other."""

    def median_seconds(rows: Sequence[Row], name: str) -> float:
        found = (row for row in rows if row["architecture"] == name)
        return median(float(row["cpu_seconds"]) / float(row["updates"]) for row in found)

    later = read(f"{BOARD}/language_model.csv")
    newer = [
        row
        for row in read(f"{BOARD}/trainings.csv")
        if row["comparison"] == "Penn Treebank, second round"
    ]
    rows = newer if any(row["architecture"] == arch for row in newer) else later
    return f"{median_seconds(rows, arch) / median_seconds(rows, 'transformer_lm_prenorm'):.2f}"


def faster_on_bytes(arch: str, length: str) -> float:
    path = f"{BOARD}/long_text/updates.csv"
    return seconds(path, BASELINE, length) / seconds(path, arch, length)


@figure
def at_equal_size(arch: str, length: str = "2048", digits: str = "1") -> str:
    """Speed with texts of bytes, relative to the Transformer's."""
    return f"{faster_on_bytes(arch, length):.{digits}f}"


@figure
def equal_sizes() -> str:
    models = ("transject", LINEAR, "transevolve_classifier_fullff_1_prenorm")
    rows = (
        [f"{int(length):,}", *(at_equal_size(model, length, "2") for model in models)]
        for length in ("585", "2048")
    )
    return table(["bytes per text", *(f"`{model}`" for model in models)], "rrrr", rows)


@figure
def long_text_updates() -> str:
    """How many updates 60 minutes have, and the recipe's number, a multiple of eight."""
    path = f"{BOARD}/long_text/updates.csv"
    *models, batches = read(path)
    order = (BASELINE, "transject", LINEAR, "transevolve_classifier_fullff_1_prenorm")
    rows = []
    for arch in order:
        (model,) = (row for row in models if row["architecture"] == arch)
        updates = int(model["updates"])
        chosen = updates // 8 * 8
        rounded = Decimal(model["seconds"]).quantize(Decimal("0.001"), ROUND_HALF_UP)
        cells = [str(rounded), f"{updates:,}", f"{chosen:,}"]
        rows.append([f"`{arch}`", *cells, f"{chosen / int(batches['updates']):.1f}"])
    head = ["`--arch`", "CPU seconds per update", "updates in 60 minutes"]
    return table([*head, "`--max-update`, a multiple of 8", "epochs"], "lrrrr", rows)


@cache
def grown(name: str, model: str) -> dict[int, Row]:
    """The rows of a model by their lengths."""
    rows = read("docs/growth.csv")
    found = (row for row in rows if (row["table"], row["model"]) == (name, model))
    return {int(row["length"]): row for row in found}


def relative(what: str, model: str, least: int = 1) -> dict[int, float]:
    """Speed or memory relative to the Transformer's, by length."""
    rows = grown(f"{what}-length", model).items()
    found = {length: float(row["ratio"]) for length, row in rows if length >= least}
    return found if what == "encoder" else {length: 1 / ratio for length, ratio in found.items()}


def span(numbers: Iterable[float], between: str, digits: str = ".1f") -> str:
    numbers = [*numbers]
    ends = dict.fromkeys(f"{number:{digits}}" for number in (min(numbers), max(numbers)))
    return between.join(ends)


@figure
def faster(model: str) -> str:
    """From 1,024 to 8,192 tokens, to two digits."""
    return span(relative("encoder", model, 1024).values(), " to ", ".2g")


@figure
def faster_at(length: str, model: str, digits: str = ".1f") -> str:
    return f"{relative('encoder', model)[int(length)]:{digits}}"


@figure
def from_length(what: str, least: str, *models: str) -> str:
    """The smallest and the largest relative speed or memory from a length on."""
    found = (relative(what, model, int(least)).values() for model in models)
    return span((number for numbers in found for number in numbers), " to ")


@figure
def slower_up_to(model: str) -> str:
    """The last length at which it is slower than the Transformer, as at all before."""
    speeds = relative("encoder", model)
    slower = {length for length in speeds if speeds[length] < 1}
    assert slower == {length for length in speeds if length <= max(slower)}
    return f"{max(slower):,}"


@figure
def slower_from(model: str, other: str) -> str:
    """The first length at which it is slower than another model, as at all later ones."""
    ours, theirs = relative("encoder", model), relative("encoder", other)
    slower = {length for length in ours if ours[length] < theirs[length]}
    assert slower == {length for length in ours if length >= min(slower)}
    return f"{min(slower):,}"


@figure
def parameters(model: str) -> str:
    """The encoder's, relative to the Transformer's."""
    ours, theirs = (
        int(grown("encoder-length", name)[8192]["parameters"]) for name in (model, "transformer")
    )
    return f"{ours / theirs:.0%}"


@figure
def memory(model: str, length: str, kind: str = "length") -> str:
    return f"{float(grown(f'memory-{kind}', model)[int(length)]['value']):,.0f}"


@figure
def memories() -> str:
    models = ("transformer", "transevolve_fullff_1", "macaron_transformer", "transject")
    rows = (
        [f"{length:,}", *(memory(model, str(length)) for model in models)]
        for length in (1024, 8192)
    )
    return table(["tokens", *(f"`{model}`" for model in models)], "rrrrr", rows)


@figure
def measured(row: str, column: str) -> str:
    """A value of ``docs/speed.csv``."""
    rows = read("docs/speed.csv")
    (value,) = (each["value"] for each in rows if (each["row"], each["column"]) == (row, column))
    return value


@figure
def medians(of: str, model: str) -> str:
    """The lowest and the highest median of a model's variants in a table of ``docs/speed.csv``."""
    rows = (row for row in read("docs/speed.csv") if row["table"] == of)
    found = (row["value"] for row in rows if model in f"{row['row']} {row['column']}")
    return span((float(value.split()[0]) for value in found), " to ", ".2f")


@figure
def slower() -> str:
    """How many times as long an N-ODE Transformer's encoder takes with its adaptive solver."""
    theirs = grown("encoder-length", "transformer")
    ours = grown("encoder-node", "node_transformer_mt").items()
    ratios = (float(row["value"]) / float(theirs[length]["value"]) for length, row in ours)
    return span(ratios, " to ", ".0f")


@figure
def inference() -> str:
    lengths = [f"{length:,}" for length in (1024, 2048, 3072, 4096)]
    rows = []
    for name, shown in (
        ("transject (E = 4)", "`transject` (E = 4)"),
        ("transject --encoder-experts 1", "`transject --encoder-experts 1`"),
    ):
        rows.append([shown, *(measured(name, length) for length in lengths)])
    return table(["`--arch`", *lengths], "lrrrr", rows)


# --- pages ------------------------------------------------------------------------------------


def fill(text: str) -> str:
    """A page with its figures."""

    def value(match: re.Match[str]) -> str:
        name, *arguments = match[2].split("; ")
        found = FIGURES[name](*arguments)
        return match[0] if found.split() == match[3].split() else match[1] + found + match[4]

    return MARKED.sub(value, text)


def pages() -> list[Path]:
    folders = (ROOT.glob("*.md"), ROOT.glob("docs/**/*.md"), ROOT.glob("examples/**/*.md"))
    return sorted(path for paths in folders for path in paths)


def main() -> None:
    for page in pages():
        text = page.read_text("utf-8")
        if (filled := fill(text)) != text:
            page.write_text(filled, "utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
