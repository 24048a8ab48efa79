"""Statistics of scores: intervals over seeds, and tests over texts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from statistics import fmean, stdev

import numpy as np
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result
from scipy.stats import binomtest, false_discovery_control
from scipy.stats import t as student

from fairseq_odeformers.registry import Kind

from .curves import Likelihoods, Predictions
from .intervals import MIN_SEEDS, RANDOM_STATE, Difference, OverSeeds, compare_with_baseline
from .rows import Row, Table, group

SAMPLES = 1000  # number of samples of a bootstrap
MIN_BLOCK = 500  # minimum number of tokens of a block of texts
FEW_BLOCKS = 30  # fewer blocks make tests of perplexities inaccurate


# --- over seeds ------------------------------------------------------------------------


def half_interval(values: Sequence[float]) -> float:
    """Return half of Student's 95% interval of the mean; 0 for too few or equal scores."""
    if len(values) < MIN_SEEDS:
        return 0.0
    return float(student.ppf(0.975, len(values) - 1)) * stdev(values) / math.sqrt(len(values))


def compare_seeds(runs: Mapping[str, Sequence[Row]], baseline: str) -> OverSeeds:
    """Compare models with a baseline over their seeds.

    Args:
        runs: scored runs by model.
    """
    metrics = {row.metric for rows in runs.values() for row in rows}
    lower_is_better = any(m in ("perplexity", "ppl") or m.endswith("loss") for m in metrics)
    sign = -1 if lower_is_better else 1
    scores = {name: [sign * row.value for row in rows] for name, rows in runs.items()}
    return compare_with_baseline(scores, baseline)


# --- over texts ------------------------------------------------------------------------


# For each system: half of the 95% interval of its score, and the p-value of its difference from the
# first system.
OverTexts = list[tuple[float, float]]


def compare_classes(systems: Sequence[Predictions]) -> OverTexts:
    """Compare systems by McNemar's exact test, on the texts that only one of two has right."""
    first, *_ = rights = [np.array(each.output) == each.reference for each in systems]
    compared = []
    for right in rights:
        p_value = compare_answers(right, first)
        low, high = interval_of_share(int(right.sum()), len(right))
        compared.append(((high - low) / 2, p_value))
    return compared


def compare_with_constant(predictions: Predictions, answer: str) -> float:
    """Return McNemar's p-value for a model being better than one answer for all texts."""
    right = np.array(predictions.output) == predictions.reference
    constant = np.array(predictions.reference) == answer
    return compare_answers(right, constant, alternative="greater")


def compare_answers(right: np.ndarray, other: np.ndarray, alternative: str = "two-sided") -> float:
    """Return McNemar's exact p-value, from the texts that only one of two systems has right."""
    gained, lost = int((right & ~other).sum()), int((other & ~right).sum())
    test = binomtest(gained, gained + lost, alternative=alternative) if gained + lost else None
    return float(test.pvalue) if test else 1.0


