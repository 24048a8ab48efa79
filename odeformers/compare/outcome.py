"""Outcomes: the rows of a run, made from its log and its outputs.

fairseq's programs print translations and perplexities, and ``odeformers predict`` prints a table of
classes.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from fairseq_odeformers.data.classification import macro_f1
from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.registry import Kind, family_of
from fairseq_odeformers.text.detokenize import RESTORED, choose_references, make_detokenizer

from .estimate import Estimate
from .results.curves import (
    Likelihoods,
    Predictions,
    read_log,
    write_curve,
    write_likelihoods,
    write_predictions,
)
from .results.rows import BEST_CHECKPOINT, CLASSES, Row
from .variant import BEST_BY, MAXIMIZED, Variant

TRAINED, TRAIN_LOG, CURVE = "trained", "train.log", "curve.csv"
SCORE = ".score"  # suffix of the file with the output of a recipe's own command
BEST, AVERAGED = "checkpoint_best", "averaged"  # names of checkpoints
# Columns of a row that are fields of the run's variant or estimate.
OF_VARIANT = ("baseline", "task", "data", "architecture", "tuned", "budget")
OF_ESTIMATE = ("environment", "size", "parameters", "validation_texts")
CHECKPOINTS = {BEST: BEST_CHECKPOINT, AVERAGED: "average of the last {} checkpoints"}


def make_rows(
    estimate: Estimate,
    folder: Path,
    state: str = "",
    flaws: Mapping[str, Mapping[str, Any]] | None = None,
    **columns: Any,
) -> list[Row]:
    """Make the rows of a run, and write its learning curve and its predictions to its folder.

    Args:
        flaws: additional columns of the scores on each split.
        columns: columns of all rows that the estimate does not determine, such as the seed.
        state: what the run lacks. If it lacks something, outputs that cannot be scored get no
            rows.

    Raises:
        InputError: an output cannot be scored, or the log cannot be read.
    """
    variant = estimate.variant
    metric = variant.options.get(BEST_BY, "loss")
    maximize = bool(variant.options.get(MAXIMIZED))
    with naming_faults(folder / TRAIN_LOG):
        curve, trained = read_log(folder / TRAIN_LOG, metric, maximize, variant.valid_subset)
    row = Row(
        **{name: getattr(variant, name) for name in OF_VARIANT},
        **{name: getattr(estimate, name) for name in OF_ESTIMATE},
        **columns,
        run=folder.name,
        state=state,
        family=family_of(variant.options.get("arch", variant.architecture)),
        options=json.dumps(variant.options),
        defaults=json.dumps(estimate.defaults),
        evaluation=json.dumps(variant.evaluate),
        epoch_updates=estimate.epoch_updates or None,
        **trained,
    )
    if trained:
        write_curve(folder / CURVE, curve)
        row = replace(row, curve=f"{folder.name}/{CURVE}")
    rows = [row]
    faulty = (OSError, ValueError) if state else ()
    for split, checkpoint in product(variant.test_sets, CHECKPOINTS):
        outputs = folder / f"{checkpoint}.{split}.{variant.output_suffix}"
        if outputs.exists():
            name = CHECKPOINTS[checkpoint].format(variant.average)
            place = replace(row, split=split, checkpoint=name, **(flaws or {}).get(split, {}))
            with suppress(*faulty), naming_faults(outputs):
                rows += score_rows(variant, place, outputs, variant.test_sets[split])
    return rows


def score_rows(variant: Variant, row: Row, outputs: Path, texts: str | None) -> list[Row]:
    """Make a row for each score of a checkpoint on a split.

    Args:
        row: the row about training, with the checkpoint and the split filled in.
        texts: file of the references or texts of the split.
    """
    given = read_texts(Path(texts)) if texts and Path(texts).is_file() else None
    if variant.kind is Kind.TRANSLATION:
        language, source = variant.options["target-lang"], variant.options.get("source-lang")
        scores = score_translations(outputs, language, given, variant.bleu_tokenize, source)
    elif variant.kind is Kind.CLASSIFICATION:
        scores = score_classes(outputs, given)
    else:
        scores = score_language_model(outputs)
    figures = {"paper": variant.paper, "cited": variant.cited}
    row = replace(row, **{name: json.dumps(found) for name, found in figures.items() if found})
    if scores.predictions:
        path = outputs.with_suffix(".csv")
        write_predictions(path, scores.predictions)
        place = {"predictions": f"{row.run}/{path.name}"}
        row = replace(row, texts=len(scores.predictions.output), **place)
    if scores.likelihoods:
        path = outputs.with_suffix(".csv")
        write_likelihoods(path, scores.likelihoods)
        row = replace(row, predictions=f"{row.run}/{path.name}")
    rows = [
        replace(row, metric=metric, score=value, signature=scores.signatures.get(metric, ""))
        for metric, value in scores.values.items()
    ]
    printed = outputs.with_suffix(SCORE)
    for line in read_lines(printed) if printed.exists() else ():
        rows.append(replace(row, metric=variant.score.get(row.split, ""), printed=line))
    return rows


# --- scores ------------------------------------------------------------------------------------

# sacrebleu's tokenizers, and the modules that they need.
MORPHEMES = {"ja": ("ja-mecab", "MeCab"), "ko": ("ko-mecab", "mecab_ko")}
UNSPACED = ("bo", "dz", "km", "lo", "my", "th", "yue")
LINE = re.compile(r"([STH])-(\d+)\t(?:.*\t)?(.*)")  # the text follows the probability
REMEDY = "delete it; odeformers compare will recreate it"


@dataclass(frozen=True)
class Scores:
    """The scores of a checkpoint on a split, beginning with the main score."""

    values: dict[str, float]
    predictions: Predictions | None = None
    signatures: Mapping[str, str] = field(default_factory=dict)  # how scores were computed
    likelihoods: Likelihoods | None = None  # only for language models


def bleu_tokenizer(language: str) -> str:
    """Choose sacrebleu's tokenizer of a language; 13a needs spaces, which some languages lack.

    Japanese and Korean are divided into words if sacrebleu's extra for them is installed.
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
    source_language: str | None = None,
) -> Scores:
    """Compute BLEU and chrF of translations that fairseq-generate has printed.

    Args:
        language: language of the translations, which are detokenised.
        references: the published test set (default: the detokenised test set of the data); see
            :func:`.choose_references`.
        tokenize: sacrebleu's tokenizer for BLEU (default: chosen by :func:`bleu_tokenizer`).
        source_language: language of the sources, to detokenise them too (default: keep tokens).
    """
    printed: dict[str, dict[int, str]] = {"S": {}, "T": {}, "H": {}}
    for line in read_lines(path):
        if match := LINE.fullmatch(line):
            printed[match[1]].setdefault(int(match[2]), match[3])  # the best one comes first
    order = sorted(printed["H"])
    if not order or (printed["T"] and sorted(printed["T"]) != order):
        raise InputError(f"{path} has no translations, or not of all sentences; {REMEDY}")
    detokenize = make_detokenizer(language)
    sources, tokens = ([printed[kind].get(n, "") for n in order] for kind in "ST")
    if source_language:
        sources = [*map(make_detokenizer(source_language), sources)]
    texts = [detokenize(printed["H"][n]) for n in order]
    of_data = [*map(detokenize, tokens)]
    references = list(references or of_data)
    if len(references) != len(texts):
        raise InputError(
            f"{path} has {len(texts):,} translations, but there are {len(references):,} references"
        )
    references, restored = choose_references(tokens, references, detokenize)
    lowercase = not any(text != text.lower() for text in of_data)
    bleu = BLEU(lowercase=lowercase, tokenize=tokenize or bleu_tokenizer(language))
    metrics = {"BLEU": bleu, "chrF": CHRF(lowercase=lowercase)}
    values = {name: each.corpus_score(texts, [references]).score for name, each in metrics.items()}
    share = f"|{RESTORED}:{restored / len(texts):.1%}" if restored else ""
    signatures = {name: f"{each.get_signature().format()}{share}" for name, each in metrics.items()}
    return Scores(values, Predictions(sources, references, texts, []), signatures)


