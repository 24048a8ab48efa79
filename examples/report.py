"""Tables and learning curves of an experiment, from what its runs have left.

RUNS is the folder in which an ``examples/*/run.sh`` has put its runs, called ARCH-seedN, or
PREFIXARCH-seedN. Each has the log of the training and predictions: the translations of
``fairseq-generate`` or the classes of ``odeformers predict``. Nothing is computed
anew. A run without predictions is not finished, and left out.

Prints tables in Markdown. A mean over seeds is followed by the standard deviation and, in brackets,
Student's 95% interval of the mean; it says how much the seeds matter, not how much the choice of
the test set does. Translations are detokenised and compared, without regard to case, with the text
as it was published. The paired bootstrap compares the BLEU of runs of the same seed. Needs the
extras ``plots`` and ``corpora``.

A table of learning curves (``--trainings``) keeps those of runs whose folders are removed, or on
another machine: what it has is part of the last table and the figure, and those of RUNS are added.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean, stdev
from typing import Callable, TypeVar

import numpy as np
from matplotlib.figure import Figure
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer
from scipy.stats import t as student

from fairseq_odeformers.compare.commands import log_stats
from fairseq_odeformers.corpora.multi30k import LANGS, LATER, SPLITS
from fairseq_odeformers.corpora.wmt14_score import read_hypotheses
from fairseq_odeformers.files import markdown_table, read_lines, replacing, write_csv

TEST_SETS = {split: name for split, name in {**SPLITS, **LATER}.items() if split.startswith("test")}
CHECKPOINTS = {"checkpoint_best": "best checkpoint", "averaged": "last three epochs averaged"}
TARGET = LANGS[1]
COLUMNS = ["arch", "seed", "parameters", "updates", "loss", "seconds"]  # of --trainings

Runs = Mapping[str, Mapping[int, Path]]  # folder of each seed of each architecture
Row = dict[str, str]
T = TypeVar("T")


@dataclass(frozen=True)
class Training:
    """What a log says of a run.

    Attributes:
        parameters: of the model.
        updates: (N) before each validation.
        losses: (N) of the validations.
        seconds: (N) spent on these updates; validation, saving and starting do not count.
    """

    parameters: int
    updates: np.ndarray
    losses: np.ndarray
    seconds: np.ndarray


def find_runs(folder: Path, prefix: str = "") -> Runs:
    """The finished runs called *prefix*, architecture and seed; others are named on standard error.

    Raises:
        ValueError: there is none.
    """
    runs: dict[str, dict[int, Path]] = defaultdict(dict)
    for path in sorted(folder.glob("*-seed*")):
        match = re.fullmatch(re.escape(prefix) + r"(\w+)-seed(\d+)", path.name)
        if match and any(path.glob("*.out")) | (path / "test.tsv").exists():
            runs[match[1]][int(match[2])] = path
        elif match:
            print(f"{path}: not finished", file=sys.stderr)
    if not runs:
        raise ValueError(f"{folder} has no finished run called {prefix}ARCH-seedN")
    return runs


def read_training(log: Path) -> Training:
    """Read fairseq's log; of what an interrupted run has repeated, the last counts.

    Raises:
        ValueError: no epoch ends in it.
    """
    parameters, losses, seconds = 0, {}, {}
    for line in read_lines(log):
        if match := re.search(r"num\. shared model params: ([\d,]+)", line):
            parameters = int(match[1].replace(",", ""))
        if stats := log_stats(line, "valid"):
            losses[int(stats["valid_num_updates"])] = float(stats["valid_loss"])
        if stats := log_stats(line, "train"):
            seconds[int(stats["train_num_updates"])] = float(stats["train_train_wall"])
    if not losses or not seconds:
        raise ValueError(f"{log} has no epoch that has ended")
    updates = np.array(sorted(losses))
    ends = np.array(sorted(seconds))
    elapsed = np.cumsum([seconds[end] for end in ends])
    return Training(
        parameters,
        updates,
        np.array([losses[update] for update in updates]),
        np.interp(updates, [0, *ends], [0, *elapsed]),
    )


def read_trainings(table: Path) -> dict[str, dict[int, Training]]:
    """The trainings that :func:`write_trainings` has written, by architecture and seed.

    Raises:
        ValueError: the file is none of these.
    """
    columns: dict = defaultdict(list)
    with open(table, encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        try:
            if reader.fieldnames != COLUMNS:
                raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
            for row in reader:
                key = row["arch"], int(row["seed"]), int(row["parameters"])
                point = int(row["updates"]), float(row["loss"]), float(row["seconds"])
                columns[key].append(point)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{table}, line {reader.line_num}: {error}") from error
    trainings: dict = defaultdict(dict)
    for (arch, seed, parameters), points in columns.items():
        trainings[arch][seed] = Training(parameters, *map(np.array, zip(*points)))
    return trainings


def write_trainings(table: Path, trainings: Mapping[str, Mapping[int, Training]]) -> None:
    """A row for each validation of each training."""
    rows = [
        dict(zip(COLUMNS, (arch, seed, run.parameters, updates, loss, round(seconds))))
        for arch, found in trainings.items()
        for seed, run in sorted(found.items())
        for updates, loss, seconds in zip(run.updates, run.losses, run.seconds)
    ]
    write_csv(table, rows)


def over_seeds(values: Sequence[float], digits: int = 2) -> str:
    """Mean of the values, and, if they differ, standard deviation and 95% interval of the mean."""
    mean = fmean(values)
    text = f"{mean:,.{digits}f}"
    if len(set(values)) > 1:
        spread = stdev(values)
        half = student.ppf(0.975, len(values) - 1) * spread / math.sqrt(len(values))
        text += f" ± {spread:,.{digits}f} ({mean - half:,.{digits}f} to {mean + half:,.{digits}f})"
    return text


def each(runs: Runs, file: str, read: Callable[[Path], T]) -> dict[str, dict[int, T]]:
    """What *read* makes of a file, for each run that has it, by architecture and seed."""
    found = {
        arch: {
            seed: read(path) for seed, folder in seeds.items() if (path := folder / file).exists()
        }
        for arch, seeds in runs.items()
    }
    return {arch: seeds for arch, seeds in found.items() if seeds}


def check_sizes(trainings: Mapping[str, Mapping[int, Training]]) -> None:
    """Raise a ValueError if runs of an architecture have models of several sizes."""
    for arch, runs in trainings.items():
        sizes = sorted({run.parameters for run in runs.values()})
        if len(sizes) > 1:
            counts = " and ".join(f"{size:,}" for size in sizes)
            raise ValueError(
                f"{arch} has runs of {counts} parameters; give them a --trainings of their own"
            )


def training_table(trainings: Mapping[str, Mapping[int, Training]]) -> list[Row]:
    """A row for each architecture: size, lowest validation loss, length of the training."""
    rows = []
    for arch, found in trainings.items():
        runs = found.values()
        rows.append(
            {
                "`--arch`": f"`{arch}`",
                "parameters": ", ".join(sorted({f"{run.parameters:,}" for run in runs})),
                "seeds": str(len(runs)),
                "validation loss": over_seeds([run.losses.min() for run in runs], 3),
                "updates": over_seeds([float(run.updates[-1]) for run in runs], 0),
                "seconds": over_seeds([run.seconds[-1] for run in runs], 0),
            }
        )
    return rows


def classification_table(accuracies: Mapping[str, Mapping[int, float]]) -> list[Row]:
    """A row for each architecture: accuracy on the test set."""
    return [
        {
            "`--arch`": f"`{arch}`",
            "seeds": str(len(found)),
            "accuracy, %": over_seeds(list(found.values()), 1),
            "seed by seed": ", ".join(f"{value:.1f}" for value in found.values()),
        }
        for arch, found in accuracies.items()
    ]


def accuracy(table: Path) -> float:
    """Of the predictions of ``odeformers predict``, in percent."""
    with open(table, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return 100 * fmean(row["prediction"] == row["target"] for row in rows)


@dataclass(frozen=True)
class Translations:
    """Detokenised translations of a test set by one run, and the BLEU that fairseq has printed."""

    texts: list[str]
    fairseq_bleu: float


def read_translations(path: Path, count: int) -> Translations:
    """Translations of *count* sentences, printed by fairseq-generate.

    Raises:
        ValueError: the file translates others, or does not end with the score.
    """
    detokenizer = MosesDetokenizer(TARGET)
    texts = [detokenizer.detokenize(text.split()) for text in read_hypotheses(path, count)]
    *_, last = read_lines(path)
    match = re.match(r"Generate .*: BLEU4 = ([\d.]+),", last)
    if not match:
        raise ValueError(f"{path} does not end with fairseq-generate's BLEU")
    return Translations(texts, float(match[1]))


def translation_table(
    found: Mapping[str, Mapping[int, Translations]], references: list[str], baseline: str | None
) -> tuple[list[Row], list[str]]:
    """A row for each architecture, and the signatures of the scores.

    Args:
        found: translations of a test set, by architecture and seed.
        baseline: the architecture that the others are compared with, seed by seed.
    """
    metrics = {"BLEU": BLEU(lowercase=True), "chrF2": CHRF(lowercase=True)}
    rows = []
    for arch, seeds in found.items():
        scores = {
            name: [metric.corpus_score(run.texts, [references]).score for run in seeds.values()]
            for name, metric in metrics.items()
        }
        row = {"`--arch`": f"`{arch}`", "seeds": str(len(seeds))}
        row |= {name: over_seeds(values) for name, values in scores.items()}
        row["fairseq's BLEU"] = over_seeds([run.fairseq_bleu for run in seeds.values()])
        if baseline in found:
            pairs = [
                (run.texts, found[baseline][seed].texts)
                for seed, run in seeds.items()
                if arch != baseline and seed in found[baseline]
            ]
            row[f"p against `{baseline}`, seed by seed"] = ", ".join(
                f"{p_value(*pair, references):.3f}" for pair in pairs
            )
        rows.append(row)
    return rows, [metric.get_signature().format() for metric in metrics.values()]


def p_value(texts: list[str], baseline: list[str], references: list[str]) -> float:
    """Of the difference in BLEU, by sacrebleu's paired bootstrap with its 1,000 samples."""
    if texts == baseline:
        return 1.0  # sacrebleu has this for the smallest p instead
    test = PairedTest(
        [("baseline", baseline), ("system", texts)],
        {"BLEU": BLEU(lowercase=True)},
        [references],
        test_type="bs",
    )
    _, scores = test()
    return scores["BLEU"][1].p_value


