"""A width, an inner width, heads and layers give every architecture a Transformer's sizes."""

import pytest

from fairseq_odeformers.registry import default_options
from odeformers.sizes import size_options, split_sizes

SIZES = {"embed_dim": 32, "ffn_embed_dim": 64, "attention_heads": 4, "layers": 6}


@pytest.mark.parametrize(
    "arch, expected",
    [
        (
            "transformer_prenorm",
            {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 64}
            | {"encoder_attention_heads": 4, "encoder_layers": 6}
            | {"decoder_attention_heads": 4, "decoder_layers": 6},
        ),
        (
            "macaron_classifier",  # two FFNs of half the width each
            {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 32}
            | {"encoder_attention_heads": 4, "encoder_layers": 6},
        ),
        (
            "transevolve_fullff_2",  # two blocks, and a decoder that follows the encoder
            {"encoder_embed_dim": 32, "encoder_ffn_embed_dim": 64}
            | {"encoder_attention_heads": 4, "encoder_depth": 3},
        ),
        (
            "transevolve_lm_fullff_2",
            {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 64}
            | {"decoder_attention_heads": 4, "decoder_depth": 3},
        ),
        (
            "node_transformer_lm",
            {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 64}
            | {"decoder_attention_heads": 4, "decoder_layers": 6},
        ),
        ("transject", {"encoder_embed_dim": 32, "encoder_layers": 6}),
        (
            "transformer_lm_rezero",
            {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 64, "decoder_layers": 6}
            | {"decoder_attention_heads": 4, "decoder_input_dim": 32, "decoder_output_dim": 32},
        ),
    ],
)
def test_sizes_become_options_of_every_architecture(arch, expected):
    assert size_options(arch, SIZES) == expected


def test_sizes_of_the_encoder_are_the_decoders_too():
    """fairseq's decoders do not follow the encoder; options that are set are not repeated."""
    options = size_options("transformer", SIZES, {"encoder_embed_dim": 8, "encoder_layers": 2})
    assert options["decoder_embed_dim"] == 8 and options["decoder_layers"] == 2
    assert options["decoder_ffn_embed_dim"] == 64
    assert "encoder_embed_dim" not in options


def test_blocks_divide_layers():
    assert size_options("transevolve_fullff_2", {"layers": 4})["encoder_depth"] == 2
    assert size_options("transevolve", {"layers": 6}, {"encoder_blocks": 3})["encoder_depth"] == 2
    with pytest.raises(ValueError, match="--layers 5: the architecture has 2 blocks; .*multiple"):
        size_options("transevolve_fullff_2", {"layers": 5})


def test_named_sizes_set_all_four_numbers():
    """A size's name sets four numbers, which other sizes replace; other options are kept."""
    given = {"size": "small", "heads": "2", "lr": "1", "encoder-layers": 5}
    sizes, others = split_sizes(given)
    assert sizes == {"layers": 2, "embed_dim": 128, "attention_heads": 2, "ffn_embed_dim": 512}
    assert others == {"lr": "1", "encoder-layers": 5}
    assert split_sizes({"lr": "1"}) == ({}, {"lr": "1"})


def test_defaults_are_the_presets():
    defaults = default_options("transevolve_randomff_1")
    assert defaults["encoder_depth"] == 6 and defaults["ffn_type"] == "random"
    assert defaults["decoder_depth"] == "${model.encoder_depth}"
