"""Names of models, and segments of checkpoints and models that have them, or one of the two."""

from argparse import ArgumentParser

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.roberta import RobertaModel
from helpers import EOS, make_model
from script_helpers import failing_command

from fairseq_odeformers import build_model

PLAIN, SEGMENTS = [], ["--segment-embeddings"]
WEIGHT = "encoder.sentence_encoder.embed_tokens.segments.weight"
TOKENS = torch.tensor([[0, 5, 6, EOS, 7, 8, EOS]])


def make(arch, options):
    model = make_model(arch, "--encoder-layers", "2", *options).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


PARTS = {
    "decorator": "from fairseq.models import FairseqEncoder, FairseqEncoderModel, register_model",
    "class": "register_model('ode_transformer')(type('Mine', (FairseqEncoderModel,), {}))",
    "package": "import fairseq_odeformers",
}


@pytest.mark.parametrize(
    "order, owner",
    [
        ("package decorator class", "fairseq_odeformers.models.ode_transformer.models"),
        ("decorator package class", "fairseq_odeformers.models.ode_transformer.models"),
        ("decorator class package", "plug"),
    ],
)
def test_a_plugin_cannot_reuse_the_name_of_a_model(order, owner, tmp_path):
    """A second registration of the name is an error in whichever order they are imported."""
    (tmp_path / "plug").mkdir()
    code = "".join(f"{PARTS[part]}\n" for part in order.split())
    (tmp_path / "plug/__init__.py").write_text(code)
    line = f"train absent --user-dir {tmp_path}/plug --task translation --arch ode_transformer"
    *_, last = failing_command(*line.split()).splitlines()
    fault = f"{owner} has a model of this name; choose another"
    assert last == f"ValueError: @register_model('ode_transformer'): {fault}"


CELL = """
import fairseq_odeformers
from dataclasses import dataclass
from fairseq.models import register_model, register_model_architecture
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.options import option


@dataclass
class Config(PreNormTransformerConfig):
    flavour: str = option("plain", "a word")


@register_model("of_a_cell", dataclass=Config)
class Model(PreNormTransformer):
    flavour = "plain"


@register_model_architecture("of_a_cell", "of_a_cell_small")
def small(args):
    args.encoder_layers = 1
"""


def test_a_cell_that_runs_again_registers_the_edited_class():
    """The model, presets and defaults of a run replace those of the run before."""
    for flavour in ("plain", "edited", "edited"):
        cell = {"__name__": "a_notebook"}
        exec(CELL.replace("plain", flavour), cell)
        for arch in ("of_a_cell", "of_a_cell_small"):
            model = build_model(arch, vocabulary=50, encoder_embed_dim=16, encoder_ffn_embed_dim=16)
            assert type(model) is cell["Model"] is ARCH_MODEL_REGISTRY[arch]
            assert (model.flavour, model.cfg.flavour) == (flavour, flavour)
        assert len(model.encoder.layers) == 1


both = pytest.mark.parametrize("arch", ["macaron_bert", "roberta_prenorm"])


@both
def test_segment_embeddings_are_added(arch):
    """A model without the option has no such embedding, and equals a model in which it is zero."""
    plain, segments = make(arch, PLAIN), make(arch, SEGMENTS)
    assert {*segments.state_dict()} - {*plain.state_dict()} == {WEIGHT}
    segments.load_state_dict({**plain.state_dict(), WEIGHT: torch.zeros(2, 16)})
    assert torch.equal(segments(TOKENS)[0], plain(TOKENS)[0])
    torch.nn.init.normal_(segments.state_dict()[WEIGHT])
    assert not torch.allclose(segments(TOKENS)[0], plain(TOKENS)[0], atol=1e-3)


@both
def test_a_checkpoint_without_segments_leaves_initial_ones(arch, caplog):
    plain, segments = make(arch, PLAIN), make(arch, SEGMENTS)
    initial = segments.state_dict()[WEIGHT].clone()
    segments.load_state_dict(plain.state_dict())
    assert torch.equal(segments.state_dict()[WEIGHT], initial)
    assert f"{WEIGHT} is not in the checkpoint" in caplog.text


@both
def test_a_checkpoint_with_segments_needs_the_option(arch):
    with pytest.raises(ValueError, match="give --segment-embeddings"):
        make(arch, PLAIN).load_state_dict(make(arch, SEGMENTS).state_dict())


class Derived(RobertaModel):
    @staticmethod
    def add_args(parser):
        RobertaModel.add_args(parser)
        parser.add_argument("--segment-embeddings", type=int)


def test_a_model_that_derives_from_roberta_may_have_an_option_of_this_name():
    parser = ArgumentParser()
    Derived.add_args(parser.add_argument_group("model"))
    assert parser.parse_args(["--segment-embeddings", "3"]).segment_embeddings == 3
