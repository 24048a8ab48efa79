"""Scores: what the log and the outputs of a run come to.

fairseq's programs print translations and perplexities, ``odeformers predict`` a table of classes.
All become :class:`Scores` here, and the log of a training a :class:`Log`.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_odeformers.data.classification import macro_f1
from fairseq_odeformers.data.detokenize import RESTORED, choose_references, make_detokenizer
from fairseq_odeformers.files import naming_faults, read_lines
from fairseq_odeformers.lab.commands import log_stats
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.models.common.papers import family_of

from .results import CPU, Curve, Options, Predictions, Row, write_curve, write_predictions

# --- logs of fairseq-train with --log-format json ------------------------------------------------

TAIL = 20_000  # bytes at the end of a log that tell its progress


@dataclass(frozen=True)
class Log:
    """What the log of a training tells; where an interrupted one repeats an epoch, the last counts.

    Attributes:
        seconds: of updates, without validating and saving.
        cpu_seconds: the same on the CPU; None if the log does not have it.
        tokens_per_second: the median over the lines of the log, or over the epochs.
        metric: whether each validation has the metric that chooses; the loss takes its place.
    """

    parameters: int = 0
    curve: Curve = field(default_factory=Curve)
    seconds: float = 0.0
    cpu_seconds: float | None = None
    tokens_per_second: float = 0.0
    metric: bool = True


def read_log(path: Path, metric: str = "loss", maximize: bool = False) -> Log:
    """The training that a log is of, which may still grow, or not be there yet.

    Args:
        metric: of a validation, which chooses the best checkpoint.
    """
    parameters, valid, ends, speeds = 0, {}, {}, []
    for line in read_lines(path) if path.exists() else ():
        if match := re.search(r"num\. shared model params: .*num\. trained: ([\d,]+)", line):
            parameters = int(match[1].replace(",", ""))
        if stats := log_stats(line, "valid"):
            valid[int(stats["valid_num_updates"])] = stats
        if stats := log_stats(line, "train"):
            ends[int(stats["train_num_updates"])] = stats
        if (stats := log_stats(line, "train_inner")) and "wps" in stats:
            speeds.append(float(stats["wps"]))
    # A short training has no lines within its epochs.
    speeds = speeds or [float(end["train_wps"]) for end in ends.values() if "train_wps" in end]
    speed = float(np.median(speeds)) if speeds else 0.0
    if not ends or not valid:
        return Log(parameters, tokens_per_second=speed)
    updates, epochs = sorted(valid), sorted(ends)

    def of_valid(name: str) -> list[float]:
        return [float(valid[update][name]) for update in updates if name in valid[update]]

    def of_train(name: str) -> list[float]:
        return [float(ends[end][name]) for end in epochs if name in ends[end]]

    walls, cpu = of_train("train_train_wall"), of_train(f"train_{CPU}")
    seconds = np.interp(updates, [0, *epochs], [0, *np.cumsum(walls)]).tolist()
    train_loss = of_train("train_loss")
    if len(epochs) > 1 and epochs[-1] - epochs[-2] < epochs[0]:  # of the few batches until its end
        train_loss[-1] = train_loss[-2]
    train_losses = np.interp(updates, epochs, train_loss).tolist()
    losses, metrics = of_valid("valid_loss"), of_valid(f"valid_{metric}")
    logged = len(metrics) == len(losses)
    chosen, maximize = (metrics, maximize) if logged else (losses, False)
    best = choose_best(chosen, maximize)
    curve = Curve(updates, seconds, losses, chosen, train_losses, best)
    return Log(
        *(parameters, curve, seconds[-1], sum(cpu) if len(cpu) == len(epochs) else None),
        *(speed, logged),
    )


def choose_best(values: Sequence[float], maximize: bool) -> int:
    """The number of the best of several values; what is not finite is not."""
    worst = -math.inf if maximize else math.inf
    finite = [value if math.isfinite(value) else worst for value in values]
    return finite.index((max if maximize else min)(finite))


def read_progress(path: Path) -> dict[str, Any]:
    """The newest epoch, updates, validation loss and updates per second at the end of a log."""
    progress: dict[str, Any] = {"updates": 0}
    if not path.exists():
        return progress
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    for line in lines:
        for kind, prefix in (("train_inner", ""), ("valid", "valid_")):
            if stats := log_stats(line, kind):
                progress["updates"] = int(stats[f"{prefix}num_updates"])
                progress["epoch"] = str(stats["epoch"])
                names = {"loss": "valid_loss", "ups": "ups"}
                progress |= {key: stats[name] for key, name in names.items() if name in stats}
    return progress


# --- outputs -----------------------------------------------------------------------------------

# sacrebleu's tokenizers, and the modules that they need.
MORPHEMES = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}
UNSPACED = ("bo", "dz", "km", "lo", "my", "th", "yue")
LINE = re.compile(r"([STHDP])-(\d+)\t(.*)")


@dataclass(frozen=True)
class Scores:
    """The scores of a checkpoint on a split, the one that counts first."""

    values: dict[str, float]
    predictions: Predictions | None = None
    signatures: Mapping[str, str] = field(default_factory=dict)  # how scores were computed
    unknown: float | None = None  # the share of unknown words


def bleu_tokenizer(language: str) -> str:
    """sacrebleu's tokenizer of a language: 13a divides text at spaces, which some do not have.

    Japanese and Korean are divided into words where sacrebleu's extra for them is installed.
    """
    language = re.split(r"[^a-z]", language.lower())[0]
    if language == "zh":
        return "zh"
    tokenizer, module = MORPHEMES.get(language, ("", ""))
    if tokenizer and find_spec(module):
        return tokenizer
    return "char" if tokenizer or language in UNSPACED else "13a"


def score_translations(
    path: Path,
    language: str,
    references: Sequence[str] | None = None,
    tokenize: str | None = None,
) -> Scores:
    """BLEU and chrF of translations that fairseq-generate has printed.

    Args:
        language: of the translations, which are detokenised.
        references: the test set as published; by default, as the data have it, detokenised. See
            :func:`.choose_references`.
        tokenize: sacrebleu's tokenizer for BLEU; by default that of :func:`bleu_tokenizer`.
    """
    printed: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}}
    for line in read_lines(path):
        if (match := LINE.fullmatch(line)) and match[1] in printed:
            text = match[3].split("\t", 1)[1] if match[1] == "H" else match[3]
            printed[match[1]][int(match[2])] = text
    if not printed["H"] or (printed["T"] and printed["T"].keys() != printed["H"].keys()):
        raise ValueError(
            f"{path} has no translations, or not of all sentences; remove it, and compare makes it "
            "anew"
        )
    detokenize = make_detokenizer(language)
    order = sorted(printed["H"])
    sources = [printed["S"].get(index, "") for index in order]
    texts = [detokenize(printed["H"][index]) for index in order]
    tokens = [printed["T"].get(index, "") for index in order]
    of_data = [*map(detokenize, tokens)]
    references = list(references or of_data)
    if len(references) != len(texts):
        raise ValueError(
            f"{path} has {len(texts):,} translations, but there are {len(references):,} references"
        )
    references, restored = choose_references(tokens, references, detokenize)
    lowercase = not any(text != text.lower() for text in of_data)
    bleu = BLEU(lowercase=lowercase, tokenize=tokenize or bleu_tokenizer(language))
    metrics = {"BLEU": bleu, "chrF": CHRF(lowercase=lowercase)}
    values = {name: each.corpus_score(texts, [references]).score for name, each in metrics.items()}
    signatures = {name: metric.get_signature().format() for name, metric in metrics.items()}
    if restored:
        share = f"|{RESTORED}:{restored / len(texts):.1%}"
        signatures = {name: signature + share for name, signature in signatures.items()}
    return Scores(values, Predictions(sources, references, texts, []), signatures)


def score_classes(path: Path, texts: Sequence[str] | None = None) -> Scores:
    """Accuracy and the mean over the classes of F1, in percent, of a table of ``predict``.

    Args:
        texts: what was classified.
    """
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows, start=2):
        classes = row.get("target"), row.get("prediction")
        if None in row or not all(row.get(f"p({name})") for name in classes):
            raise ValueError(
                f"{path}, line {number} is not the prediction of a labelled text; remove the file, "
                "and compare makes it anew"
            )
    if not rows:
        raise ValueError(f"{path} has no predictions; remove it, and compare makes it anew")
    targets, outputs = ([row[name] for row in rows] for name in ("target", "prediction"))
    shares = [float(row[f"p({row['target']})"]) for row in rows]
    texts = list(texts or (f"example {row['id']}" for row in rows))
    predictions = Predictions(texts, targets, outputs, shares)
    return Scores(score_outputs(targets, outputs), predictions)


def score_outputs(targets: Sequence[str], outputs: Sequence[str]) -> dict[str, float]:
    """Accuracy and macro-F1 of classes."""
    right, given = np.array(targets), np.array(outputs)
    return {
        "accuracy": 100 * float((given == right).mean()),
        "macro-F1": macro_f1(right, given),
    }


def score_language_model(path: Path) -> Scores:
    """The perplexity that fairseq-eval-lm has logged."""
    text = path.read_text(encoding="utf-8")
    match = re.search(r"Perplexity: ([\d.]+)", text)
    if match is None or "Evaluated 0 tokens" in text:
        raise ValueError(f"{path} has no perplexity; remove it, and compare makes it anew")
    return Scores({Kind.LANGUAGE_MODEL.score: float(match[1])})


# --- texts of the data -------------------------------------------------------------------------


def read_texts(path: Path) -> list[str]:
    """The texts of a file, one per line or binarised."""
    if path.suffix != ".idx":
        return list(read_lines(path))
    with naming_faults(path):
        dictionary, dataset = open_binarised(path)
        # Word pieces that continue a word begin with ##.
        return [dictionary.string(tokens).replace(" ##", "") for tokens in dataset]


def open_binarised(path: Path) -> tuple[Dictionary, Iterable[Any]]:
    """The dictionary and the examples of a binarised file, named by its index."""
    dictionary = Dictionary.load(str(path.with_name("dict.txt")))
    return dictionary, MMapIndexedDataset(str(path.with_suffix("")))


def count_unknown(path: Path) -> float:
    """The share of unknown words in a binarised file of text, named by its index."""
    with naming_faults(path):
        dictionary, dataset = open_binarised(path)
        counts = np.array([unknown_words(tokens, dictionary.unk()) for tokens in dataset])
        return float(counts[:, 0].sum() / max(1, counts[:, 1].sum()))


def unknown_words(tokens: Any, unknown: int) -> tuple[int, int]:
    return int((tokens == unknown).sum()), len(tokens)


# --- rows --------------------------------------------------------------------------------------

TRAINED, TRAIN_LOG, CURVE = "trained", "train.log", "curve.csv"
SCORE = ".score"  # the suffix of what a recipe's own command prints
BEST, AVERAGED = "checkpoint_best", "averaged"  # names of checkpoints


@dataclass(frozen=True)
class Facts:
    """What is known of a run before it begins."""

    architecture: str  # its name in tables
    seed: int
    task: str
    data: str
    options: Options  # of fairseq-train, without the seed and the folder
    data_digest: str = ""  # of its files
    code: str = ""  # a digest of the plugin's files
    tried: Options = field(default_factory=dict)  # the values of tuned options
    evaluate: Options = field(default_factory=dict)  # options of the evaluation
    average: int = 0
    # The splits to evaluate on, each with the file of its references or texts, if there is one.
    test_sets: dict[str, str | None] = field(default_factory=dict)
    score: dict[str, str] = field(default_factory=dict)  # a recipe's own commands, by split
    bleu_tokenize: str | None = None
    paper: dict[str, float] = field(default_factory=dict)
    parameters: int = 0
    budget: float | None = None
    updates: int = 0
    epoch_updates: int = 0
    size: str = ""
    defaults: Options = field(default_factory=dict)  # other options of the model
    baseline: str = ""
    environment: str = ""
    command: str = ""
    begun: str = ""
    validation_texts: int | None = None

    @property
    def kind(self) -> Kind:
        """The kind of models that the task trains."""
        return Kind.of_task(self.task) or Kind.TRANSLATION

    @property
    def tuned(self) -> str:
        """The values of tuned options in a text."""
        return " ".join(f"{name} {value}" for name, value in self.tried.items())

    @property
    def output_suffix(self) -> str:
        """Of the file of predictions: a table of classes, or what fairseq prints."""
        return "tsv" if self.kind is Kind.CLASSIFICATION else "out"


def make_rows(facts: Facts, folder: Path, state: str = "") -> list[Row]:
    """The rows of a run, with its learning curve and its predictions as files in its folder.

    Args:
        state: what the run lacks.
    """
    metric = facts.options.get("best-checkpoint-metric", "loss")
    maximized = bool(facts.options.get("maximize-best-checkpoint-metric"))
    log_path = folder / TRAIN_LOG
    with naming_faults(log_path):
        log = read_log(log_path, metric, maximized)
    validated = bool(log.curve.updates)
    row = Row(
        baseline=facts.baseline,
        task=facts.task,
        data=facts.data,
        environment=facts.environment,
        command=facts.command,
        run=folder.name,
        begun=facts.begun,
        state=state,
        family=family_of(facts.options.get("arch", facts.architecture)),
        architecture=facts.architecture,
        tuned=facts.tuned,
        seed=facts.seed,
        options=json.dumps(facts.options),
        defaults=json.dumps(facts.defaults),
        size=facts.size,
        evaluation=json.dumps(facts.evaluate),
        parameters=facts.parameters,
        budget=facts.budget,
        updates=log.curve.updates[-1] if validated else None,
        epoch_updates=facts.epoch_updates or None,
        seconds=log.seconds,
        cpu_seconds=log.cpu_seconds,
        tokens_per_second=log.tokens_per_second,
        validated=metric if log.metric else "loss",
        maximized=maximized and log.metric,
        validation=log.curve.metric[log.curve.best] if validated else None,
        validation_texts=facts.validation_texts,
    )
    if validated:
        write_curve(folder / CURVE, log.curve)
        row = replace(row, curve=f"{folder.name}/{CURVE}")
    rows = [row]
    for split, texts in facts.test_sets.items():
        for checkpoint in (BEST, AVERAGED):
            rows += score_rows(facts, row, folder / f"{checkpoint}.{split}", texts)
    return rows


CHECKPOINTS = {BEST: "best checkpoint", AVERAGED: "average of the last {} checkpoints"}


def score_rows(facts: Facts, row: Row, stem: Path, texts: str | None) -> Iterator[Row]:
    """The rows of a checkpoint on a split, for each of its scores.

    Args:
        row: of the training.
        stem: the path of the outputs, without its suffix.
        texts: the file of the references or texts of the split.
    """
    outputs = stem.with_name(f"{stem.name}.{facts.output_suffix}")
    if not outputs.exists():
        return
    checkpoint, _, split = stem.name.partition(".")
    row = replace(row, split=split, checkpoint=CHECKPOINTS[checkpoint].format(facts.average))
    with naming_faults(outputs):
        scores = score(facts, outputs, texts)
    if scores.predictions:
        path = stem.with_name(f"{stem.name}.csv")
        write_predictions(path, scores.predictions)
        row = replace(row, predictions=f"{path.parent.name}/{path.name}")
        row = replace(row, texts=len(scores.predictions.output))
    row = replace(row, paper=json.dumps(facts.paper) if facts.paper else "")
    for metric, value in scores.values.items():
        signature = scores.signatures.get(metric, "")
        yield replace(row, metric=metric, score=value, signature=signature, unknown=scores.unknown)
    printed = outputs.with_suffix(SCORE)
    for line in read_lines(printed) if printed.exists() else ():
        yield replace(row, metric=facts.score.get(split, ""), printed=line)


def score(facts: Facts, outputs: Path, texts: str | None) -> Scores:
    """The scores of a file of outputs, by the kind of the models."""
    given = read_texts(Path(texts)) if texts and Path(texts).is_file() else None
    if facts.kind is Kind.TRANSLATION:
        language = facts.options["target-lang"]
        return score_translations(outputs, language, given, facts.bleu_tokenize)
    if facts.kind is Kind.CLASSIFICATION:
        return score_classes(outputs, given)
    scores = score_language_model(outputs)
    split = outputs.name.split(".", 1)[1].removesuffix(".out")
    index = Path(facts.data, f"{split}.idx")
    return replace(scores, unknown=count_unknown(index)) if index.is_file() else scores
