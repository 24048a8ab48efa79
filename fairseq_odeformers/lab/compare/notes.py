"""Statistics of a comparison, and notes: what its figures do not bear.

A new note is a function that yields :class:`Note`, named in :func:`find_notes`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result
from scipy.stats import binomtest, ttest_ind
from scipy.stats import t as student

from fairseq_odeformers.data.binarised import FEW
from fairseq_odeformers.data.detokenize import RESTORED
from fairseq_odeformers.models.common.kinds import Kind

from .results import Comparison, Predictions, Row, Runs, Table, clock

ENOUGH = 3  # seeds for an interval
EQUAL = "one side's seeds are all equal"  # why a difference of enough seeds has no interval
LEVEL = 0.05  # of significance
SAMPLES = 1000  # of a bootstrap
MANY = 10_000  # texts: one is 0.01%
# --- of notes
SLIGHT, MARKED = 0.01, 0.03  # shares of the first loss by which a training improves at its end
UNEQUAL = 0.25  # the share from which on times, or updates, are too different to call them equal
INCOMPARABLE = 0.5  # the share from which on times rule a comparison out
LEAST_VOCABULARY = 0.1  # of the references' words; a model below repeats phrases
LEAST_BLEU = 1  # below which translations are hardly words of the reference
UNKNOWN = 0.01  # the share of unknown words from which on it is told


# --- intervals over seeds --------------------------------------------------------------


def better(metric: str) -> int:
    """1 if a higher value of a metric is better, else -1."""
    return -1 if metric in ("perplexity", "ppl") or metric.endswith("loss") else 1


def is_percentage(metric: str) -> bool:
    """Whether a score is at most 100."""
    return re.search("accuracy|f1|bleu|chrf", metric, re.IGNORECASE) is not None


def count_decimals(metric: str, texts: int | None = 0) -> int:
    """How many decimals of a score are shown: in percent, two only if one text is 0.01 points."""
    if is_percentage(metric):
        return 2 if (texts or 0) >= MANY else 1
    return 2 if metric in ("perplexity", "ppl") else 3


def add_decimals(score: float, digits: int) -> int:
    """So many decimals, or more where a score below 100 would read 100."""
    while round(score, digits) == 100 > round(score, 6):
        digits += 1
    return digits


def over_seeds(values: Sequence[float], digits: int) -> str:
    """The mean, of several seeds its standard deviation, and of three Student's 95% interval."""
    mean = fmean(values)
    digits = add_decimals(mean, digits)
    text = f"{mean:,.{digits}f}"
    if len(values) > 1:
        text += f" ± {stdev(values):.{digits}f}"
    if len(values) >= ENOUGH and (half := half_interval(values)):  # 0 of a few texts is no interval
        text += f" ({mean - half:,.{digits}f} to {mean + half:,.{digits}f})"
    return text


def half_interval(values: Sequence[float]) -> float:
    """Half of Student's 95% interval of the mean."""
    return student.ppf(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))


class Difference(NamedTuple):
    """A difference of means, with its 95% interval if it has one."""

    mean: float
    interval: tuple[float, float] | None
    digits: int

    def __str__(self) -> str:
        figures = [self.mean, *(self.interval or ())]
        text, *ends = (f"{round(each, self.digits) + 0:+,.{self.digits}f}" for each in figures)
        return f"{text} ({' to '.join(ends)})" if ends else text

    @property
    def excludes_zero(self) -> bool:
        low, high = self.interval or (0, 0)
        return low * high > 0


def compare_seeds(runs: Runs, others: Runs) -> Difference:
    """By how much runs score better than others, with Welch's 95% interval.

    There is none if a side has fewer than three seeds, or equal ones, which say nothing of their
    variance.
    """
    row = next(iter(runs.values()))
    ours, theirs = ([better(row.metric) * r.value for r in of.values()] for of in (runs, others))
    mean, digits = fmean(ours) - fmean(theirs), count_decimals(row.metric, row.texts)
    if any(len(values) < ENOUGH or len({*values}) == 1 for values in (ours, theirs)):
        return Difference(mean, None, digits)
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    return Difference(mean, (float(low), float(high)), digits)


# --- tests over texts ------------------------------------------------------------------


class OverTexts(NamedTuple):
    """What the texts of a split say of a run's score."""

    error: float  # half of the 95% interval of its score
    p_value: float  # of the difference from the baseline's run with the same seed; NaN without one


