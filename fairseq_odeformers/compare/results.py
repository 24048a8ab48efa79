"""Results: what finished and running trainings have left, read from their folders.

Each kind of task has one class of results with the same methods: ``scores``, the figures of a run,
``p_value``, the paired bootstrap against another run, and ``examples``, texts to look at.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest
from sacremoses import MosesDetokenizer

from fairseq_odeformers.files import read_lines

from .commands import log_stats

SAMPLES = 1000  # of a bootstrap
LINE = re.compile(r"([STHDP])-(\d+)\t(.*)")


@dataclass
class Training:
    """What a log says of a training; of epochs that an interrupted one has repeated, the last.

    Attributes:
        parameters: of the model.
        updates, losses, metrics: of each validation; the metric chooses the best checkpoint.
        seconds: of training before each validation; validating and saving do not count.
        train_losses: of the epochs that end at these updates.
        tokens: a second, the median over the log's lines.
    """

    parameters: int = 0
    updates: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    metrics: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    train_losses: list[float] = field(default_factory=list)
    tokens: float = 0.0


def read_training(log: Path, metric: str = "loss") -> Training:
    """A training by its log, which may still grow."""
    training, valid, ends, speeds = Training(), {}, {}, []
    for line in read_lines(log):
        if match := re.search(r"num\. shared model params: ([\d,]+)", line):
            training.parameters = int(match[1].replace(",", ""))
        if stats := log_stats(line, "valid"):
            valid[int(stats["valid_num_updates"])] = stats
        if stats := log_stats(line, "train"):
            ends[int(stats["train_num_updates"])] = stats
        if (stats := log_stats(line, "train_inner")) and "wps" in stats:
            speeds.append(float(stats["wps"]))
    training.tokens = float(np.median(speeds)) if speeds else 0.0
    training.updates = sorted(valid)
    of_valid = [valid[update] for update in training.updates]
    training.losses = [float(stats["valid_loss"]) for stats in of_valid]
    name = f"valid_{metric}"
    training.metrics = [float(stats[name]) for stats in of_valid if name in stats]
    epochs = sorted(ends)
    elapsed = np.cumsum([float(ends[end]["train_train_wall"]) for end in epochs])
    if epochs:
        training.seconds = np.interp(training.updates, [0, *epochs], [0, *elapsed]).tolist()
        of_train = [float(ends[end]["train_loss"]) for end in epochs]
        training.train_losses = np.interp(training.updates, epochs, of_train).tolist()
    else:
        training.updates, training.losses, training.metrics = [], [], []
    return training


@dataclass
class Example:
    """A text of the test set, what is right, and what each model has made of it."""

    source: str
    reference: str
    outputs: dict[str, str]


class Translations:
    """Translations of a test set, printed by fairseq-generate.

    Args:
        path: of the output.
        language: of the translations, which are detokenised by the rules of Moses.
        references: the test set as published; by default, as the data have it, detokenised.
    """

    columns = ("BLEU", "chrF")
    digits = 2

    def __init__(self, path: Path, language: str, references: Sequence[str] | None = None):
        found: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}}
        for line in read_lines(path):
            if (match := LINE.fullmatch(line)) and match[1] in found:
                text = match[3].split("\t", 1)[1] if match[1] == "H" else match[3]
                found[match[1]][int(match[2])] = text
        if not found["H"] or (found["T"] and found["T"].keys() != found["H"].keys()):
            raise ValueError(
                f"{path} has no translations, or not of all sentences; remove it, and compare "
                "makes it anew"
            )
        detokenize = MosesDetokenizer(language).detokenize
        order = sorted(found["H"])
        self.sources = [found["S"].get(index, "") for index in order]
        self.texts = [detokenize(found["H"][index].split()) for index in order]
        of_data = [detokenize(found["T"].get(index, "").split()) for index in order]
        self.references = list(references or of_data)
        if len(self.references) != len(self.texts):
            raise ValueError(
                f"{path} has {len(self.texts):,} translations, and there are "
                f"{len(self.references):,} references"
            )
        lowercase = not any(text != text.lower() for text in of_data)
        self.metrics = {"BLEU": BLEU(lowercase=lowercase), "chrF": CHRF(lowercase=lowercase)}

    @cached_property
    def scores(self) -> dict[str, float]:
        """BLEU and chrF of the corpus."""
        return {
            name: metric.corpus_score(self.texts, [self.references]).score
            for name, metric in self.metrics.items()
        }

    @property
    def signatures(self) -> list[str]:
        """How sacrebleu has computed the scores."""
        self.scores  # noqa: B018  signatures are known after a score
        return [metric.get_signature().format() for metric in self.metrics.values()]

    def p_value(self, baseline: Translations) -> float:
        """Of the difference in BLEU, by sacrebleu's paired bootstrap."""
        if self.texts == baseline.texts:
            return 1.0
        test = PairedTest(
            [("baseline", baseline.texts), ("system", self.texts)],
            {"BLEU": self.metrics["BLEU"]},
            [self.references],
            test_type="bs",
            n_samples=SAMPLES,
        )
        # The first is the metric's name, the others are results.
        return test()[1]["BLEU"][1].p_value  # pyright: ignore

    def quality(self, index: int) -> float:
        """chrF of a sentence."""
        metric = self.metrics["chrF"]
        return metric.sentence_score(self.texts[index], [self.references[index]]).score

    def example(self, index: int) -> tuple[str, str, str]:
        """Source, reference and translation."""
        return self.sources[index], self.references[index], self.texts[index]

    def __len__(self) -> int:
        return len(self.texts)