def interval_of_share(hits: int, texts: int) -> tuple[float, float]:
    """Return Wilson's 95% interval of a share of texts, in percent."""
    interval = binomtest(hits, texts).proportion_ci(method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


def compare_translations(systems: Sequence[Predictions], signature: str) -> OverTexts:
    """Compare systems by sacrebleu's paired bootstrap, for the BLEU with a given signature."""
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
    """Make the metric of a signature of sacrebleu, such as ``nrefs:1|case:lc|eff:no|tok:13a``."""
    parts = dict(part.split(":", 1) for part in signature.split("|"))
    return BLEU(lowercase=parts["case"] == "lc", tokenize=parts["tok"])


def join_blocks(texts: Likelihoods, least: int = MIN_BLOCK) -> Likelihoods:
    """Join consecutive texts to blocks of *least* tokens or more, if there are as many.

    Neighbouring sentences are about the same things, so a bootstrap draws them together.
    """
    starts, filled = [0], 0
    for number, tokens in enumerate(texts.tokens):
        if filled >= least:
            starts.append(number)
            filled = 0
        filled += int(tokens)
    if len(starts) > 1 and filled < least:
        starts.pop()
    return Likelihoods(*(np.add.reduceat(each, starts) for each in (texts.tokens, texts.nll)))


def compare_perplexities(systems: Sequence[Likelihoods]) -> OverTexts:
    """Compare systems by a paired bootstrap of blocks of texts.

    The p-value is the share of samples whose difference is at least as far from the samples' mean
    as the observed difference is from zero, as in sacrebleu (Koehn 2004, Riezler and Maxwell 2005).

    Args:
        systems: likelihoods of the same blocks.
    """
    tokens, nll = systems[0].tokens, np.stack([each.nll for each in systems], 1)
    generator, count = np.random.default_rng(RANDOM_STATE), len(tokens)
    drawn = generator.multinomial(count, np.full(count, 1 / count), SAMPLES)  # (samples, blocks)
    perplexities = np.exp(drawn @ nll / (drawn @ tokens)[:, None])  # (samples, systems)
    halves = np.ptp(np.quantile(perplexities, (0.025, 0.975), axis=0), axis=0) / 2
    compared = []
    for system, of_system, half in zip(systems, perplexities.T, halves.tolist()):
        observed = system.perplexity - systems[0].perplexity
        differences = of_system - perplexities[:, 0]
        extreme = int((abs(differences - differences.mean()) >= abs(observed)).sum())
        compared.append((half, (1 + extreme) / (1 + SAMPLES)))
    return compared


# --- of a table ------------------------------------------------------------------------


@dataclass(frozen=True)
class Statistics:
    """Differences from the baseline in a table, where models can be compared.

    Attributes:
        over_seeds: differences with their intervals, by architecture.
        p_values: p-values over texts, by architecture and seed, adjusted for the number of tests by
            Benjamini and Hochberg's method.
        errors: half of the 95% interval over the texts, averaged over seeds, by architecture.
        test: name of the test over texts.
        unit: name and number of the units that the test draws from.
    """

    over_seeds: OverSeeds
    p_values: dict[str, dict[int, float]]
    errors: dict[str, float]
    test: str
    unit: str

    @property
    def differences(self) -> dict[str, Difference]:
        return self.over_seeds.differences


def compute_statistics(table: Table, excluded: Collection[str] = ()) -> Statistics:
    """Compute the statistics of a table; excluded architectures only get their errors.

    Each run is tested over texts against the baseline's run with the same seed.
    """
    baseline, over_seeds = table.baseline, OverSeeds({})
    compared = {name: runs for name, runs in table.main.items() if name not in excluded}
    if baseline in compared:
        over_seeds = compare_seeds(compared, baseline)
    errors: dict[str, list[float]] = {}
    p_values: dict[tuple[str, int], float] = {}
    runs = [row for rows in table.main.values() for row in rows]
    test, unit = TESTS.get(table.metric, TESTS[Kind.CLASSIFICATION.score]), ""
    for seed, rows in sorted(group(runs, "seed").items()):
        rows, tested, unit = compare_texts(rows)
        for row, (error, p_value) in zip(rows, tested):
            errors.setdefault(row.architecture, []).append(error)
            if row.architecture in over_seeds.differences and rows[0].architecture == baseline:
                p_values[row.architecture, seed] = p_value
    adjusted: dict[str, dict[int, float]] = {}
    for (name, seed), p_value in zip(p_values, adjust([*p_values.values()])):
        adjusted.setdefault(name, {})[seed] = p_value
    means = {name: fmean(of_seeds) for name, of_seeds in errors.items()}
    return Statistics(over_seeds, adjusted, means, test, unit)


TESTS = {
    Kind.TRANSLATION.score: "a paired bootstrap over the texts",
    Kind.CLASSIFICATION.score: "McNemar's exact test",
    Kind.LANGUAGE_MODEL.score: "a paired bootstrap over the blocks",
}


def compare_texts(rows: Sequence[Row]) -> tuple[Sequence[Row], OverTexts, str]:
    """Test runs with one seed over texts; the baseline's run comes first.

    Returns:
        The runs whose outputs are kept, their tests, and the unit that the tests draw from.
    """
    if rows[0].metric == Kind.LANGUAGE_MODEL.score:
        rows = [row for row in rows if row.likelihoods]
        blocks = [join_blocks(row.likelihoods) for row in rows if row.likelihoods]
        same = [np.array_equal(each.tokens, blocks[0].tokens) for each in blocks]
        rows, blocks = [*compress(rows, same)], [*compress(blocks, same)]
        unit = f"{len(blocks[0].tokens):,} blocks of {MIN_BLOCK} tokens" if blocks else ""
        return rows, compare_perplexities(blocks) if blocks else [], unit
    rows = [row for row in rows if row.outputs]
    systems = [row.outputs for row in rows if row.outputs]
    if not systems:
        return rows, [], ""
    unit = f"{len(systems[0].output):,} texts"
    if rows[0].metric == Kind.TRANSLATION.score:
        return rows, compare_translations(systems, rows[0].signature), unit
    return rows, compare_classes(systems), unit


def adjust(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number by Benjamini and Hochberg's method."""
    return false_discovery_control(p_values).tolist() if p_values else []
