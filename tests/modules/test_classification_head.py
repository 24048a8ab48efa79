"""Pooling over real tokens, and the scores of one text and of two."""

import pytest
import torch
from torch import nn

from fairseq_odeformers.modules.classification_head import POOLING, ClassificationHead


@pytest.mark.parametrize("first", [0, 2])  # padding on the right, or on both sides
def test_pooling_sees_real_tokens_only(first):
    real = torch.randn(4, 5)
    x, padding = torch.full((2, 7, 5), 100.0), torch.ones(2, 7, dtype=torch.bool)
    x[1, first : first + 4], padding[1, first : first + 4], padding[0] = real, False, False
    for name, expected in [("mean", real.mean(0)), ("max", real.amax(0)), ("first", real[0])]:
        assert torch.allclose(POOLING[name](x, padding)[1], expected)


@pytest.mark.parametrize("name", POOLING)
def test_a_text_of_padding_alone_has_finite_scores(name):
    pooled = POOLING[name](torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool))
    assert ClassificationHead(4, num_classes=3)(pooled).isfinite().all()


def test_mean_of_a_long_text_in_half_precision():
    """Its sum is beyond the largest number of float16."""
    x = torch.full((1, 4000, 2), 20.0, dtype=torch.float16)
    pooled = POOLING["mean"](x, torch.zeros(1, 4000, dtype=torch.bool))
    assert pooled.dtype == torch.float16
    assert (pooled == 20).all()


def test_scores_of_one_text(float64):
    head = ClassificationHead(6, num_classes=3, hidden_layers=2)
    x = torch.randn(2, 6)
    hidden = (x - x.mean(-1, keepdim=True)) / (x.var(-1, False, keepdim=True) + 1e-5).sqrt()
    for layer in (layer for layer in head.hidden if isinstance(layer, nn.Linear)):
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    expected = hidden @ head.out_proj.weight.T + head.out_proj.bias
    assert (head(x) - expected).abs().max() < 1e-9


def test_scores_of_two_texts():
    """A linear map of [x1, x2, x1 * x2, x1 - x2]."""
    head = ClassificationHead(6, num_classes=3, layer_norm=False, towers=2)
    a, b = torch.randn(2, 2, 6)
    parts = head.out_proj.weight.split(6, dim=1)
    expected = sum(x @ part.T for x, part in zip((a, b, a * b, a - b), parts))
    assert torch.allclose(head(a, b), expected + head.out_proj.bias, atol=1e-6)