def compare_over_texts(table: Table) -> dict[str, dict[int, OverTexts]]:
    """The tests of all runs of a table that have predictions, against the first architecture.

    The p-values are not corrected.
    """
    test = compare_translations if Kind.of_task(table.first.task) is Kind.TRANSLATION else None
    test = test or compare_classes
    tested: dict[str, dict[int, OverTexts]] = {name: {} for name in table.main}
    baseline = next(iter(table.main))
    for seed in sorted({seed for runs in table.predictions.values() for seed in runs}):
        systems = {n: runs[seed] for n, runs in table.predictions.items() if seed in runs}
        row = next(runs[seed] for name, runs in table.main.items() if name in systems)
        for name, result in test(systems, row).items():
            has_other = baseline in systems and name != baseline
            tested[name][seed] = result if has_other else result._replace(p_value=math.nan)
    return tested


def compare_classes(systems: dict[str, Predictions], row: Row) -> dict[str, OverTexts]:
    """McNemar's exact test: of the texts that one of both has right, how many each has."""
    right = {n: np.array(p.output) == np.array(p.reference) for n, p in systems.items()}
    before = next(iter(right.values()))
    tested = {}
    for name, ours in right.items():
        gained, lost = int((ours & ~before).sum()), int((before & ~ours).sum())
        p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
        share = float(ours.mean())
        tested[name] = OverTexts(196 * math.sqrt(share * (1 - share) / len(ours)), p_value)
    return tested


def compare_translations(systems: dict[str, Predictions], row: Row) -> dict[str, OverTexts]:
    """sacrebleu's paired bootstrap, of the BLEU that a row has the signature of."""
    first, *_ = systems.values()
    outputs: list[tuple[str, Sequence[str]]] = [(n, each.output) for n, each in systems.items()]
    metrics = {"BLEU": metric_of(row.signature)}
    test = PairedTest(outputs, metrics, [first.reference], test_type="bs", n_samples=SAMPLES)
    _, scores = test()
    tested = {}
    for (name, output), result in zip(outputs, scores["BLEU"]):
        assert isinstance(result, Result)  # other columns than System have these
        p_value = 1.0 if output == first.output else result.p_value
        tested[name] = OverTexts(result.ci or 0.0, math.nan if p_value is None else p_value)
    return tested


def metric_of(signature: str) -> BLEU:
    """The metric of a signature of sacrebleu's, such as ``nrefs:1|case:lc|eff:no|tok:13a``."""
    parts = dict(part.split(":", 1) for part in signature.split("|"))
    return BLEU(lowercase=parts["case"] == "lc", tokenize=parts["tok"])


def correct_by_holm(p_values: Sequence[float]) -> list[float]:
    """p-values, adjusted so that the chance of any false rejection stays below the level."""
    order = np.argsort(p_values)
    factors = np.arange(len(p_values), 0, -1)
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(np.asarray(p_values)[order] * factors)
    return np.minimum(corrected, 1).tolist()


@dataclass(frozen=True)
class Statistics:
    """What a table says of differences from the baseline, where models can be compared.

    Attributes:
        differences: by architecture.
        p_values: by architecture, one per seed, corrected by Holm's method.
        errors: by architecture, half of the 95% interval over the texts, the mean over its seeds.
    """

    differences: dict[str, Difference]
    p_values: dict[str, list[float]]
    errors: dict[str, float]


def compute_statistics(table: Table, notes: Iterable[Note]) -> Statistics:
    """The statistics of a table, without the architectures that notes rule out."""
    excluded = {name for note in notes if note.kind == RULES_OUT for name in note.subjects}
    baseline = table.baseline
    others = [n for n in table.main if n != baseline and not {n, baseline} & excluded]
    others = others if baseline in table.main else []
    differences = {name: compare_seeds(table.main[name], table.main[baseline]) for name in others}
    tested = compare_over_texts(table)
    tests = [(n, seed) for n in others for seed, t in tested[n].items() if t.p_value == t.p_value]
    p_values: dict[str, list[float]] = {}
    corrected = correct_by_holm([tested[name][seed].p_value for name, seed in tests])
    for (name, _), p_value in zip(tests, corrected):
        p_values.setdefault(name, []).append(p_value)
    errors = {
        name: fmean(t.error for t in seeds.values()) for name, seeds in tested.items() if seeds
    }
    return Statistics(differences, p_values, errors)