def curves(trainings: Mapping[str, Mapping[int, Training]]) -> Figure:
    """The validation loss against updates and against seconds: mean and range of the seeds."""
    figure = Figure(figsize=(10, 5), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    styles = [(f"C{color}", line) for line in ("-", "--", ":") for color in range(10)]
    for (arch, found), (color, line) in zip(trainings.items(), styles):
        common = set.intersection(*(set(run.updates) for run in found.values()))
        chosen = [np.isin(run.updates, list(common)) for run in found.values()]
        updates, losses, seconds = (
            np.stack([getattr(run, name)[at] for run, at in zip(found.values(), chosen)])
            for name in ("updates", "losses", "seconds")
        )
        for axes, x in zip(panels, (updates, seconds)):
            axes.plot(x.mean(0), losses.mean(0), line, color=color, label=f"{arch} ({len(x)})")
            axes.fill_between(
                *(x.mean(0), losses.min(0), losses.max(0)), color=color, alpha=0.2, linewidth=0
            )
    panels[0].set(xlabel="updates", ylabel="validation loss")
    panels[1].set(xlabel="seconds of training")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize="small")
    return figure


def markdown(rows: list[Row]) -> str:
    return markdown_table([list(rows[0]), *(list(row.values()) for row in rows)])


def report(runs: Runs, data: Path, baseline: str | None) -> Iterator[str]:
    """Title and table of each test set.

    Args:
        data: what ``prepare-multi30k.sh`` has left; has the references of translations.
    """
    if accuracies := each(runs, "test.tsv", accuracy):
        yield "Test set\n\n" + markdown(classification_table(accuracies))
    for (split, name), (checkpoint, title) in product(TEST_SETS.items(), CHECKPOINTS.items()):
        file = f"{checkpoint}.{split}.out"
        if not each(runs, file, Path):
            continue
        references = list(read_lines(data / "raw" / f"{name}.{TARGET}"))
        found = each(runs, file, partial(read_translations, count=len(references)))
        rows, signatures = translation_table(found, references, baseline)
        text = f"{name}, {title}\n\n{markdown(rows)}\n"
        yield text + "".join(f"`{signature}`\n" for signature in signatures)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", metavar="RUNS", type=Path)
    parser.add_argument("--prefix", default="", help="of the runs' names, such as small- (none)")
    parser.add_argument(
        "--baseline", metavar="ARCH", help="what the paired bootstrap compares with"
    )
    parser.add_argument(
        "--data", metavar="DIR", type=Path, help="output of prepare-multi30k.sh (default: RUNS)"
    )
    parser.add_argument(
        "--trainings",
        metavar="CSV",
        type=Path,
        help="learning curves of earlier runs; those of RUNS are added (one file a PREFIX)",
    )
    parser.add_argument("--curves", metavar="PNG", type=Path, help="where to draw learning curves")
    args = parser.parse_args()
    try:
        runs = find_runs(args.runs, args.prefix)
        if args.baseline and args.baseline not in runs:
            raise ValueError(f"--baseline {args.baseline}: choose from {', '.join(runs)}")
        for text in report(runs, args.data or args.runs, args.baseline):
            print(text)
        trainings = each(runs, "train.log", read_training)
        if not trainings:
            raise ValueError(f"the runs of {args.runs} have no train.log")
        if args.trainings:
            earlier = read_trainings(args.trainings) if args.trainings.exists() else {}
            trainings = {
                arch: {**earlier.get(arch, {}), **trainings.get(arch, {})}
                for arch in sorted({*earlier, *trainings})
            }
            check_sizes(trainings)
            write_trainings(args.trainings, trainings)
        print("Training\n\n" + markdown(training_table(trainings)), end="")
        if args.curves:
            with replacing(args.curves) as path:
                curves(trainings).savefig(path, format="png", dpi=100)
    except (ValueError, OSError) as error:
        parser.exit(1, f"{parser.prog}: error: {error}\n")


if __name__ == "__main__":
    main()
