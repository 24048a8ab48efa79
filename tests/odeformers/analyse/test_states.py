"""Tables of statistics over texts and models, for texts that are drawn from a data set or typed."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import make_classifier
from matplotlib.colors import to_hex

from fairseq_odeformers.data.classification import make_dictionary
from odeformers.analyse import figures
from odeformers.analyse.measures import over_texts, summarize
from odeformers.analyse.result import markdown
from odeformers.analyse.states import correlations, draw_texts, follow, measure
from odeformers.analyse.text_states import text_states
from odeformers.plots import COLORS

PAD, EOS = 1, 2
WORDS = make_dictionary([f"word{n}" for n in range(46)])
TEXTS = [[4, 5, EOS], [EOS], [6, 6, 4, EOS, PAD, PAD], [5, EOS], [4, EOS]]


class Data(list):
    def collater(self, samples):
        return {"net_input": {"src_tokens": torch.tensor(samples)}}


def make_task(texts=TEXTS):
    return SimpleNamespace(
        source_dictionary=make_dictionary(["the", "film", "films"]),
        cfg=SimpleNamespace(data="data"),
        dataset=lambda split: Data(texts),
    )


def test_drawn_texts_are_always_the_same():
    """Drawn texts have no padding, and texts of a single token are left out."""
    texts = draw_texts(make_task(), "test", 3)
    assert len(texts) == 3 and list(texts) == sorted(texts)
    again = draw_texts(make_task(), "test", 3)
    assert all(torch.equal(texts[number], again[number]) for number in again)
    every = draw_texts(make_task(), "test", 100)
    assert {n: t.tolist() for n, t in every.items()} == {
        n: [token for token in tokens if token != PAD] for n, tokens in enumerate(TEXTS) if n != 1
    }
    with pytest.raises(ValueError, match="test of data has no text of two or more tokens"):
        draw_texts(make_task([[EOS], [4]]), "test", 3)


@pytest.mark.parametrize(
    "chosen, message",
    [
        (["word0", "cat"], "--tokens cat: .* word0 word1 word0 word2"),
        (["word0", "wrd2"], "--tokens wrd2: did you mean word2"),
        (["word2", "word2"], "--tokens word2: name at least two"),
    ],
)
def test_tokens_that_cannot_be_followed_are_named(chosen, message):
    model = make_classifier("transformer_classifier").eval()
    with pytest.raises(ValueError, match=message):
        follow(model, torch.tensor([4, 5, 4, 6]), WORDS, chosen)


def test_tokens_are_followed_at_their_first_place():
    model = make_classifier("transformer_classifier").eval()
    actual = follow(model, torch.tensor([4, 5, 4, 6]), WORDS, ["word2", "word0", "word2"])
    assert {row["tokens"] for row in actual["distances"]} == {"word2 - word0"}
    out = model.encoder(torch.tensor([[4, 5, 4, 6]]), None, return_all_hiddens=True)
    hidden = [x.detach() for x in out["encoder_states"]]
    expected = [(x[3, 0] - x[0, 0]).norm().item() for x in hidden]
    assert [row["euclidean"] for row in actual["distances"]] == pytest.approx(expected, rel=1e-5)
    expected = [1 - F.cosine_similarity(x[3, 0], x[0, 0], dim=0).item() for x in hidden]
    assert [row["cosine"] for row in actual["distances"]] == pytest.approx(expected, abs=1e-5)
    head = text_states(model, torch.tensor([4, 5, 4, 6])).parts[1, 0]
    place = next(row for row in actual["part_distances"] if (row["layer"], row["part"]) == (2, 1))
    assert place["euclidean"] == pytest.approx((head[3] - head[0]).norm().item(), rel=1e-5)
    assert [row["token"] for row in actual["isomap"][:4]] == ["word0", "word1", "word0", "word2"]


def test_statistics_are_means_over_texts():
    """Texts weigh equally, whatever their lengths; extremes are over all texts."""
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


def test_rows_are_indexed_by_layer_and_part():
    summaries = [summarize(torch.rand(2, 3, 5)) for _ in range(4)]
    rows = over_texts(summaries, layer=1, part=1)
    places = [(layer, part) for layer in (1, 2) for part in (1, 2, 3)]
    assert [(row["layer"], row["part"]) for row in rows] == places
    assert rows[5]["mean"] == pytest.approx(np.mean([s["mean"][1, 2] for s in summaries]))


def test_correlations_need_three_models():
    values = (1.0, 2.0, 4.0, 5.0, 9.0)
    models = [{"activation": a, "entropy": -a, "accuracy": a**2} for a in values]
    assert correlations(models[:2]) == []
    expected = {("activation", "accuracy"): 1, ("entropy", "accuracy"): -1}
    expected |= {("activation", "entropy"): -1}
    for count in (3, 5):
        actual = {(row["x"], row["y"]): row["spearman"] for row in correlations(models[:count])}
        assert actual == pytest.approx(expected)


def test_tokens_have_other_colours_than_architectures():
    pairs = ("movie - good", "movie - bad", "good - bad")
    row = {"model": "a", "euclidean": 1.0, "cosine": 0.5}
    rows = [{**row, "layer": layer, "tokens": pair} for layer in (0, 1) for pair in pairs]
    for axes in figures.distances({"distances": rows}).axes:
        colors = {to_hex(line.get_color()) for line in axes.lines}
        assert len(colors) == len(pairs) and not colors & {*COLORS}


@pytest.mark.parametrize("accuracies", [[0.5] * 3, [None] * 3, [0.1, math.nan, 0.3]])
def test_constant_or_unknown_accuracies_have_no_correlation(accuracies):
    models = [
        {"activation": a, "entropy": a, "accuracy": accuracy}
        for a, accuracy in zip((1.0, 2.0, 4.0), accuracies)
    ]
    assert {(row["x"], row["y"]) for row in correlations(models)} == {("activation", "entropy")}


def test_tables_are_written_in_markdown():
    rows = [{"model": "a|b", "x": 0.123456, "y": None}, {"model": "c", "z": 3, "y": None}]
    assert markdown(rows).splitlines() == [
        "| model | x | z |",
        "| --- | --- | --- |",
        "| a\\|b | 0.1235 |  |",
        "| c |  | 3 |",
    ]


def test_heads_too_narrow_for_an_entropy_are_left_out():
    """The narrow heads of the parity model are counted as left out, and change nothing else."""
    model = make_classifier("vanilla_transformer", "--encoder-attention-heads", "8").eval()
    tables = measure(model, [(3, torch.tensor([5, 6, 7]))])
    assert [row["left_out"] for row in tables["parts"]] == [3] * 2 * 8
    (summary,) = tables["models"]
    assert math.isnan(summary["part_entropy"])
    entropies = [row["mean"] for row in tables["layers"] if row["measure"] == "entropy"]
    assert summary["entropy"] == pytest.approx(np.mean(entropies[1:]))  # the embedding's is first


def test_a_model_without_heads_or_experts_has_no_parts():
    tables = measure(make_classifier("node_transformer").eval(), [(3, torch.tensor([5, 6, 7]))])
    assert tables["parts"] == [] and tables["models"][0]["parts"] is None


def test_pairs_without_a_factor_are_left_out():
    """Without positions, equal symbols have equal embeddings and so no factor."""
    model = make_classifier("vanilla_transformer").eval()
    texts = [(3, torch.tensor([5, 5, 5])), (4, torch.tensor([5, 6, 5]))]
    tables = measure(model, texts)
    assert [row["left_out"] for row in tables["layers"]] == [3 + 1] * 2 + [0] * 3
    both, alone, none = (
        measure(model, part)["models"][0] for part in (texts, texts[1:], texts[:1])
    )
    assert both["activation"] == alone["activation"]
    assert math.isnan(none["activation"]) and math.isfinite(none["entropy"])


def test_lines_of_nearly_equal_distances_of_parts_are_below_the_frame():
    """As TransJect's experts have; the axis begins at 0."""
    rows = [
        {
            "model": "a",
            "layer": layer,
            "part": part,
            "tokens": "x - y",
            "euclidean": 36 - 0.01 * layer,
        }
        for part in (1, 2)
        for layer in (1, 2)
    ]
    tables = {"part_distances": rows, "models": [{"model": "a", "parts": "experts"}]}
    for axes in figures.part_distances(tables).axes:
        bottom, top = axes.get_ylim()
        assert bottom == 0 and top > 37
