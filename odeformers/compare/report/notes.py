"""Notes: caveats that rule out a comparison, leave its order open, or qualify it.

Each function ``note_...`` yields the notes on one subject; :func:`.judge` calls all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np

from fairseq_odeformers.data.binarised import FEW_EXAMPLES
from fairseq_odeformers.registry import Kind, describe_limitations
from fairseq_odeformers.text.detokenize import RESTORED
from odeformers.prepare.common.checks import MIN_LEAKED_SHARE

from ..numbers import clock, count_decimals
from ..results.curves import Predictions
from ..results.intervals import LEVEL
from ..results.rows import Comparison, Row, Table
from ..results.statistics import (
    FEW_BLOCKS,
    MIN_BLOCK,
    Statistics,
    compare_with_constant,
    join_blocks,
    metric_of,
)

# Improvements at the end of training, as shares of the first loss.
SLIGHT_IMPROVEMENT, MARKED_IMPROVEMENT = 0.01, 0.03
UNEQUAL = 0.25  # times that differ by more than this share are not called equal
INCOMPARABLE = 0.5  # times that differ by more than this share rule out a comparison
LENGTHS = ("max-epoch", "max-update")  # options that set how long to train
MIN_VOCABULARY = 0.1  # share of the references' words; with fewer, a model repeats phrases
MIN_BLEU = 1  # below this BLEU, translations hardly share words with references
MIN_TIME = 30  # seconds; in shorter runs, the times of seeds differ by chance
UNKNOWN = 0.01  # the share of unknown words that calls for a note
RULES_OUT, LEAVES_OPEN, REMARK = "rules out", "leaves open", "remark"
# Reasons of verdicts.
EDGE_REASON, OTHER_REASON = "the best value is at the edge of the grid", "see the notes"
TEXTS_REASON = "other texts may not agree"
FEW_SEEDS = "there are too few seeds"
# Including the notes of earlier versions.
EDGES = (EDGE_REASON, "the best value is at the end of the grid", "at a grid's edge")


@dataclass(frozen=True)
class Note:
    """A caveat about a comparison.

    Attributes:
        kind: effect of the note: it rules out a comparison of the scores, leaves their order open,
            or is only a remark.
        subjects: architectures that the note concerns.
        sentence: text of the note in Markdown.
        reason: short form of the note for a verdict; notes of earlier versions have none.
    """

    kind: str
    subjects: tuple[str, ...]
    sentence: str
    reason: str = ""


# --- on training runs ------------------------------------------------------------------


def differ(values: Iterable[float], share: float = UNEQUAL) -> bool:
    """Return whether the largest value exceeds the smallest by more than a share."""
    values = list(values)
    return max(values, default=0) > (1 + share) * min(values, default=0)


def note_effort(comparison: Comparison) -> Iterator[Note]:
    """Note architectures that were trained for longer than others.

    With a budget, the times of runs must agree on average. Otherwise, the given lengths must agree,
    or the times.
    """
    times = {
        name: fmean(row.effort for row in runs)
        for name, runs in comparison.trained.items()
        if all(row.budget for row in runs)
    }
    least, most = min(times.values(), default=0), max(times.values(), default=0)
    if least and differ([least, most]):
        kind = RULES_OUT if differ([least, most], INCOMPARABLE) else REMARK
        sentence = (
            f"Unequal effort: runs with the same budget took {clock(least)} to {clock(most)} "
            f"({most / least - 1:.0%} more). Compare again with a longer `--budget`, or on a "
            "steadier machine."
        )
        yield Note(kind, tuple(times), sentence, "training times were unequal")
    given = {name: runs[0] for name, runs in comparison.trained.items() if not runs[0].budget}
    options = (json.loads(row.options or "{}") for row in given.values())
    lengths = {str([each.get(name) for name in LENGTHS]) for each in options}
    if len(lengths) > 1 and differ(row.effort for row in given.values()):
        updates = sorted(row.updates or 0 for row in given.values())
        sentence = (
            f"Unequal training: models were told to train for different lengths, {updates[0]:,} to "
            f"{updates[-1]:,} updates. Give all of them the same, or `--budget`."
        )
        yield Note(LEAVES_OPEN, tuple(given), sentence, "models were trained for unequal lengths")


def note_times(comparison: Comparison) -> Iterator[Note]:
    """Note times that other machines or processes have distorted."""
    trained = comparison.trained
    costs = {name: [row.cost for row in runs] for name, runs in trained.items()}
    unsteady = [name for name, of in costs.items() if differ(of) and max(of) >= MIN_TIME]
    if unsteady:
        sentence = f"Seeds took unequal time: {', '.join(unsteady)} (by more than {UNEQUAL:.0%}). "
        sentence += "Do not compare the cost of these models."
        yield Note(REMARK, tuple(unsteady), sentence)
    every = [row for runs in trained.values() for row in runs if row.cost]
    if busy := [row for row in every if (row.seconds or 0) > (1 + UNEQUAL) * row.cost]:
        most = max((row.seconds or 0) / row.cost for row in busy)
        sentence = "Other processes kept the machine busy: runs took up to "
        sentence += f"{most:.1f} times as much wall-clock time as CPU time. Costs are CPU times."
        yield Note(REMARK, tuple(dict.fromkeys(row.architecture for row in busy)), sentence)
    commands = {row.command for runs in trained.values() for row in runs}
    if len(commands) > 1:
        sentence = f"The models were trained by {len(commands)} commands. Conditions may have "
        yield Note(REMARK, tuple(trained), sentence + "differed, so compare costs with care.")


def note_improving(comparison: Comparison) -> Iterator[Note]:
    if names := find_improving(comparison, SLIGHT_IMPROVEMENT):
        sentence = f"Still improving at the end: {', '.join(names)}. Longer training may change "
        yield Note(LEAVES_OPEN, tuple(names), sentence + "the order.", "losses were still falling")


def find_improving(comparison: Comparison, share: float) -> list[str]:
    """Find architectures whose loss fell by more than a share in the last quarter of updates."""
    return [
        name
        for name, runs in comparison.trained.items()
        if any(row.learning and row.learning.late_gain > share for row in runs)
    ]


def note_untuned(comparison: Comparison) -> Iterator[Note]:
    names = tuple(comparison.trained)
    if len(names) > 1 and not comparison.candidates:
        sentence = "Options were not tuned for each model (`--tune`). Other values may change the "
        yield Note(LEAVES_OPEN, names, sentence + "order.", "options were not tuned")
    left = {row.architecture: None for row in comparison.candidates if not row.informative}
    if left:
        sentence = f"Tuning has not finished: {', '.join(left)}. Other values may still be chosen."
        yield Note(RULES_OUT, tuple(left), sentence, "tuning has not finished")


def note_defaults(comparison: Comparison) -> Iterator[Note]:
    """Note default norms and dropout that differ from the baseline's."""
    if comparison.baseline not in comparison.runs:
        return
    base, *_ = comparison.runs[comparison.baseline]
    names = [
        name
        for name, (row, *_) in comparison.runs.items()
        if re.search("norm|drop", " ".join(different_defaults(row, base)))
    ]
    if names:
        sentence = f"Norms or dropout differ from the baseline's: {', '.join(names)} (see Options)."
        yield Note(REMARK, tuple(names), sentence)


