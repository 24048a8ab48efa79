"""Pooling over real tokens."""

import pytest
import torch

from fairseq_odeformers.modules.classification_head import POOLING, ClassificationHead


@pytest.mark.parametrize("first", [0, 2])  # padding on the right, or on both sides
def test_pooling_ignores_padding(first):
    real = torch.randn(4, 5)
    x, padding = torch.full((2, 7, 5), 100.0), torch.ones(2, 7, dtype=torch.bool)
    x[1, first : first + 4], padding[1, first : first + 4], padding[0] = real, False, False
    for name, expected in [("mean", real.mean(0)), ("max", real.amax(0)), ("first", real[0])]:
        assert torch.allclose(POOLING[name](x, padding)[1], expected)


@pytest.mark.parametrize("name", POOLING)
def test_a_text_of_padding_alone_has_finite_scores(name):
    pooled = POOLING[name](torch.randn(1, 3, 4), torch.ones(1, 3, dtype=torch.bool))
    assert ClassificationHead(4, num_classes=3)(pooled).isfinite().all()


def test_both_texts_of_a_pair_are_normalised():
    """Scaling or shifting a pooled text does not change the scores. Swapping the texts does."""
    head = ClassificationHead(8, num_classes=3, towers=2)
    x, y = torch.randn(2, 4, 8)
    scores = head(x, y)
    for changed in (head(5 * x + 3, y), head(x, 5 * y + 3)):
        assert (changed - scores).abs().max() < 1e-3
    assert (head(y, x) - scores).abs().max() > 0.1
    plain = ClassificationHead(8, num_classes=3, layer_norm=False, towers=2)
    assert (plain(x, 5 * y + 3) - plain(x, y)).abs().max() > 0.1


def test_mean_of_a_long_text_in_half_precision():
    """The mean is exact although the sum exceeds the largest number of float16."""
    x = torch.full((1, 4000, 2), 20.0, dtype=torch.float16)
    pooled = POOLING["mean"](x, torch.zeros(1, 4000, dtype=torch.bool))
    assert pooled.dtype == torch.float16
    assert (pooled == 20).all()
