"""Layers without LayerNorm, with zero-initialised residual weights, with orthogonal matrices."""

import torch
from fairseq.models.transformer import TransformerConfig
from torch import nn

from fairseq_odeformers.models.baselines.layers import (
    PlainEncoderLayer,
    ReZeroDecoderLayer,
    ReZeroEncoderLayer,
    orthogonalize,
)


def make_layer(layer):
    torch.manual_seed(0)
    cfg = TransformerConfig(dropout=0.0)
    cfg.encoder.embed_dim = cfg.decoder.embed_dim = 8
    cfg.encoder.ffn_embed_dim = cfg.decoder.ffn_embed_dim = 12
    cfg.encoder.attention_heads = cfg.decoder.attention_heads = 2
    return layer(cfg)


def sublayers(layer, x):
    """Attention and feed-forward network of a layer, from and to (T, B, C)."""
    attention = layer.self_attn(x, x, x, need_weights=False)[0]
    return attention, lambda x: layer.fc2(torch.relu(layer.fc1(x)))


def test_plain_layer():
    """x + Attention(x), then x + FFN(x)."""
    layer = make_layer(PlainEncoderLayer)
    x = torch.randn(5, 2, 8)
    attention, ffn = sublayers(layer, x)
    expected = x + attention + ffn(x + attention)
    assert torch.allclose(layer(x, None), expected, atol=1e-6)
    assert not [name for name, _ in layer.named_parameters() if "norm" in name]


def test_rezero_layer():
    """x + a Attention(x), then x + a FFN(x), with one number a, which starts at 0."""
    layer = make_layer(ReZeroEncoderLayer)
    x = torch.randn(5, 2, 8)
    assert torch.equal(layer(x, None), x)
    nn.init.constant_(layer.residual_weight, 0.7)
    attention, ffn = sublayers(layer, x)
    hidden = x + 0.7 * attention
    assert torch.allclose(layer(x, None), hidden + 0.7 * ffn(hidden), atol=1e-6)
    assert not [name for name, _ in layer.named_parameters() if "norm" in name]


def test_rezero_decoder_layer_starts_as_the_identity():
    layer = make_layer(ReZeroDecoderLayer)
    x = torch.randn(5, 2, 8)
    assert torch.equal(layer(x, torch.randn(4, 2, 8))[0], x)
    nn.init.ones_(layer.residual_weight)
    assert not torch.allclose(layer(x, torch.randn(4, 2, 8))[0], x)


def test_square_matrices_stay_orthogonal(float64):
    """Before and after a step of an optimiser that knows nothing of it; others are left alone."""
    module = orthogonalize(nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 4), nn.Linear(4, 4)))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    before = [layer.weight.detach().clone() for layer in module]
    module(torch.randn(3, 6)).square().sum().backward()
    optimizer.step()
    for layer, old in zip(module, before):
        new = layer.weight
        assert (new - old).abs().max() > 1e-3
        if new.size(0) == new.size(1):
            for matrix in (old, new):
                assert (matrix @ matrix.T - torch.eye(len(matrix))).abs().max() < 1e-12