def note_baseline(comparison: Comparison) -> Iterator[Note]:
    """Note that the baseline has no run, so that another model takes its place."""
    planned = comparison.rows[0].baseline
    if planned not in {row.architecture for row in comparison.rows}:
        sentence = f"The baseline {planned} has no run; the others are compared with "
        yield Note(REMARK, (comparison.baseline,), f"{sentence}{comparison.baseline}.")


def note_limitations(comparison: Comparison) -> Iterator[Note]:
    """Note models whose options switch off what defines their architecture."""
    models = (
        (name, {**json.loads(row.defaults or "{}"), **json.loads(row.options or "{}")})
        for name, (row, *_) in comparison.runs.items()
    )
    for sentence, names in describe_limitations(models):
        yield Note(REMARK, names, sentence)


MEMORY = "checkpoint-activations", "offload-activations", "min-params-to-wrap"


def different_defaults(row: Row, base: Row) -> dict[str, str]:
    """Return the options of a model that keep their defaults but differ from the baseline's.

    Options that the other model lacks belong to the architecture and do not count, but a missing
    dropout counts as 0. Options that only affect memory do not count either.
    """
    ours, others, chosen, set_there = (
        json.loads(text or "{}")
        for text in (row.defaults, base.defaults, row.options, base.options)
    )
    others |= set_there
    dropouts = {n: "0" for n in (*ours, *others) if n.endswith(("dropout", "layerdrop"))}
    ours, others = {**dropouts, **ours}, {**dropouts, **others}
    return {
        name: value
        for name, value in ours.items()
        if name in others and name not in (*chosen, *MEMORY)
        if str(value) != str(others[name]) and parse_number(value) != parse_number(others[name])
    }


