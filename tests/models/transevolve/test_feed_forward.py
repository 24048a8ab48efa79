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


def make_layer(d, inner):
    """The first of six depths."""
    return RandomRotationFeedForward(BlockSpec(d, inner, 1, depth=6, time_dim=d), depth=1)


@pytest.mark.parametrize("size", [16, 15])
@pytest.mark.parametrize(("rows", "columns"), [(15, 3), (15, 8), (15, 12), (15, 15), (5, 15)])
def test_equals_the_formula(float64, size, rows, columns):
    """Eq. 10, for column numbers within the sines and beyond them; of an odd size, cut off."""
    depth, total_depth = 2, 3
    torch.manual_seed(0)
    matrix = random_rotation(size, rows, columns, depth, total_depth)
    torch.manual_seed(0)
    drawn = min(columns, 8)
    w = torch.zeros(size, 8)
    w[:rows, :drawn] = torch.randn(rows, drawn) * size
    expected = naive.rotation(w, depth, total_depth)[:rows, :columns]
    assert matrix.shape == expected.shape
    assert (matrix - expected).abs().max() < 1e-9


def test_approximates_a_rotation():
    """U U^T is half the identity: exactly on the diagonal, nearly beside it (appendix B)."""
    torch.manual_seed(0)
    u = random_rotation(512, 512, 512, 1, 6)
    product = u @ u.T
    assert torch.allclose(product.diagonal(), torch.full((512,), 0.5), atol=1e-5)
    assert product.fill_diagonal_(0).abs().max() < 6 * 0.5 / math.sqrt(512)


@pytest.mark.parametrize(("d", "inner"), [(8, 32), (32, 8)])
def test_builds_only_what_meets_the_diagonals(d, inner):
    ffn = make_layer(d, inner)
    assert {name: tuple(b.shape) for name, b in ffn.named_buffers()} == {
        "u1": (d, 8),
        "v1_rows": (8, inner),
        "u2": (inner, 8),
        "v2_rows": (8, d),
    }
    assert sum(p.numel() for p in ffn.parameters()) == 2 * 8 + d + inner


def test_rotations_are_part_of_the_model():
    """A layer drawn from other random numbers gives the same output once the state is loaded."""
    torch.manual_seed(0)
    a = make_layer(8, 32)
    b = make_layer(8, 32)
    x = torch.randn(5, 8)
    assert not torch.equal(a(x), b(x))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(x), b(x))


def test_feed_forward_starts_as_in_the_released_code():
    """Diagonals uniform in +-sqrt(6/k), biases zero."""
    ffn = make_layer(2048, 4096)
    for diagonal in (ffn.s1, ffn.s2):
        assert diagonal.abs().max() <= math.sqrt(6 / 2048)
        assert diagonal.var().item() == pytest.approx(2 / 2048, rel=0.1)
    assert not ffn.b1.any() and not ffn.b2.any()
