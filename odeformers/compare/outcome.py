"""Outcomes: the rows of a run, made from its log and its outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.registry import Kind, family_of

from .results.curves import read_log, write_curve, write_likelihoods, write_predictions
from .results.rows import BEST_CHECKPOINT, Row
from .results.scores import read_texts, score_classes, score_language_model, score_translations
from .trial import Trial
from .variant import Variant

TRAINED, TRAIN_LOG, CURVE = "trained", "train.log", "curve.csv"
SCORE = ".score"  # suffix of the file with the output of a recipe's own command
BEST, AVERAGED = "checkpoint_best", "averaged"  # names of checkpoints
# Columns of a row that are fields of the run's variant and trial.
OF_VARIANT = ("baseline", "task", "data", "architecture", "tuned", "budget")
OF_TRIAL = ("environment", "size", "parameters", "validation_texts")
CHECKPOINTS = {BEST: BEST_CHECKPOINT, AVERAGED: "average of the last {} checkpoints"}


def make_rows(
    trial: Trial,
    folder: Path,
    state: str = "",
    flaws: Mapping[str, Mapping[str, Any]] | None = None,
    **columns: Any,
) -> list[Row]:
    """Make the rows of a run, and write its learning curve and its predictions to its folder.

    Args:
        flaws: additional columns of the scores on each split.
        columns: columns of all rows that are not fields of a trial, such as the seed.
        state: what the run lacks. If it lacks something, outputs that cannot be scored get no
            rows.

    Raises:
        InputError: an output cannot be scored, or the log cannot be read.
    """
    variant = trial.variant
    metric = variant.options.get("best-checkpoint-metric", "loss")
    maximize = bool(variant.options.get("maximize-best-checkpoint-metric"))
    with naming_faults(folder / TRAIN_LOG):
        curve, trained = read_log(folder / TRAIN_LOG, metric, maximize, variant.valid_subset)
    row = Row(
        **{name: getattr(variant, name) for name in OF_VARIANT},
        **{name: getattr(trial, name) for name in OF_TRIAL},
        **columns,
        run=folder.name,
        state=state,
        family=family_of(variant.options.get("arch", variant.architecture)),
        options=json.dumps(variant.options),
        defaults=json.dumps(trial.defaults),
        evaluation=json.dumps(variant.evaluate),
        epoch_updates=trial.epoch_updates or None,
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
        row: the training's row, with the checkpoint and the split filled in.
        texts: file of the references or texts of the split.
    """
    given = read_texts(Path(texts)) if texts and Path(texts).is_file() else None
    if variant.kind is Kind.TRANSLATION:
        language = variant.options["target-lang"]
        scores = score_translations(outputs, language, given, variant.bleu_tokenize)
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
