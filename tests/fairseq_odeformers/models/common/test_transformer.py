"""Specs: each option reaches the layers of its side, whoever adds it."""

from dataclasses import dataclass

import pytest
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import (
    PAD,
    LanguageModelling,
    Task,
    call,
    make_model,
    model_config,
    source_batch,
    task_of,
)
from omegaconf import OmegaConf

from fairseq_odeformers.models.common.runge_kutta import RungeKuttaStack, hand_over
from fairseq_odeformers.models.common.transformer import BlockEncoder, Decoder, Encoder, Spec
from fairseq_odeformers.models.ode_transformer.layer import RungeKuttaEncoderLayer
from fairseq_odeformers.models.ode_transformer.spec import BlockSpec
from fairseq_odeformers.modules.coefficients import make_coefficients
from fairseq_odeformers.modules.transformer_layer import Block


@dataclass(frozen=True)
class Sizes(Spec):
    width: int
    dropout: float = 0.0
    heads: int = 3


def test_a_spec_reads_the_options_of_its_side():
    """An option of the side replaces the common one; a field without an option has its default."""
    sizes = {"encoder_width": 8, "decoder_width": 12, "dropout": 0.1, "decoder_dropout": 0.2}
    cfg = OmegaConf.create({**sizes, "width": 1, "depth": "${dropout}"})
    assert Sizes.from_options(cfg, "encoder") == Sizes(8, dropout=0.1)
    assert Sizes.from_options(cfg, "decoder") == Sizes(12, dropout=0.2)


def with_warmth(stack):
    """A plugin's stack over layers with another option, and the class of these layers."""
    part = next(
        name for name in ("block_class", "field_class", "layer_class") if hasattr(stack, name)
    )

    @dataclass(frozen=True)
    class WarmSpec(stack.spec_class):
        warmth: float = 0.0

    class Warm(getattr(stack, part)):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            (spec,) = (each for each in args if isinstance(each, WarmSpec))
            self.warmth = spec.warmth

    return type("WarmStack", (stack,), {"spec_class": WarmSpec, part: Warm}), Warm


@pytest.mark.parametrize(
    "arch",
    ["transevolve", "transevolve_classifier", "node_transformer", "node_transformer_mt"]
    + ["transject", "transject_lm", "transevolve_lm", "node_transformer_lm", "diffeq_transformer"]
    + ["ot_transformer", "ot_transformer_classifier", "ode_transformer_lm"],
)
def test_the_option_of_a_plugin_reaches_its_layers(arch):
    base, layers, stacks = ARCH_MODEL_REGISTRY[arch], {}, {}
    for side in ("encoder", "decoder"):
        if hasattr(base, f"{side}_class"):
            stacks[f"{side}_class"], layers[side] = with_warmth(getattr(base, f"{side}_class"))
    kind = task_of(arch)
    criterion = ["--criterion", kind] if kind == "sentence_prediction" else []
    cfg = model_config(arch, *criterion, task=kind)
    cfg = OmegaConf.create({**cfg, "warmth": 0.5, "decoder_warmth": 0.25})
    task = LanguageModelling() if kind == "language_modeling" else Task()
    with torch.device("meta"):
        model = type("WarmModel", (base,), stacks).build_model(cfg, task)
    for side, warm in layers.items():
        warmths = [m.warmth for m in getattr(model, side).modules() if isinstance(m, warm)]
        assert len(warmths) == len(getattr(model, side).layers)
        assert set(warmths) == {0.5 if side == "encoder" else 0.25}


@pytest.mark.parametrize("switch", [[], ["--no-decoder-normalize-before"]])
def test_a_switch_of_the_decoder_defaults_to_the_encoders(switch):
    model = make_model("node_transformer_mt", *switch)
    norms = [len(stack.layers[0].field.layer_norms) for stack in (model.encoder, model.decoder)]
    assert norms == [2, 0 if switch else 3]
    model = make_model("node_transformer_mt", "--no-encoder-normalize-before")
    assert not model.decoder.layers[0].field.layer_norms and model.decoder.layer_norm is None


def test_the_layers_of_both_stacks_take_texts_of_padding():
    """As a plugin's stacks have them that set no ``layer_class``."""
    model, (source, _) = make_model("ode_transformer"), source_batch()
    target = source.flip(1)
    source[1] = PAD
    for side, stack in (("encoder", Encoder), ("decoder", Decoder)):
        part = getattr(model, side)
        setattr(model, side, stack(part.cfg, part.dictionary, part.embed_tokens))
    assert model(**call(model, source, target))[0].isfinite().all()


class SharingEncoder(RungeKuttaStack, Encoder):
    """The stack of a plugin whose layers share coefficients."""

    layer_class, spec_class = RungeKuttaEncoderLayer, BlockSpec

    def share(self, layers):
        self.coefficients = make_coefficients(2, "learned", self.spec.embed_dim)
        hand_over(self, ["coefficients"], layers)


def test_layers_that_share_a_module_stay_the_layers_of_their_stack():
    """The stack has no history of its layers unless a family adds one."""
    part, (source, _) = make_model("transformer_prenorm").encoder, source_batch()
    encoder = SharingEncoder(part.cfg, part.dictionary, part.embed_tokens)
    assert [type(layer) for layer in encoder.layers] == [RungeKuttaEncoderLayer] * 2
    encoder(source)["encoder_out"][0].sum().backward()
    assert encoder.coefficients.gamma.grad.any()


@dataclass(frozen=True)
class Width(Spec):
    embed_dim: int


class TwoMaps(Block):
    """The block of a plugin, with two layers."""

    def __init__(self, spec):
        super().__init__()
        self.maps = torch.nn.ModuleList(
            torch.nn.Linear(spec.embed_dim, spec.embed_dim) for _ in range(2)
        )

    def state_modules(self):
        return self.maps

    def forward(self, x, *args, **kwargs):
        for layer in self.maps:
            x = layer(x)
        return x


class TwoMapsEncoder(BlockEncoder):
    block_class, spec_class = TwoMaps, Width


def test_blocks_that_recompute_activations_train_in_fairseqs_transformer():
    """fairseq's Transformer asks for all hidden states, although only the arclength needs them."""
    source, _ = source_batch()
    gradients = []
    for options in ([], ["--checkpoint-activations"]):
        cfg = model_config("transformer_prenorm", "--encoder-layers", "3", *options)
        torch.manual_seed(0)
        base = ARCH_MODEL_REGISTRY["transformer_prenorm"]
        plugin = type("TwoMapsTransformer", (base,), {"encoder_class": TwoMapsEncoder})
        model = plugin.build_model(cfg, Task()).eval()
        with torch.no_grad():
            assert len(model.encoder(source, return_all_hiddens=True)["encoder_states"]) == 1 + 6
        model(**call(model, source, source.flip(1)))[0].sum().backward()
        gradients.append({name: p.grad for name, p in model.encoder.layers.named_parameters()})
    plain, recomputed = gradients
    assert plain.keys() == recomputed.keys() and len(plain) == 3 * 2 * 2
    assert all(torch.allclose(plain[name], recomputed[name], atol=1e-3) for name in plain)