# --- notes -----------------------------------------------------------------------------

RULES_OUT, LEAVES_OPEN, REMARK = "rules out", "leaves open", "remark"


@dataclass(frozen=True)
class Note:
    """What the figures of a comparison do not bear.

    Attributes:
        kind: it rules out a comparison of the scores, leaves their order open, or is to be kept in
            mind.
        subjects: the architectures that it concerns.
        sentence: Markdown.
    """

    kind: str
    subjects: tuple[str, ...]
    sentence: str


def find_notes(
    comparison: Comparison, table: Table | None = None, statistics: Statistics | None = None
) -> list[Note]:
    """The notes on the trainings of a comparison; or on a table of scores; or on its statistics."""
    if table is None:
        return [note for find in ON_TRAININGS for note in find(comparison)]
    if statistics is None:
        return [note for find in ON_SCORES for note in find(comparison, table)]
    return [note for find in ON_STATISTICS for note in find(table, statistics)]


def span(values: Sequence[float]) -> str:
    """The least and the greatest of times."""
    return f"{clock(min(values))} to {clock(max(values))}"


def differ(values: Iterable[float], share: float = UNEQUAL) -> bool:
    """Whether the largest value is larger than the smallest by more than a share."""
    values = list(values)
    return max(values, default=0) > (1 + share) * min(values, default=0)


def find_budgeted(comparison: Comparison) -> dict[str, Runs]:
    """The trainings of each architecture that has used up a budget of time."""
    return {
        name: runs
        for name, runs in comparison.trained.items()
        if all(row.budget and not row.state for row in comparison.rows[name].values())
    }


def note_unequal_time(comparison: Comparison) -> Iterator[Note]:
    """Trainings with one budget that took longer than others: means over the seeds."""
    budgeted = find_budgeted(comparison)
    times = [fmean(row.cost for row in runs.values()) for runs in budgeted.values()]
    if differ(times):
        kind = RULES_OUT if differ(times, INCOMPARABLE) else REMARK
        yield Note(
            kind,
            tuple(budgeted),
            f"Unequal effort: trainings with one budget took {span(times)}; compare again with a "
            "longer `--budget`, or on a steadier machine.",
        )


def note_budget(comparison: Comparison) -> Iterator[Note]:
    """Budgets that were missed, or that gave architectures different numbers of updates."""
    budgeted = find_budgeted(comparison)
    rows = [row for runs in budgeted.values() for row in runs.values()]
    times = [fmean(row.seconds or 0 for row in runs.values()) for runs in budgeted.values()]
    budget = 60 * max((row.budget or 0 for row in rows), default=0)
    if times and differ([budget, *times]):
        change = fmean(times) / budget - 1
        yield Note(
            REMARK,
            tuple(budgeted),
            f"The budget was missed: trainings took {span(times)} instead of {clock(budget)}, "
            f"since updates took {abs(change):.0%} {'longer' if change > 0 else 'less'} than when "
            "they were timed; to meet it, compare again in another `--out`.",
        )
    updates = [row.updates or 0 for row in rows]
    if differ(updates):
        yield Note(
            REMARK,
            tuple(budgeted),
            f"The budget is for equal time, not equal updates: {min(updates):,} to "
            f"{max(updates):,} in {span(times)}.",
        )


def note_times(comparison: Comparison) -> Iterator[Note]:
    """Times that do not tell what models cost: another machine, or other processes on it."""
    trained = comparison.trained
    unsteady = [n for n, runs in trained.items() if differ(row.cost for row in runs.values())]
    if unsteady:
        yield Note(
            REMARK,
            tuple(unsteady),
            f"Seeds took unequal time: {', '.join(unsteady)} (by more than {UNEQUAL:.0%}). Do not "
            "compare the cost of these models.",
        )
    commands = {row.command for runs in trained.values() for row in runs.values()}
    if len(commands) > 1:
        yield Note(
            REMARK,
            tuple(trained),
            f"Trained by {len(commands)} commands, so times may be of unequal conditions.",
        )


