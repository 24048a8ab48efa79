"""Macaron layers against Eqs. 17 to 19 of the paper."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from helpers import assert_same_gradients, sub_layers

from fairseq_odeformers.models.macaron import naive
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


def formula(layer, x, source=None):
    """The layer by the paper's equations, from and to (T, C); with a source, a decoder layer."""
    ffn, attention = sub_layers(H)
    down = ffn(layer.macaron_fc1, layer.macaron_fc2, layer.macaron_layer_norm)
    up = ffn(layer.fc1, layer.fc2, layer.final_layer_norm)
    own = layer.self_attn, layer.self_attn_layer_norm
    if source is None:
        return naive.encoder_layer(x, down, attention(*own), up, layer.normalize_before)
    other = layer.encoder_attn, layer.encoder_attn_layer_norm
    attentions = attention(*own, causal=True), attention(*other, source)
    return naive.decoder_layer(x, down, *attentions, up, layer.normalize_before)


@pytest.mark.parametrize("normalize_before", [True, False])
@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_layer_equals_the_formula(float64, kind, normalize_before):
    """The output and the gradients of the input and the parameters equal the formula's.

    fairseq's encoder-decoder attention computes its softmax in float32, whatever the input.
    """
    x = torch.randn(5, 1, C, requires_grad=True)
    source = torch.randn(4, 1, C, requires_grad=True)
    if kind == "encoder":
        layer = make_layer(MacaronEncoderLayer, normalize_before)
        ours, theirs = layer(x, None), formula(layer, x[:, 0])
        inputs = [x, *layer.parameters()]
    else:
        layer = make_layer(MacaronDecoderLayer, normalize_before)
        mask = torch.full((5, 5), -math.inf).triu(1)
        ours, _, _ = layer(x, source, self_attn_mask=mask)
        theirs = formula(layer, x[:, 0], source[:, 0])
        inputs = [x, source, *layer.parameters()]
    tolerance = 1e-9 if kind == "encoder" else 1e-6
    assert_same_gradients(ours[:, 0], theirs, inputs, tolerance)


def test_both_ffns_drop_activations():
    """With all activations dropped, the FFNs return half of their output biases."""
    layer = make_layer(MacaronEncoderLayer, True, activation_dropout=1.0)
    layer.self_attn.out_proj.weight.data.zero_()
    layer.self_attn.out_proj.bias.data.zero_()
    x = torch.randn(5, 3, C)
    expected = x + layer.macaron_fc2.bias / 2 + layer.fc2.bias / 2
    assert (layer(x, None) - expected).abs().max() < 1e-6
