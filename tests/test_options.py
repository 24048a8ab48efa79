"""How a model declares its options, as fairseq's command line and Hydra read them."""

from argparse import ArgumentParser
from dataclasses import dataclass

import pytest
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from omegaconf import II, OmegaConf
from omegaconf.errors import ValidationError

from fairseq_odeformers.options import (
    DataclassOptions,
    at_least_one,
    check_layers,
    flag,
    option,
    side,
)


@dataclass
class Config(FairseqDataclass):
    encoder_embed_dim: int = option(8, "width d", argparse_alias="--width")
    encoder_attention_heads: int = option(2, "heads")
    encoder_ffn_embed_dim: int = option(16, "inner width")
    encoder_layers: int = option(1, "layers")
    decoder_embed_dim: int = option(II("model.encoder_embed_dim"), "decoder width")
    ffn_type: ChoiceEnum(["full", "random"]) = option("full", "feed-forward layers")


def composed(**changes):
    """The config as part of a larger one, as Hydra composes it."""
    config = OmegaConf.create({"model": OmegaConf.structured(Config())})
    return OmegaConf.merge(config, {"model": changes}).model


def test_fairseq_reads_default_help_alias_and_choices():
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, Config())
    assert parser.parse_args([]).encoder_embed_dim == 8
    assert parser.parse_args(["--width", "16"]).encoder_embed_dim == 16
    assert "feed-forward layers" in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["--ffn-type", "half"])


def test_hydra_resolves_interpolations_and_refuses_other_choices():
    assert composed(encoder_embed_dim=12).decoder_embed_dim == 12
    with pytest.raises(ValidationError, match="ffn_type"):
        composed(ffn_type="half")


def test_a_side_has_its_options_without_the_prefix():
    cfg = composed(encoder_embed_dim=12)
    sizes = {"embed_dim": 12, "attention_heads": 2, "ffn_embed_dim": 16, "layers": 1}
    assert vars(side(cfg, "encoder")) == sizes
    assert vars(side(cfg, "decoder")) == {"embed_dim": 12}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_attention_heads": 0}, "--encoder-attention-heads 0: give at least 1"),
        ({"encoder_embed_dim": -8}, "--encoder-embed-dim -8: give at least 1"),
        ({"encoder_layers": 0}, "--encoder-layers 0: give at least 1"),
        ({"encoder_ffn_embed_dim": 0}, "--encoder-ffn-embed-dim 0: give at least 1"),
        ({"encoder_attention_heads": 3}, "heads 3 does not divide --encoder-embed-dim 8"),
    ],
)
def test_sizes_that_do_not_fit_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        check_layers(composed(**changes), "encoder")


def test_the_first_option_below_one_is_named():
    with pytest.raises(ValueError, match="--decoder-embed-dim 0: give at least 1"):
        at_least_one(composed(decoder_embed_dim=0), "encoder_embed_dim", "decoder_embed_dim")
    assert flag("decoder_embed_dim") == "--decoder-embed-dim"


def test_a_derived_model_needs_a_dataclass():
    class Registered(DataclassOptions):
        """As fairseq's register_model(NAME) leaves it."""

    setattr(Registered, "__dataclass", None)
    with pytest.raises(ValueError, match="Registered is registered .*dataclass=CONFIG"):
        Registered.add_args(ArgumentParser())