class Classes:
    """Classes of a test set, a table of ``odeformers predict``.

    Raises:
        ValueError: a row is incomplete, without a class, or of one that is no column.
    """

    columns = ("accuracy", "macro-F1")
    digits = 1
    signatures: tuple[str, ...] = ()

    def __init__(self, path: Path, texts: Sequence[str] | None = None):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        for number, row in enumerate(rows, start=2):
            if not all(row.get(f"p({row.get(name)})") for name in ("target", "prediction")):
                raise ValueError(
                    f"{path}, line {number} is not the prediction of a labelled text; remove the "
                    "file, and compare makes it anew"
                )
        if not rows:
            raise ValueError(f"{path} has no predictions; remove it, and compare makes it anew")
        self.targets = np.array([row["target"] for row in rows])
        self.predictions = np.array([row["prediction"] for row in rows])
        self.shares = [float(row[f"p({row['target']})"]) for row in rows]
        self.texts = texts or [f"example {row['id']}" for row in rows]

    @cached_property
    def scores(self) -> dict[str, float]:
        """Accuracy, and the mean over the classes of F1, in percent."""
        hits = self.predictions == self.targets
        f1 = []
        for name in np.unique(self.targets):
            true = (hits & (self.targets == name)).sum()
            f1.append(2 * true / ((self.targets == name).sum() + (self.predictions == name).sum()))
        return {"accuracy": 100 * hits.mean(), "macro-F1": 100 * float(np.mean(f1))}

    def p_value(self, baseline: Classes) -> float:
        """Of the difference in accuracy, by a paired bootstrap over the examples."""
        change = (self.predictions == self.targets).astype(float)
        change -= baseline.predictions == baseline.targets
        draws = np.random.default_rng(12345).integers(len(change), size=(SAMPLES, len(change)))
        means = change[draws].mean(1) - change.mean()
        return float((1 + (abs(means) >= abs(change.mean())).sum()) / (1 + SAMPLES))

    def quality(self, index: int) -> float:
        """The probability of the right class."""
        return 100 * self.shares[index]

    def example(self, index: int) -> tuple[str, str, str]:
        """Text, class and prediction."""
        return self.texts[index], str(self.targets[index]), str(self.predictions[index])

    def __len__(self) -> int:
        return len(self.targets)


class Perplexity:
    """The output of fairseq-eval-lm.

    Raises:
        ValueError: it has no perplexity, or one of no token at all.
    """

    columns = ("perplexity",)
    digits = 2
    signatures: tuple[str, ...] = ()

    def __init__(self, path: Path):
        text = path.read_text(encoding="utf-8")
        match = re.search(r"Perplexity: ([\d.]+)", text)
        if match is None or "Evaluated 0 tokens" in text:
            raise ValueError(f"{path} has no perplexity; remove it, and compare makes it anew")
        self.scores = {"perplexity": float(match[1])}

    def p_value(self, baseline: Perplexity) -> None:
        """fairseq-eval-lm prints one number, which cannot be resampled."""

    def __len__(self) -> int:
        return 0


def examples(outputs: dict[str, Translations | Classes], count: int = 5) -> list[Example]:
    """The texts that models treat most differently: those whose qualities spread most."""
    first = next(iter(outputs.values()))
    qualities = np.array(
        [[output.quality(index) for index in range(len(first))] for output in outputs.values()]
    )
    if qualities.size == 0:
        return []
    order = np.argsort(np.ptp(qualities, axis=0))[::-1][:count]
    found = []
    for index in order:
        source, reference, _ = first.example(index)
        texts = {name: output.example(index)[2] for name, output in outputs.items()}
        found.append(Example(source, reference, texts))
    return found
