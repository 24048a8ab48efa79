"""Baselines: fairseq's Transformer, and layers without LayerNorm, with ReZero or orthogonal."""

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from helpers import make_model, source_batch
from torch import nn

from fairseq_odeformers.models.baselines.layers import (
    OrthogonalDecoderLayer,
    OrthogonalEncoderLayer,
    PlainEncoderLayer,
    ReZeroEncoderLayer,
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


def test_plain_layer_equals_the_formula():
    """A layer computes x + Attention(x), then x + FFN(x), and has no LayerNorm."""
    layer = make_layer(PlainEncoderLayer)
    x = torch.randn(5, 2, 8)
    attention, ffn = sublayers(layer, x)
    expected = x + attention + ffn(x + attention)
    assert torch.allclose(layer(x, None), expected, atol=1e-6)
    assert not [name for name, _ in layer.named_parameters() if "norm" in name]


def test_rezero_layer_equals_the_formula():
    """A layer computes x + a Attention(x), then x + a FFN(x), where a number a starts at 0."""
    layer = make_layer(ReZeroEncoderLayer)
    x = torch.randn(5, 2, 8)
    assert torch.equal(layer(x, None), x)
    nn.init.constant_(layer.residual_weight, 0.7)
    attention, ffn = sublayers(layer, x)
    hidden = x + 0.7 * attention
    assert torch.allclose(layer(x, None), hidden + 0.7 * ffn(hidden), atol=1e-6)
    assert not [name for name, _ in layer.named_parameters() if "norm" in name]


def gram_error(weight):
    gram = weight.T @ weight if weight.size(0) >= weight.size(1) else weight @ weight.T
    return (gram - torch.eye(len(gram))).abs().max()


@pytest.mark.parametrize("layer", [OrthogonalEncoderLayer, OrthogonalDecoderLayer])
def test_all_matrices_of_a_layer_stay_orthogonal(layer):
    """Matrices stay orthogonal through 100 updates that turn them far, also under autocast.

    A layer with free matrices has the same number of parameters.
    """
    layer, free = make_layer(layer), make_layer(layer.__mro__[2])
    counts = [sum(p.numel() for p in module.parameters()) for module in (layer, free)]
    assert counts[0] == counts[1]
    linear = [module for module in layer.modules() if isinstance(module, nn.Linear)]
    start = [module.weight.detach() for module in linear]
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    target = [torch.randn_like(weight) for weight in start]
    for _ in range(100):
        optimizer.zero_grad()
        sum((m.weight - t).square().sum() for m, t in zip(linear, target)).backward()
        optimizer.step()
    assert {tuple(weight.shape) for weight in start} >= {(8, 8), (12, 8), (8, 12)}
    for module, old in zip(linear, start):
        assert (module.weight - old).abs().max() > 0.1
        for mixed in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=mixed):
                weight = module.weight
            assert weight.dtype == torch.float32 and gram_error(weight) < 1e-5


def test_prenorm_equals_fairseqs_transformer():
    """The same options give the same parameters, and equal parameters the same output."""
    switches = ["--encoder-normalize-before", "--decoder-normalize-before"]
    theirs = make_model("transformer", *switches).eval()
    ours = make_model("transformer_prenorm").eval()
    ours.load_state_dict(theirs.state_dict())
    tokens, lengths = source_batch()
    assert torch.equal(ours(tokens, lengths, tokens)[0], theirs(tokens, lengths, tokens)[0])
