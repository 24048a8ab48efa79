"""Macaron layers against Eqs. 17 to 19 of the paper, and the layout of the authors' code."""

import math
from itertools import product

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from helpers import assert_same_gradients, layer_norm

from fairseq_odeformers.models.macaron.layer import MacaronDecoderLayer, MacaronEncoderLayer

C, H, INNER = 8, 2, 12


def make_layer(cls, normalize_before, **options):
    torch.manual_seed(0)
    sizes = dict(
        embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=normalize_before
    )
    cfg = TransformerConfig(
        encoder=EncDecBaseConfig(**sizes), decoder=DecoderConfig(**sizes), dropout=0.0, **options
    )
    layer = cls(cfg)
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layer


def linear(layer, x):
    return x @ layer.weight.T + layer.bias


def literal_attention(attn, x, y, causal):
    """Multi-head attention, head by head (Eqs. 3 and 4, with fairseq's scaling per head)."""
    q, k, v = linear(attn.q_proj, x), linear(attn.k_proj, y), linear(attn.v_proj, y)
    heads = []
    for head in range(H):
        columns = slice(head * C // H, (head + 1) * C // H)
        scores = q[:, columns] @ k[:, columns].T / math.sqrt(C // H)
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        heads.append(scores.softmax(-1) @ v[:, columns])
    return linear(attn.out_proj, torch.cat(heads, 1))


def literal_layer(layer, x, source=None):
    """Half a step of an FFN, attention, half a step of another, each with its LayerNorm."""

    def step(x, norm, size, f):
        if layer.normalize_before:
            return x + size * f(layer_norm(norm, x))
        return layer_norm(norm, x + size * f(x))

    def ffn(fc1, fc2):
        return lambda x: linear(fc2, torch.relu(linear(fc1, x)))

    x = step(x, layer.macaron_layer_norm, 1 / 2, ffn(layer.macaron_fc1, layer.macaron_fc2))
    x = step(
        x,
        layer.self_attn_layer_norm,
        1,
        lambda y: literal_attention(layer.self_attn, y, y, causal=source is not None),
    )
    if source is not None:
        x = step(
            x,
            layer.encoder_attn_layer_norm,
            1,
            lambda y: literal_attention(layer.encoder_attn, y, source, causal=False),
        )
    return step(x, layer.final_layer_norm, 1 / 2, ffn(layer.fc1, layer.fc2))


@pytest.mark.parametrize("normalize_before", [True, False])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_layer_equals_the_literal_formula(float64, kind, normalize_before):
    """Output, and gradients of input and parameters.

    fairseq's encoder-decoder attention takes its softmax in float32, whatever the input.
    """
    x = torch.randn(5, 1, C, requires_grad=True)
    source = torch.randn(4, 1, C, requires_grad=True)
    if kind == "encoder":
        layer = make_layer(MacaronEncoderLayer, normalize_before)
        ours, theirs = layer(x, None), literal_layer(layer, x[:, 0])
        inputs = [x, *layer.parameters()]
    else:
        layer = make_layer(MacaronDecoderLayer, normalize_before)
        mask = torch.full((5, 5), -math.inf).triu(1)
        ours, _, _ = layer(x, source, self_attn_mask=mask)
        theirs = literal_layer(layer, x[:, 0], source[:, 0])
        inputs = [x, source, *layer.parameters()]
    tolerance = 1e-9 if kind == "encoder" else 1e-6
    assert_same_gradients(ours[:, 0], theirs, inputs, tolerance)


def test_both_ffns_drop_activations():
    """With all activations dropped, what is left of the FFNs is half of their output biases."""
    layer = make_layer(MacaronEncoderLayer, True, activation_dropout=1.0)
    layer.self_attn.out_proj.weight.data.zero_()
    layer.self_attn.out_proj.bias.data.zero_()
    x = torch.randn(5, 3, C)
    expected = x + layer.macaron_fc2.bias / 2 + layer.fc2.bias / 2
    assert (layer(x, None) - expected).abs().max() < 1e-6


@pytest.mark.parametrize("names", ["released", "ours"])
def test_layer_norms_of_the_authors_checkpoints_get_our_names(names):
    layer = make_layer(MacaronEncoderLayer, True)
    expected = {f"layers.0.{name}": value for name, value in layer.state_dict().items()}
    state = dict(expected)
    if names == "released":
        own = ("self_attn_layer_norm", "final_layer_norm", "macaron_layer_norm")
        for (number, norm), parameter in product(enumerate(own), ("weight", "bias")):
            value = state.pop(f"layers.0.{norm}.{parameter}")
            state[f"layers.0.layer_norms.{number}.{parameter}"] = value
    layer.upgrade_state_dict_named(state, "layers.0")
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], expected[name]) for name in state)
