"""Models have the papers' numbers of parameters."""

import re
from pathlib import Path

import pytest
import torch
from helpers import Task, count_parameters, make_any, make_model

PAGE = Path(__file__).parents[3] / "docs/reference/architectures.md"
TIED, PRE_NORM = "--share-all-embeddings", "--encoder-normalize-before --decoder-normalize-before"


def count(line, symbols):
    """The parameters of a model of default size, without the heads of a classifier."""
    arch, *options = line.split()
    with torch.device("meta"):
        model = make_any(arch, *options, task=Task(symbols), sizes=[])
    if hasattr(model, "classification_heads"):
        model = model.encoder
    return count_parameters(model)


@pytest.mark.parametrize(
    "twin, symbols, width, parameters",
    [
        ("transformer_iwslt_de_en", 10_000, 512, 36_683_776),
        ("transformer_wmt_en_de", 32_000, 512, 60_542_976),
        ("transformer_wmt_en_de_big", 32_000, 1024, 209_166_336),
    ],
)
def test_a_macaron_is_as_large_as_the_transformer(twin, symbols, width, parameters):
    """Two FFNs replace one of twice the inner width:

    3 d more per layer, a LayerNorm and d biases.
    """
    transformer = count(f"{twin} {TIED} {PRE_NORM}", symbols)
    assert count(f"macaron_{twin} {TIED}", symbols) == transformer + 12 * 3 * width == parameters


@pytest.mark.parametrize(
    "task, classes, positions, symbols, parameters",
    [
        ("listops", 10, 2048, 32, 209_802),
        ("pathfinder", 2, 1024, 512, 173_954),
        ("retrieval", 2, 4096, 512, 395_138),
        ("text", 2, 4096, 512, 370_562),
        ("image", 10, 1024, 256, 158_602),
    ],
)
def test_parameters_equal_skyformers_transformer(task, classes, positions, symbols, parameters):
    """Skyformer's embeddings lack the rows of other symbols and of the position of padding."""
    model = make_model("transformer_classifier_lra", sizes=[], task=Task(symbols))
    model.towers = 2 if task == "retrieval" else 1
    model.register_classification_head("head", num_classes=classes)
    extra = model.max_positions() + 2 - positions
    assert count_parameters(model) - 64 * extra == parameters


@pytest.mark.parametrize(
    "twin, parameters",
    [
        ("transformer_iwslt_de_en_v2", 31_545_344),
        ("transformer_wmt_en_de_v2", 44_140_544),
        ("transformer_wmt_en_de_big_t2t", 176_361_472),
    ],
)
def test_twins_of_the_macaron_net_have_their_published_size(twin, parameters):
    """Sizes exclude the tied embeddings."""
    width = 1024 if "big" in twin else 512
    assert count(f"{twin} {TIED}", 32_000) - 32_000 * width == parameters


@pytest.mark.parametrize("width, inner", [(512, 1368), (256, 688)])
def test_a_modern_layer_is_as_large_as_a_transformers(width, inner):
    """Three matrices replace two of width 4 d; 9 d per layer for biases go, as d per LayerNorm."""
    sizes = f"--decoder-embed-dim {width} --decoder-ffn-embed-dim"
    transformer = count(f"transformer_lm_prenorm {sizes} {4 * width}", 32_000)
    rounding = 6 * (3 * inner - 8 * width) * width
    ours = count(f"transformer_lm_modern {sizes.rsplit(maxsplit=1)[0]}", 32_000)
    assert ours == transformer + rounding - 6 * 9 * width - 13 * width
    assert ours == pytest.approx(transformer, rel=0.001)


def test_the_page_has_the_sizes_of_built_models():
    table = PAGE.read_text("utf-8").partition("\n## Sizes\n")[2]
    sizes = re.findall(r"^\| `(\w+)`.*? \| ([\d,]+) \|$", table, re.M)
    assert len(sizes) == 18
    for arch, parameters in sizes:
        line = arch if "_lm_" in arch else f"{arch} {TIED}"
        assert f"{count(line, 32_000):,}" == parameters, arch
    small = "layers 2", "embed-dim 128", "ffn-embed-dim 512"
    options = " ".join(f"--{side}-{size}" for side in ("encoder", "decoder") for size in small)
    size = count(f"transformer_prenorm {TIED} {options}", 1000) - 128 * 1000
    assert f"has {size:,} parameters\nplus 128 per symbol" in table


@pytest.mark.parametrize("size, width", [("", 512), ("_big", 1024)])
@pytest.mark.parametrize("method, gate", [("", 2), ("_rk4", 0)])
def test_reevaluating_a_layer_adds_no_parameters(size, width, method, gate):
    """Sizes equal the Transformer's plus a gate of 2 d weights, one per slope entry, and a bias."""
    transformer = count(f"transformer_wmt_en_de{size} {TIED} {PRE_NORM}", 32_000)
    ours = count(f"ode_transformer_wmt_en_de{size}{method} {TIED}", 32_000)
    assert ours == transformer + gate * width + bool(gate)


@pytest.mark.parametrize(
    "arch, parameters, attentions, paper",
    [
        ("transevolve_randomff_1", 25_900_032, 3, 27),
        ("transevolve_randomff_2", 30_620_672, 6, 33),
        ("transevolve_fullff_1", 51_053_568, 3, 53),
        ("transevolve_fullff_2", 55_774_208, 6, 59),
    ],
)
def test_parameters_of_the_base_models(arch, parameters, attentions, paper):
    """The paper's count (Table 2, millions) has d'(d + d') more for the W~k of each attention."""
    assert count(arch, 32_000) == parameters
    assert abs((parameters + attentions * 512 * 1024) / 1e6 - paper) < 1


@pytest.mark.parametrize(
    "line, parameters, paper",
    [
        ("transject --encoder-experts 1", 6_607_622, 6.62e6),
        ("transject --encoder-experts 8", 28_630_790, 28.68e6),
        (
            "transformer_classifier --encoder-embed-dim 512 --encoder-ffn-embed-dim 2048",
            19_010_048,
            19.0e6,
        ),
    ],
)
def test_parameters_of_the_character_encoder(line, parameters, paper):
    """The count is a tenth of Sengupta et al. 2023, Table 5: six layers, d = 512, 187 symbols."""
    assert count(line, 187) == parameters == pytest.approx(paper, rel=0.01)