def score_classes(path: Path, texts: Sequence[str] | None = None) -> Scores:
    """Compute accuracy and :func:`.macro_f1`, in percent, of a table of ``predict``.

    Args:
        texts: all texts that were classified.
    """
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    for number, row in enumerate(rows, start=2):
        classes = row.get("target"), row.get("prediction")
        if None in row or not all(row.get(f"p({name})") for name in classes):
            raise InputError(
                f"{path}, line {number} is not the prediction of a labelled text; {REMEDY}"
            )
    if not rows:
        raise InputError(f"{path} has no predictions; {REMEDY}")
    targets, outputs = ([row[name] for row in rows] for name in ("target", "prediction"))
    shares = [float(row[f"p({row['target']})"]) for row in rows]
    sources = list(texts or (f"example {row['id']}" for row in rows))
    if len(sources) != len(rows):
        raise InputError(
            f"{path} has {len(rows):,} predictions, but there are {len(sources):,} texts; {REMEDY}"
        )
    classes = [name[2:-1] for name in rows[0] if name.startswith("p(")]
    predictions = Predictions(sources, targets, outputs, shares)
    values = {
        "accuracy": 100 * float((np.array(outputs) == np.array(targets)).mean()),
        "macro-F1": macro_f1(targets, outputs, classes),
    }
    return Scores(values, predictions, {"macro-F1": f"{CLASSES}:{len(classes)}"})