def note_improving(comparison: Comparison) -> Iterator[Note]:
    names = find_improving(comparison, SLIGHT)
    if names:
        yield Note(
            LEAVES_OPEN,
            tuple(names),
            f"Still improving at the end: {', '.join(names)}. Longer training may change the "
            "order.",
        )


def find_improving(comparison: Comparison, share: float) -> list[str]:
    """The architectures whose loss the last quarter of the updates lowered by more than a share."""
    return [
        name
        for name, curves in comparison.curves.items()
        if any(curve.improving and curve.late_gain > share for curve in curves.values())
    ]


def note_untuned(comparison: Comparison) -> Iterator[Note]:
    names = tuple(comparison.trained)
    if len(names) > 1 and not comparison.candidates:
        yield Note(
            LEAVES_OPEN,
            names,
            "Options were not tuned for each model (`--tune`). Other values may change the order.",
        )


def note_defaults(comparison: Comparison) -> Iterator[Note]:
    """Norms and dropout that differ from the baseline's, though nobody has set them."""
    own = {name: different_defaults(comparison, name) for name in comparison.rows}
    names = [name for name, options in own.items() if any(map(DECISIVE.search, options))]
    if names:
        yield Note(
            REMARK,
            tuple(names),
            f"Norms or dropout differ from the baseline's: {', '.join(names)} (see Options).",
        )


DECISIVE = re.compile(r"normalize|dropout|norm-first|prenorm")


def different_defaults(comparison: Comparison, name: str) -> dict[str, str]:
    """The options of a model that nobody has set and that differ from the baseline's."""
    ours, theirs = (
        json.loads(next(iter(comparison.rows[each].values())).defaults or "{}")
        for each in (name, comparison.baseline)
    )
    return {
        option: value
        for option, value in ours.items()
        if option not in theirs or theirs[option] != value
    }


def note_edges(comparison: Comparison) -> Iterator[Note]:
    """Tuned values that are the smallest or the largest tried."""
    edges: dict[str, list[str]] = {}  # architectures
    for name in comparison.rows:
        tried = [row for row in comparison.candidates if row.architecture == name]
        setting = next(iter(comparison.rows[name].values())).tuned
        chosen = next((row for row in tried if row.tuned == setting), None)
        if chosen is None or chosen.validation is None:
            continue
        for option, value in parse_tuned(chosen.tuned).items():
            numbers = {number_of(parse_tuned(row.tuned).get(option, "")) for row in tried}
            side = {min(numbers): "smallest", max(numbers): "largest"}.get(number_of(value))
            if side and len(numbers) > 1:
                edges.setdefault(f"the {side} {option}, {value}", []).append(name)
    for edge, names in edges.items():
        yield Note(
            LEAVES_OPEN,
            tuple(names),
            f"{', '.join(names)} chose {edge}; values beyond it may be better.",
        )


def parse_tuned(tuned: str) -> dict[str, str]:
    """The values of tuned options, of a text such as ``lr 1e-3 dropout 0.1``."""
    words = tuned.split(" ")
    return dict(zip(words[::2], words[1::2]))


def number_of(value: object) -> float:
    """The number in the value of an option, such as 1e-3 or 10%, or NaN, which equals nothing."""
    try:
        return float(str(value).removesuffix("%"))
    except ValueError:
        return float("nan")


def note_undertrained(comparison: Comparison, table: Table) -> Iterator[Note]:
    """Architectures that have learned too little to be compared, each with the reason."""
    told: dict[str, str] = {}
    marked = find_improving(comparison, MARKED)
    for name in comparison.rows:
        runs, curves = comparison.trained.get(name, {}), comparison.curves.get(name, {})
        reasons = [
            explain_undertrained(table, name, seed, seed in curves and curves[seed].improving)
            for seed in table.main.get(name, {})
        ]
        if any((row.updates or 0) < (row.epoch_updates or 0) for row in runs.values()):
            reasons.append("less than an epoch")
        if name in marked:
            reasons.append(f"loss fell by more than {MARKED:.0%} in the last quarter of updates")
        if reason := ", ".join(filter(None, dict.fromkeys(reasons))):
            told[name] = f"{name} ({reason})"
    if told:
        yield Note(
            RULES_OUT,
            tuple(told),
            f"Too little training to compare: {'; '.join(told.values())}; train longer, or leave "
            "them out.",
        )


