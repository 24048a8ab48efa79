"""The random sine-cosine matrices and the feed-forward layer made of them."""

import math

import pytest
import torch

from fairseq_odeformers.models.transevolve import naive
from fairseq_odeformers.models.transevolve.feed_forward import (
    RandomRotationFeedForward,
    random_rotation,
)
from fairseq_odeformers.models.transevolve.spec import BlockSpec


@pytest.mark.parametrize("size", [16, 15])
@pytest.mark.parametrize(("rows", "columns"), [(15, 3), (15, 8), (15, 12), (15, 15), (5, 15)])
def test_random_matrices_equal_the_formula(float64, size, rows, columns):
    """Eq. 10 holds for columns within the sines and beyond them, and odd sizes are truncated."""
    number, depth = 2, 3
    torch.manual_seed(0)
    matrix = random_rotation(size, rows, columns, number, depth)
    torch.manual_seed(0)
    drawn = min(columns, 8)
    w = torch.zeros(size, 8)
    w[:rows, :drawn] = torch.randn(rows, drawn) * size
    expected = naive.rotation(w, number, depth)[:rows, :columns]
    assert matrix.shape == expected.shape
    assert (matrix - expected).abs().max() < 1e-9


def test_random_matrices_approximate_rotations():
    """U U^T is half the identity, exactly on the diagonal and nearly beside it (appendix B)."""
    torch.manual_seed(0)
    u = random_rotation(512, 512, 512, 1, 6)
    product = u @ u.T
    assert torch.allclose(product.diagonal(), torch.full((512,), 0.5), atol=1e-5)
    assert product.fill_diagonal_(0).abs().max() < 6 * 0.5 / math.sqrt(512)


def test_feed_forward_starts_as_in_the_released_code():
    """Diagonals are uniform in +-sqrt(6/k), and biases are zero."""
    ffn = RandomRotationFeedForward(BlockSpec(2048, 4096, 1, depth=6, time_dim=2048), number=1)
    for diagonal in (ffn.s1, ffn.s2):
        assert diagonal.abs().max() <= math.sqrt(6 / 2048)
        assert diagonal.var().item() == pytest.approx(2 / 2048, rel=0.1)
    assert not ffn.b1.any() and not ffn.b2.any()