def parse_number(value: object) -> float:
    """Parse a value such as 1e-3, 10% or True as a number, or return NaN, which equals nothing."""
    text = {"False": "0", "True": "1"}.get(str(value), str(value))
    try:
        return float(text.removesuffix("%"))
    except ValueError:
        return float("nan")


def note_edges(comparison: Comparison) -> Iterator[Note]:
    """Note tuned values that are the smallest or largest tried, once all have been tried.

    Zero is no edge: options such as a dropout or a weight have no smaller values.
    """
    edges: dict[str, list[str]] = {}  # architectures
    for name, (chosen, *_) in comparison.trained.items():
        candidates = [row for row in comparison.candidates if row.architecture == name]
        finished = all(row.informative for row in candidates)
        tried = [parse_tuned(row.tuned) for row in candidates if finished]
        for option, value in parse_tuned(chosen.tuned).items() if tried else ():
            numbers = {parse_number(values.get(option)) for values in tried}
            side = {min(numbers): "smallest", max(numbers): "largest"}.get(parse_number(value))
            if side and len(numbers) > 1 and parse_number(value) != 0:
                edges.setdefault(f"the {side} {option}, {value}", []).append(name)
    for edge, names in edges.items():
        every = len(names) == len(comparison.trained) > 1
        who = "All architectures" if every else ", ".join(names)
        sentence = f"{who} chose {edge}; values beyond it may be better."
        yield Note(LEAVES_OPEN, tuple(names), sentence, EDGE_REASON)


def parse_tuned(tuned: str) -> dict[str, str]:
    """Parse a text such as ``lr 1e-3 dropout 0.1``: the values of tuned options."""
    words = tuned.split(" ")
    return dict(zip(words[::2], words[1::2]))


# --- on a table of scores --------------------------------------------------------------


def note_undertrained(comparison: Comparison, table: Table) -> Iterator[Note]:
    """Note architectures that have learned too little to be compared, each with the reason."""
    models: dict[str, str] = {}  # the text about each model
    marked = find_improving(comparison, MARKED_IMPROVEMENT)
    for name in comparison.runs:
        reasons = [explain_undertrained(row) for row in table.main.get(name, ())]
        if any((r.updates or 0) < (r.epoch_updates or 0) for r in comparison.trained.get(name, ())):
            reasons.append("less than an epoch")
        if name in marked:
            reasons.append(
                f"loss fell by more than {MARKED_IMPROVEMENT:.0%} in the last quarter of updates"
            )
        if reason := ", ".join(filter(None, dict.fromkeys(reasons))):
            models[name] = f"{name} ({reason})"
    if models:
        sentence = f"Too little training to compare: {'; '.join(models.values())}. Train these "
        sentence += "models longer, or leave them out."
        yield Note(RULES_OUT, tuple(models), sentence, "training was too short")


def explain_undertrained(row: Row) -> str:
    """Explain why a score's run has learned too little to be compared; "" if it has not."""
    predictions = row.outputs
    if row.metric == Kind.TRANSLATION.score and row.value < MIN_BLEU:
        return f"BLEU below {MIN_BLEU}"
    if predictions is None:
        return ""
    if row.metric == Kind.TRANSLATION.score:
        tokenize = metric_of(row.signature).tokenizer
        words, known = (
            len({word for text in texts for word in tokenize(text).split()})
            for texts in (predictions.output, predictions.reference)
        )
        few = words < MIN_VOCABULARY * known
        return f"{words} distinct words, {known} in the references" if few else ""
    if len({*predictions.output}) == 1 < len({*predictions.reference}):
        return "it predicts one class"
    return ""


def note_chance(table: Table) -> Iterator[Note]:
    """Note classifiers that are no better than predicting the most frequent class for all texts.

    The median p-value over the seeds of a one-sided McNemar test decides. With too few texts,
    nothing is decided.
    """
    if table.metric != Kind.CLASSIFICATION.score or not table.first.outputs:
        return
    if len(table.first.outputs.output) < FEW_EXAMPLES:
        return
    majority, share = find_majority(table.first.outputs)
    models: dict[str, str] = {}  # the text about each model
    for name, runs in table.main.items():
        answers = [row.outputs for row in runs if row.outputs]
        p_values = [compare_with_constant(each, majority) for each in answers]
        if share < 100 and p_values and median(p_values) > LEVEL:
            mean = fmean(row.value for row in runs)
            models[name] = f"{name} ({mean:.{count_decimals(table.metric, table.first.texts)}f})"
    if models:
        sentence = (
            f"No better than predicting {majority} for every text, which scores {share:.1f} on "
            f"{table.split}: {', '.join(models.values())}. They are left out of the verdicts; "
            "train them longer, or at other rates."
        )
        reason = f"the accuracy is no better than predicting {majority} for every text"
        yield Note(RULES_OUT, tuple(models), sentence, reason)


