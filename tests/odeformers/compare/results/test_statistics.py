"""Statistics with known values."""

import numpy as np
import pytest
from scipy.stats import binomtest, dunnett, false_discovery_control

from odeformers.compare.results.curves import Likelihoods
from odeformers.compare.results.rows import Row, read_comparison
from odeformers.compare.results.statistics import (
    compare_perplexities,
    compare_seeds,
    compute_statistics,
    join_blocks,
)
from tests.odeformers.compare.comparisons import (
    LANGUAGE_MODEL,
    TRANSLATION,
    write_comparison,
    write_run,
)

CLASSES = ["x", "y"] * 60
TEXTS = [
    f"the {noun} sleeps in the old house number {n}" for n, noun in enumerate("abcdefghij" * 12)
]


@pytest.mark.parametrize("metric, sign", [("accuracy", 1), ("perplexity", -1), ("valid_loss", -1)])
def test_differences_have_dunnetts_interval(metric, sign):
    """Positive is better, and intervals are simultaneous for all models of a table."""
    scores = {"a": [80.0, 81.0, 82.0], "b": [84.0, 86.0, 88.0], "c": [80.5, 81.0, 83.0]}
    runs = {n: [Row(metric=metric, score=score) for score in of] for n, of in scores.items()}
    test = dunnett(scores["b"], scores["c"], control=scores["a"], random_state=0)
    interval = test.confidence_interval()
    differences = compare_seeds(runs, "a").differences
    for number, name in enumerate("bc"):
        ends = sorted(sign * each[number] for each in (interval.low, interval.high))
        assert differences[name].interval == pytest.approx(ends, abs=0.02)
        assert differences[name].p_value == pytest.approx(test.pvalue[number], abs=1e-3)


@pytest.mark.parametrize("better, p", [(0, 1), (1, 1), (3, 0.25), (5, 0.0625), (6, 0.03125)])
def test_classes_are_compared_by_mcnemars_exact_test(tmp_path, better, p):
    """A model that is right on n more texts and wrong on no other has p = 2 * 0.5**n."""
    runs = (
        write_run(tmp_path, name, outputs=["x"] * hits + ["y"] * (10 - hits), references=["x"] * 10)
        for name, hits in (("a", 4), ("b", 4 + better))
    )
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    statistics = compute_statistics(table)
    assert statistics.p_values == {"b": {1: pytest.approx(p)}}
    low, high = binomtest(4 + better, 10).proportion_ci(method="wilson")
    assert statistics.errors["b"] == pytest.approx(50 * (high - low))


def test_p_values_belong_to_their_model_and_seed(tmp_path):
    """Models and seeds are in any order and of any number; a seed without a baseline has none."""
    gains = {("b", 1): 4, ("b", 2): 9, ("c", 1): 12, ("c", 2): 2, ("c", 3): 5}
    references, runs = ["x"] * 120, []
    for (name, seed), hits in {("a", 1): 0, ("a", 2): 0, **gains}.items():
        outputs = ["x"] * (60 + hits) + ["y"] * (60 - hits)
        runs.append(write_run(tmp_path, name, seed, outputs=outputs, references=references))
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    raw = {key: 2 * 0.5**gain for key, gain in gains.items() if key != ("c", 3)}
    adjusted = dict(zip(raw, false_discovery_control([*raw.values()])))
    p_values = compute_statistics(table).p_values
    for name in "bc":
        assert p_values[name] == pytest.approx({seed: adjusted[name, seed] for seed in (1, 2)})


def test_translations_are_compared_by_a_paired_bootstrap(tmp_path):
    """Differences in many sentences are significant, and in few or no sentences they are not."""
    worse = [text.replace("sleeps in the", "sleep on a") for text in TEXTS]
    outputs = {("a", 1): TEXTS, ("same", 1): TEXTS, ("worse", 1): worse}
    outputs |= {("a", 2): TEXTS[:-4] + worse[-4:], ("chance", 2): worse[:4] + TEXTS[4:]}
    runs = (
        write_run(tmp_path, *run, score=50.0, outputs=texts, references=TEXTS, **TRANSLATION)
        for run, texts in outputs.items()
    )
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    statistics = compute_statistics(table)
    assert statistics.p_values["same"] == {1: 1} and statistics.p_values["worse"][1] < 0.006
    assert statistics.p_values["chance"][2] > 0.3, "as many errors in other sentences"
    assert statistics.errors["chance"] > 0 and statistics.errors["same"] == 0


def draw_likelihoods(generator, blocks, models):
    """Texts of unequal lengths and difficulties, which all models share in part."""
    tokens = generator.integers(400, 600, blocks)
    shared = generator.normal(5, 0.3, blocks)
    each = shared + generator.normal(0, 0.02, (models, blocks))
    return [Likelihoods(tokens, nll * tokens) for nll in each]


def test_perplexities_are_compared_by_a_bootstrap_of_blocks(tmp_path):
    """A slight difference in all blocks is significant, chance is not; other texts have no test."""
    base, chance = draw_likelihoods(np.random.default_rng(2), 160, 2)
    better = Likelihoods(base.tokens, base.nll - 0.01 * base.tokens)
    others = Likelihoods(base.tokens + 1, base.nll)
    systems = {"a": base, "better": better, "chance": chance, "others": others}
    runs = [write_run(tmp_path, n, likelihoods=s, **LANGUAGE_MODEL) for n, s in systems.items()]
    runs.append(write_run(tmp_path, "earlier", score=99.0, **LANGUAGE_MODEL))
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    statistics, blocks = compute_statistics(table), join_blocks(base)
    assert {*statistics.p_values} == {"better", "chance"}
    assert statistics.unit == f"{len(blocks.tokens)} blocks of 500 tokens"
    assert statistics.p_values["better"][1] < 0.004 and statistics.p_values["chance"][1] > 0.05
    spread = (blocks.nll / blocks.tokens).std() / len(blocks.tokens) ** 0.5
    assert statistics.errors["a"] == pytest.approx(1.96 * spread * base.perplexity, rel=0.15)


def test_equally_good_language_models_seldom_differ():
    """About 5% of pairs differ significantly."""
    generator, significant = np.random.default_rng(4), []
    for _ in range(400):
        _, (_, p_value) = compare_perplexities(draw_likelihoods(generator, 120, 2))
        significant.append(p_value < 0.05)
    assert 0.02 < np.mean(significant) < 0.085


def test_blocks_consist_of_consecutive_texts():
    """Blocks have 500 tokens or more if there are as many; the last texts join the last block."""
    tokens = np.array([300, 100, 200, 500, 400, 90])
    blocks = join_blocks(Likelihoods(tokens, tokens * 5.0))
    assert blocks.tokens.tolist() == [600, 990]
    assert blocks.nll.tolist() == [3000, 4950]
    assert join_blocks(Likelihoods(tokens[:1], tokens[:1] * 1.0)).tokens.tolist() == [300]
    assert join_blocks(Likelihoods(tokens[:4], tokens[:4] * 1.0), 600).tokens.tolist() == [1100]


@pytest.mark.parametrize("excluded, compared", [("b", ["c"]), ("a", [])])
def test_an_excluded_model_has_no_tests(excluded, compared, tmp_path):
    """If the baseline is excluded, no model has tests."""
    runs = (write_run(tmp_path, n, outputs=CLASSES, references=CLASSES) for n in "abc")
    (table,) = read_comparison(write_comparison(tmp_path, *runs)).tables
    statistics = compute_statistics(table, {excluded})
    assert list(statistics.differences) == list(statistics.p_values) == compared
    assert list(statistics.errors) == ["a", "b", "c"], "each score has its own"
