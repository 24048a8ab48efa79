"""States of layers, heads and experts, of every registered classifier."""

import math
import re
from functools import cache

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from helpers import CLASSIFIERS, make_classifier

from fairseq_odeformers.models.baselines.modern import SelfAttention
from fairseq_odeformers.models.common.recording import first_calls, record_calls
from fairseq_odeformers.models.transevolve.attention import merge_heads
from fairseq_odeformers.models.transevolve.block import TransEvolveLayer
from fairseq_odeformers.models.transject.layer import MixtureOfExperts
from odeformers.analyse.text_states import residual_weights, text_states

TRANSJECT = [arch for arch in CLASSIFIERS if arch.startswith("transject")]
# Their blocks have as many states of the heads as evaluations of the field.
FLOWS = ["node_transformer", "ot_transformer_classifier"]
WITHOUT_HEADS = [*TRANSJECT, *FLOWS]
WITH_SCALARS = ["yuriiformer_classifier", "tmmformer_classifier"]  # of several kinds
STEPS = "diffeq_transformer_classifier"  # whose one attention is called in each step
ATTENTIONS = MultiheadAttention, SelfAttention
WITH_HEADS = [arch for arch in CLASSIFIERS if arch not in (*WITHOUT_HEADS, STEPS)]


@cache
def make(arch, *extra):
    """A classifier whose residual weights are not zero; tests leave it as it is."""
    model = make_classifier(arch, *extra).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("residual_weight"):
            torch.nn.init.normal_(parameter)
    return model


def text():
    torch.manual_seed(1)
    return torch.randint(4, 50, (7,))


def depth(model):
    cfg = model.args
    if hasattr(cfg, "ode_field"):  # a flow, whose states are those of its steps
        return cfg.ode_steps
    layers = getattr(cfg, "encoder_layers", None) or getattr(cfg, "encoder_steps", None)
    return layers or cfg.encoder_blocks * cfg.encoder_depth


@pytest.mark.parametrize("arch", CLASSIFIERS)
def test_a_state_of_the_embedding_and_of_each_layer(arch):
    """The last is the output of the encoder, but for a LayerNorm that follows the layers."""
    model, tokens = make(arch), text()
    states = text_states(model, tokens)
    assert (states.parts is None) == (arch in FLOWS)
    assert (states.expert_weights is None) == (arch not in TRANSJECT)
    assert states.layers.shape == (depth(model) + 1, 7, 16)
    with torch.no_grad():
        output = model.encoder(tokens.unsqueeze(0), None)["encoder_out"][0].squeeze(1)
    last = states.layers[-1]
    norm = getattr(model.encoder, "layer_norm", None)
    assert torch.allclose(norm(last) if norm else last, output, atol=1e-6)
    steps = (states.layers[1:] - states.layers[:-1]).abs().amax((1, 2))
    assert (steps > 1e-4).all()


@pytest.mark.parametrize("arch", WITH_HEADS)
def test_heads_joined_are_the_attention(arch):
    """Through the projection after them, they are what the attention returns."""
    model = make(arch)
    projections = [
        getattr(module, "out_proj", None) or module.self_attn_out_proj
        for module in model.encoder.modules()
        if isinstance(module, (*ATTENTIONS, TransEvolveLayer))
    ]
    attentions = (m for m in model.encoder.modules() if isinstance(m, ATTENTIONS))
    with record_calls(attentions) as calls, record_calls(projections) as projected:
        heads = text_states(model, text()).parts
    text_states(model, text())  # which is not recorded
    found = [call.output for call in first_calls(calls)]
    outputs = [(x[0] if isinstance(x, tuple) else x)[:, 0] for x in found] or [
        call.output[0] for call in projected
    ]
    assert len(heads) == len(outputs) == depth(model)
    with torch.no_grad():
        for head, project, output in zip(heads, projections, outputs):
            assert head.size(0) == model.args.encoder_attention_heads
            assert torch.allclose(project(merge_heads(head)), output, atol=1e-6)


@torch.no_grad()
def test_heads_of_each_step_joined_are_the_attention():
    model = make(STEPS)
    attention = model.encoder.layers[0].self_attn
    heads = text_states(model, text()).parts
    with record_calls([attention]) as calls:
        model.encoder(text().unsqueeze(0), None)
    assert len(heads) == len(calls) == depth(model)
    for head, call, (weight, bias) in zip(heads, calls, attention.out_proj.tensors()):
        assert torch.allclose(F.linear(merge_heads(head), weight, bias), call.output[0], atol=1e-6)


@pytest.mark.parametrize("arch", TRANSJECT)
@pytest.mark.parametrize("experts", [1, 3])
def test_weighted_experts_are_the_mixture(arch, experts):
    model = make(arch, "--encoder-experts", str(experts))
    mixtures = (m for m in model.encoder.modules() if isinstance(m, MixtureOfExperts))
    with record_calls(mixtures) as calls:
        states = text_states(model, text())
    assert states.parts.shape == (depth(model), experts, 7, 16)
    assert torch.allclose(states.expert_weights.sum(1), torch.ones(depth(model)))
    together = torch.einsum("le,letc->ltc", states.expert_weights, states.parts)
    for mixture, call in zip(together, calls):
        assert torch.allclose(mixture, call.output[0], atol=1e-6)


@pytest.mark.parametrize("arch", [arch for arch in CLASSIFIERS if arch not in WITH_SCALARS])
def test_residual_weights(arch):
    model = make(arch)
    weights = residual_weights(model)
    raw = [p for name, p in model.named_parameters() if name.endswith("residual_weight")]
    expected = [F.tanh(p) if arch in TRANSJECT else p for p in raw]
    assert weights == [{"alpha": pytest.approx(p.item())} for p in expected]
    assert len(weights) in (0, depth(model))


@pytest.mark.parametrize("arch", WITH_SCALARS)
def test_scalars_of_a_velocity(arch):
    """Those of each step; at rest there is nothing but a step's size."""
    scalars = ["mu", "beta_over_gamma", *["nu"] * (arch == "tmmformer_classifier")]
    first, second = residual_weights(make(arch))
    assert {*second} == {f"{part}_{name}" for part in ("self_attn", "ffn") for name in scalars}
    assert {*second} - {*first} == {"self_attn_mu", "self_attn_beta_over_gamma"}
    for name, value in {**first, **second}.items():
        expected = {"mu": 0.5, "beta_over_gamma": 0.5 / math.log(2), "nu": 1}
        assert value == pytest.approx(expected[re.sub("^(self_attn|ffn)_", "", name)])