def find_majority(predictions: Predictions) -> tuple[str, float]:
    """Return the most frequent class, and its share of the texts in percent."""
    names, counts = np.unique(predictions.reference, return_counts=True)
    return str(names[counts.argmax()]), 100 * counts.max() / len(predictions.reference)


def note_texts(table: Table) -> Iterator[Note]:
    """Note test texts that are too few, too similar, or unlike what models read and write."""
    first, names = table.first, tuple(table.main)
    rows = [row for runs in table.main.values() for row in runs]
    leaked = max(row.leaked or 0 for row in rows)
    unknown = max(row.unknown or 0 for row in rows)
    if first.outputs and len(first.outputs.output) < FEW_EXAMPLES:
        texts = len(first.outputs.output)
        sentence = f"Too few texts to compare: {texts}; test on {FEW_EXAMPLES} or more."
        yield Note(RULES_OUT, names, sentence, "there are too few texts")
    if first.outputs and first.metric == Kind.CLASSIFICATION.score:
        name, share = find_majority(first.outputs)
        if share == 100:
            sentence = f"Nothing to compare: all texts of {table.split} have one class, {name}."
            yield Note(RULES_OUT, names, sentence, "all texts have one class")
    if leaked >= MIN_LEAKED_SHARE:
        pairs = first.metric == Kind.TRANSLATION.score
        what, shared = ("pairs", "share a side with") if pairs else ("texts", "are also in")
        sentence = f"{leaked:.1%} of the {what} of {table.split} {shared} the training set; "
        yield Note(REMARK, names, sentence + "this inflates the scores.")
    if first.outputs and (empty := sum(not text.strip() for text in first.outputs.reference)):
        sentence = (
            f"{empty:,} of the references of {table.split} are empty, which lowers all scores."
        )
        yield Note(REMARK, names, sentence)
    if first.metric == Kind.LANGUAGE_MODEL.score and unknown > UNKNOWN:
        sentence = f"{unknown:.1%} of the words of {table.split} are unknown. They count as "
        sentence += "one word, which is easy to predict: the score looks better than it is."
        yield Note(REMARK, names, sentence)
    if match := re.search(rf"\|{RESTORED}:([\d.]+%)", first.signature):
        sentence = f"The spaces of {match[1]} of the references cannot be restored from tokens."
        sentence += " Translations are scored against detokenised tokens instead: a perfect "
        sentence += "translation scores 100."
        yield Note(REMARK, names, sentence)


def note_statistics(table: Table, statistics: Statistics) -> Iterator[Note]:
    """Note differences that may hold for other seeds but not for other texts, and single seeds."""
    if (likelihoods := table.first.likelihoods) and statistics.p_values:
        blocks = len(join_blocks(likelihoods).tokens)
        if blocks < FEW_BLOCKS:
            sentence = f"The texts form {blocks} blocks of {MIN_BLOCK} tokens. With fewer than "
            sentence += f"{FEW_BLOCKS} blocks, chance alone gives p over texts below 0.05 in more "
            sentence += "than 5% of comparisons."
            yield Note(REMARK, tuple(table.main), sentence)
    for name, p_values in statistics.p_values.items():
        unsure = sum(p > LEVEL for p in p_values.values())
        low, high = statistics.differences[name].interval or (0.0, 0.0)
        if 2 * unsure > len(p_values) and low * high > 0:
            sentence = f"{name}: the interval over seeds excludes zero, but the difference may not "
            sentence += f"hold for other texts: p over texts is above {LEVEL} for {unsure} of "
            sentence += f"{len(p_values)} seeds."
            yield Note(LEAVES_OPEN, (name,), sentence, TEXTS_REASON)
    if max(map(len, table.main.values())) == 1:
        sentence = "One seed says nothing about the variation between seeds; train three or more."
        yield Note(LEAVES_OPEN, tuple(table.main), sentence, FEW_SEEDS)