def explain_undertrained(table: Table, name: str, seed: int, improving: bool) -> str:
    """Why a run has learned too little to be compared; "" if it has learned enough.

    It is *improving* if its last validation was the best.
    """
    row, predictions = table.main[name][seed], table.predictions[name].get(seed)
    if row.metric == Kind.TRANSLATION.score and row.value < LEAST_BLEU:
        return f"BLEU below {LEAST_BLEU}"
    if predictions is None:
        return ""
    if row.metric == Kind.TRANSLATION.score:
        tokenize = metric_of(row.signature).tokenizer
        words, known = (
            len({word for text in texts for word in tokenize(text).split()})
            for texts in (predictions.output, predictions.reference)
        )
        few = words < LEAST_VOCABULARY * known
        return f"{words} different words, the references have {known}" if few else ""
    if len({*predictions.output}) == 1 < len({*predictions.reference}):
        return "it predicts one class"
    majority, share = find_majority(predictions)
    error = compare_classes({name: predictions}, row)[name].error
    if improving and row.value - error < share:
        return f"it was still improving, and is hardly better than always {majority}"
    return ""


def find_majority(predictions: Predictions) -> tuple[str, float]:
    """The most frequent class, and its share of the texts in percent."""
    names, counts = np.unique(predictions.reference, return_counts=True)
    return str(names[counts.argmax()]), 100 * counts.max() / len(predictions.reference)


def note_few_texts(comparison: Comparison, table: Table) -> Iterator[Note]:
    texts, names = table.first.texts, tuple(table.main)
    if texts and table.first.predictions and texts < FEW:
        yield Note(RULES_OUT, names, f"Too few texts to compare: {texts}; test on {FEW} or more.")


def note_one_class(comparison: Comparison, table: Table) -> Iterator[Note]:
    if table.first.metric != Kind.CLASSIFICATION.score or not table.first.predictions:
        return
    classes = {c for runs in table.predictions.values() for p in runs.values() for c in p.reference}
    if len(classes) == 1:
        yield Note(
            RULES_OUT,
            tuple(table.main),
            f"Nothing to compare: all texts of {table.split} have one class, {classes.pop()}.",
        )


def note_unknown_words(comparison: Comparison, table: Table) -> Iterator[Note]:
    share = table.first.unknown or 0.0
    if share > UNKNOWN:
        yield Note(
            REMARK,
            tuple(table.main),
            f"{share:.1%} of the words of {table.split} are unknown. They count as one word, which "
            "is easy to predict: the score looks better than it is.",
        )


def note_restored_references(comparison: Comparison, table: Table) -> Iterator[Note]:
    if match := re.search(rf"\|{RESTORED}:([\d.]+%)", table.first.signature):
        yield Note(
            REMARK,
            tuple(table.main),
            f"{match[1]} of the references have spaces that tokens do not tell. Translations are "
            "scored against their detokenised tokens, so a perfect one scores 100.",
        )


def note_open_texts(table: Table, statistics: Statistics) -> Iterator[Note]:
    """Differences that hold for other seeds, perhaps not for other texts."""
    for name, p_values in statistics.p_values.items():
        unsure = sum(p > LEVEL for p in p_values)
        if 2 * unsure > len(p_values) and statistics.differences[name].excludes_zero:
            yield Note(
                LEAVES_OPEN,
                (name,),
                f"{name}: other seeds would probably agree, other texts may not, since p is above "
                f"{LEVEL} with {unsure} of {len(p_values)} seeds.",
            )


def note_one_seed(table: Table, statistics: Statistics) -> Iterator[Note]:
    if max(map(len, table.main.values())) == 1:
        yield Note(
            LEAVES_OPEN,
            tuple(table.main),
            "One seed says nothing of the variation between seeds; train three or more.",
        )


ON_TRAININGS: tuple[Callable[[Comparison], Iterable[Note]], ...] = (
    note_unequal_time,
    note_budget,
    note_times,
    note_improving,
    note_untuned,
    note_defaults,
    note_edges,
)
ON_SCORES: tuple[Callable[[Comparison, Table], Iterable[Note]], ...] = (
    note_undertrained,
    note_few_texts,
    note_one_class,
    note_unknown_words,
    note_restored_references,
)
ON_STATISTICS: tuple[Callable[[Table, Statistics], Iterable[Note]], ...] = (
    note_open_texts,
    note_one_seed,
)
