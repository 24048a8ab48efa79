"""How a model declares its options, as fairseq's command line and Hydra read them."""

from argparse import ArgumentParser, Namespace
from dataclasses import dataclass

import pytest
from fairseq.dataclass import FairseqDataclass
from fairseq.dataclass.utils import gen_parser_from_dataclass
from omegaconf import II, OmegaConf

from fairseq_odeformers.models.common.model import BaseModel
from fairseq_odeformers.options import add_choices, option, validate


@dataclass
class Config(FairseqDataclass):
    encoder_embed_dim: int = option(8, "width d", argparse_alias="--width")
    encoder_attention_heads: int = option(2, "heads")
    encoder_ffn_embed_dim: int = option(16, "inner width")
    encoder_layers: int = option(1, "layers")
    decoder_embed_dim: int = option(II("model.encoder_embed_dim"), "decoder width")
    ffn_type: str = option("full", "feed-forward layers", choices=("full", "random"))


def composed(**changes):
    """The config within a larger one that Hydra composes."""
    config = OmegaConf.create({"model": OmegaConf.structured(Config())})
    return OmegaConf.merge(config, {"model": changes}).model


def test_fairseq_and_hydra_read_default_help_alias_and_choices():
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, Config())
    add_choices(parser, Config)
    assert parser.parse_args([]).encoder_embed_dim == 8
    assert parser.parse_args(["--width", "16"]).encoder_embed_dim == 16
    assert "{full,random}" in parser.format_help()
    with pytest.raises(SystemExit):
        parser.parse_args(["--ffn-type", "half"])
    assert composed(encoder_embed_dim=12).decoder_embed_dim == 12
    with pytest.raises(ValueError, match="--ffn-type half: choose from full, random"):
        validate(composed(ffn_type="half"), Config)


def test_a_derived_model_needs_a_dataclass():
    class Registered(BaseModel):
        """A model class as fairseq's register_model(NAME) leaves it."""

    setattr(Registered, "__dataclass", None)
    with pytest.raises(ValueError, match="Registered is registered .*dataclass=CONFIG"):
        Registered.add_args(ArgumentParser())


@dataclass
class Bounded(Config):
    encoder_embed_dim: int = option(8, "width", at_least=4, multiple_of=4)
    time_dim: int = option(8, "width of time", multiple_of=(2, "encoder_attention_heads"))
    tolerance: float = option(1e-3, "tolerance", above=0)
    dropout: float = option(0.1, "dropout")
    encoder_layerdrop: float = option(0.0, "rate")
    factor: float = option(1.0, "has no bounds")


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("encoder_embed_dim", 2, "give at least 4"),
        ("encoder_embed_dim", 6, "give a multiple of 4"),
        ("encoder_attention_heads", 0, "give at least 1"),
        ("encoder_attention_heads", 3, "give a divisor of --encoder-embed-dim 8"),
        ("encoder_layers", 0, "give at least 1 and at most 10000"),
        ("time_dim", 3, "give a multiple of 2"),
        ("time_dim", 2**31, "give at most 2,147,483,647"),
        ("tolerance", 0, "give above 0"),
        ("tolerance", float("nan"), "give above 0"),
        ("tolerance", float("inf"), "give above 0"),
        ("dropout", 1, "give at least 0 and below 1"),
        ("encoder_layerdrop", 1.5, "give at least 0 and at most 1"),
        ("factor", float("nan"), "give a finite number"),
        ("factor", float("inf"), "give a finite number"),
    ],
)
def test_a_value_out_of_bounds_is_named(name, value, remedy):
    """Bounds are declared by a field, or known for fairseq's own option names."""
    values = {**vars(Bounded()), "decoder_embed_dim": 8}
    validate(Namespace(**values), Bounded)
    with pytest.raises(ValueError) as refused:
        validate(Namespace(**{**values, name: value}), Bounded)
    assert str(refused.value) == f"--{name.replace('_', '-')} {value}: {remedy}"


def test_an_option_that_a_model_does_not_support_is_named():
    reasons = {"scale": "there is nothing to scale"}
    values = {**vars(Bounded()), "decoder_embed_dim": 8}
    validate(Namespace(**values, scale=False), Bounded, reasons)
    with pytest.raises(ValueError, match="--scale True: there is nothing to scale"):
        validate(Namespace(**values, scale=True), Bounded, reasons)
