"""Statistics of scores: intervals over seeds, and tests over texts."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result
from scipy.stats import binomtest, ttest_ind
from scipy.stats import t as student

from fairseq_odeformers.registry import Kind

from .results import Predictions, Row, Table, group

ENOUGH = 3  # seeds for an interval
SAMPLES = 1000  # of a bootstrap
MANY = 10_000  # texts: one is 0.01%


# --- numbers as text -------------------------------------------------------------------


def count_decimals(metric: str, texts: int | None = 0) -> int:
    """How many decimals of a score are shown: in percent, two only if one text is 0.01 points."""
    if re.search("accuracy|f1|bleu|chrf", metric, re.IGNORECASE):
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
    if half := half_interval(values):
        text += f" ({mean - half:,.{digits}f} to {mean + half:,.{digits}f})"
    return text


# --- over seeds ------------------------------------------------------------------------


def half_interval(values: Sequence[float]) -> float:
    """Half of Student's 95% interval of the mean; 0 of too few seeds, or of equal ones."""
    if len(values) < ENOUGH:
        return 0.0
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))


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
        return self.interval is not None and self.interval[0] * self.interval[1] > 0


def compare_seeds(runs: Sequence[Row], others: Sequence[Row]) -> Difference:
    """By how much runs score better than others, with Welch's 95% interval.

    Fewer than three seeds, or equal ones, say nothing of a side's variance: no interval.
    """
    metric = runs[0].metric
    lower_is_better = metric in ("perplexity", "ppl") or metric.endswith("loss")
    sign, digits = -1 if lower_is_better else 1, count_decimals(metric, runs[0].texts)
    ours, theirs = ([sign * row.value for row in rows] for rows in (runs, others))
    mean = fmean(ours) - fmean(theirs)
    if any(len(values) < ENOUGH or len({*values}) == 1 for values in (ours, theirs)):
        return Difference(mean, None, digits)
    low, high = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    return Difference(mean, (float(low), float(high)), digits)


# --- over texts ------------------------------------------------------------------------


# Of each system: half of the 95% interval of its score, and the p-value of its difference from the
# first system.
OverTexts = list[tuple[float, float]]


def compare_classes(systems: Sequence[Predictions]) -> OverTexts:
    """McNemar's exact test: of the texts that one of both has right, how many each has."""
    first, *_ = rights = [np.array(each.output) == each.reference for each in systems]
    compared = []
    for right in rights:
        gained, lost = int((right & ~first).sum()), int((first & ~right).sum())
        p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
        compared.append((error_of_share(float(right.mean()), len(right)), p_value))
    return compared


def error_of_share(share: float, texts: int) -> float:
    """Half of Wilson's 95% interval of a share, in percent; it is above 0 if all are right, too."""
    z = NormalDist().inv_cdf(0.975)
    return (
        100
        * z
        / (1 + z**2 / texts)
        * math.sqrt(share * (1 - share) / texts + z**2 / (4 * texts**2))
    )


def compare_translations(systems: Sequence[Predictions], signature: str) -> OverTexts:
    """sacrebleu's paired bootstrap, of the BLEU that has a signature."""
    outputs: list[tuple[str, Sequence[str]]] = [(str(n), s.output) for n, s in enumerate(systems)]
    references, metrics = [systems[0].reference], {"BLEU": metric_of(signature)}
    _, scores = PairedTest(outputs, metrics, references, test_type="bs", n_samples=SAMPLES)()
    compared = []
    for system, result in zip(systems, scores["BLEU"]):
        assert isinstance(result, Result)  # other columns than System have these
        same = result.p_value is None or system.output == systems[0].output
        compared.append((result.ci or 0.0, 1.0 if same else result.p_value))
    return compared


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


# --- of a table ------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics:
    """What a table says of differences from the baseline, where models can be compared.

    Attributes:
        differences: by architecture.
        p_values: by architecture and seed, corrected by Holm's method.
        errors: by architecture, half of the 95% interval over the texts, the mean over its seeds.
        test: what the p-values are of.
    """

    differences: dict[str, Difference]
    p_values: dict[str, dict[int, float]]
    errors: dict[str, float]
    test: str


def compute_statistics(table: Table, excluded: Collection[str] = ()) -> Statistics:
    """The statistics of a table; architectures that are excluded have no more than their errors.

    A run is tested against the baseline's with the same seed.
    """
    baseline, differences = table.baseline, {}
    if baseline in table.main and baseline not in excluded:
        for name, runs in table.main.items():
            if name != baseline and name not in excluded:
                differences[name] = compare_seeds(runs, table.main[baseline])
    errors: dict[str, list[float]] = {}
    p_values: dict[tuple[str, int], float] = {}
    translated = table.metric == Kind.TRANSLATION.score
    runs = [row for rows in table.main.values() for row in rows if row.outputs]
    for seed, rows in sorted(group(runs, "seed").items()):
        systems = [row.outputs for row in rows if row.outputs]
        if translated:
            tested = compare_translations(systems, rows[0].signature)
        else:
            tested = compare_classes(systems)
        for row, (error, p_value) in zip(rows, tested):
            errors.setdefault(row.architecture, []).append(error)
            if row.architecture in differences and rows[0].architecture == baseline:
                p_values[row.architecture, seed] = p_value
    corrected: dict[str, dict[int, float]] = {}
    for (name, seed), p_value in zip(p_values, correct_by_holm([*p_values.values()])):
        corrected.setdefault(name, {})[seed] = p_value
    means = {name: fmean(of_seeds) for name, of_seeds in errors.items()}
    test = "a paired bootstrap over the texts" if translated else "McNemar's exact test"
    return Statistics(differences, corrected, means, test)