def score_language_model(path: Path) -> Scores:
    """Read the perplexity that fairseq-eval-lm has logged."""
    text = path.read_text(encoding="utf-8")
    match = re.search(r"Perplexity: ([\d.]+)", text)
    if match is None or "Evaluated 0 tokens" in text:
        raise InputError(f"{path} has no perplexity; {REMEDY}")
    values = {Kind.LANGUAGE_MODEL.score: float(match[1])}
    return Scores(values, likelihoods=parse_likelihoods(text))


# A text in fairseq-eval-lm's log, in fairseq's own format or Python's, and one of its words.
SAMPLE = re.compile(r".*?fairseq_cli\.eval_lm(?: \| |:)(\d+) (.*)")
WORD = re.compile(r".* \[(-?[\d.]+|-?inf|nan)\]")


def parse_likelihoods(log: str) -> Likelihoods | None:
    """Parse the likelihoods that ``fairseq-eval-lm --output-word-probs`` has logged, if any.

    A line such as ``... | fairseq_cli.eval_lm | 12 the [-2.31] <tab> cat [-7.02]`` contains the
    number of a text and its words with their log-likelihoods. The sums leave out infinite values,
    as fairseq's perplexity does.
    """
    texts: dict[int, list[float]] = {}
    for line in log.split("\n"):
        if match := SAMPLE.fullmatch(line):
            words = [WORD.fullmatch(word) for word in match[2].split("\t")]
            values = [float(word[1]) for word in words if word]
            if len(values) == len(words):
                texts[int(match[1])] = [value for value in values if math.isfinite(value)]
    if not texts:
        return None
    in_order = [texts[number] for number in sorted(texts)]
    return Likelihoods(np.array([*map(len, in_order)]), np.array([-sum(v) for v in in_order]))


# --- texts of the data -------------------------------------------------------------------------


def read_texts(path: Path) -> list[str]:
    """Read the texts of a file, one per line or binarised."""
    if path.suffix != ".idx":
        return list(read_lines(path))
    with naming_faults(path):
        dictionary = Dictionary.load(str(path.with_name("dict.txt")))
        dataset = MMapIndexedDataset(str(path.with_suffix("")))
        # Word pieces that continue a word begin with ##.
        return [dictionary.string(tokens.tolist()).replace(" ##", "") for tokens in dataset]
