"""Tables of statistics over texts and models."""

import math

import numpy as np
import pytest
import torch
from helpers import make_classifier

from fairseq_odeformers.analysis.measures import summarize
from fairseq_odeformers.analysis.tables import correlations, markdown, measure, over_texts


def test_statistics_over_texts():
    """Means of the texts' statistics, whatever the length; extremes of all texts."""
    texts = [[[1.0, 3.0], [5.0, 7.0]], [[4.0, 4.0, 7.0], [-math.inf] * 3]]
    rows = over_texts([summarize(torch.tensor(text)) for text in texts], layer=0)
    first, second = rows
    assert first == {
        "layer": 0,
        "mean": 3.5,
        "smallest": 1.0,
        "lower_quartile": (1.5 + 4) / 2,
        "median": 3.0,
        "upper_quartile": (2.5 + 5.5) / 2,
        "largest": 7.0,
        "deviation": 1.5,
        "left_out": 0,
    }
    assert (second["layer"], second["mean"], second["left_out"]) == (1, 6.0, 3)


def test_index_of_layer_and_part():
    summaries = [summarize(torch.rand(2, 3, 5)) for _ in range(4)]
    rows = over_texts(summaries, layer=1, part=1)
    assert [(row["layer"], row["part"]) for row in rows] == [
        (layer, part) for layer in (1, 2) for part in (1, 2, 3)
    ]
    assert rows[5]["mean"] == pytest.approx(np.mean([s["mean"][1, 2] for s in summaries]))


def test_correlations_need_three_models():
    models = [{"activation": a, "entropy": -a, "accuracy": a / 9} for a in (1.0, 2.0, 4.0)]
    rows = correlations(models)
    assert {(row["x"], row["y"]): row["correlation"] for row in rows} == pytest.approx(
        {
            ("activation", "accuracy"): 1,
            ("entropy", "accuracy"): -1,
            ("activation", "entropy"): -1,
        }
    )
    assert {row["method"] for row in rows} == {"pearson", "spearman"}
    assert correlations(models[:2]) == []


def test_p_values_need_five_models():
    models = [{"activation": a, "entropy": a, "accuracy": a * a} for a in (1.0, 2.0, 4.0, 5.0, 9.0)]
    assert {row["p_value"] for row in correlations(models[:4])} == {None}
    assert None not in {row["p_value"] for row in correlations(models)}


def test_tables_in_markdown():
    rows = [{"model": "a|b", "x": 0.123456, "y": None}, {"model": "c", "z": 3, "y": None}]
    assert markdown(rows).splitlines() == [
        "| model | x | z |",
        "| --- | --- | --- |",
        "| a\\|b | 0.1235 |  |",
        "| c |  | 3 |",
    ]


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_correlations_without_accuracies(unknown):
    models = [{"activation": a, "entropy": a, "accuracy": unknown} for a in (1.0, 2.0, 4.0)]
    assert {(row["x"], row["y"]) for row in correlations(models)} == {("activation", "entropy")}


def test_heads_too_narrow_for_an_entropy():
    """As the two columns of a head of the parity model: left out, counted, and the rest stays."""
    model = make_classifier("vanilla_transformer", "--encoder-attention-heads", "8").eval()
    found = measure(model, {3: torch.tensor([5, 6, 7])}, "")
    assert [row["left_out"] for row in found["parts"]] == [3] * 2 * 8
    (summary,) = found["models"]
    assert math.isnan(summary["part_entropy"]) and math.isfinite(summary["entropy"])


def test_pairs_that_have_no_factor():
    """Without positions, equal symbols have equal embeddings."""
    model = make_classifier("vanilla_transformer").eval()
    texts = {3: torch.tensor([5, 5, 5]), 4: torch.tensor([5, 6, 5])}
    layers = measure(model, texts, "")["layers"]
    assert [row["left_out"] for row in layers] == [3 + 1] * 2 + [0] * 3
    (alone,) = measure(model, {4: texts[4]}, "")["models"]
    (both,) = measure(model, texts, "")["models"]
    assert both["activation"] == alone["activation"]
    (none,) = measure(model, {3: texts[3]}, "")["models"]
    assert math.isnan(none["activation"]) and math.isfinite(none["entropy"])
