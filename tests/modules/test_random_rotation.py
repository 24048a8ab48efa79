"""The random sine-cosine matrices and the feed-forward layer made of them."""

import math

import pytest
import torch

from fairseq_odeformers.modules.random_rotation import RandomRotationFeedForward, random_rotation


@pytest.mark.parametrize("columns", [3, 8, 12, 16])
def test_equals_the_literal_formula(columns):
    """Entry by entry (Eq. 10), for column numbers within the sines and beyond them."""
    size, depth, total_depth = 16, 2, 3
    torch.manual_seed(0)
    matrix = random_rotation(size, columns, depth, total_depth)
    torch.manual_seed(0)
    w = torch.randn(size, min(columns, size // 2)) * size
    period = size * total_depth / (2 * math.pi)
    for i in range(size):
        for column in range(columns):
            j = column % (size // 2)
            wave = math.sin if column < size // 2 else math.cos
            expected = wave(w[i, j].item() * (j + 1) * depth / period) / math.sqrt(size)
            assert abs(matrix[i, column].item() - expected) < 1e-4


def test_approximates_a_rotation():
    """U U^T is half the identity: exactly on the diagonal, nearly beside it (appendix B)."""
    torch.manual_seed(0)
    u = random_rotation(512, 512, 1, 6)
    product = u @ u.T
    assert torch.allclose(product.diagonal(), torch.full((512,), 0.5), atol=1e-5)
    assert product.fill_diagonal_(0).abs().max() < 6 * 0.5 / math.sqrt(512)


def test_depths_differ():
    torch.manual_seed(0)
    a = random_rotation(8, 8, 1, 6)
    torch.manual_seed(0)
    assert not torch.allclose(a, random_rotation(8, 8, 2, 6))


@pytest.mark.parametrize(("d", "inner"), [(8, 32), (32, 8)])
def test_builds_only_the_columns_that_matter(d, inner):
    ffn = RandomRotationFeedForward(d, inner, 1, 6)
    assert {name: tuple(b.shape) for name, b in ffn.named_buffers()} == {
        "u1": (d, 8),
        "v1": (inner, 8),
        "u2": (inner, 8),
        "v2": (d, 8),
    }
    assert sum(p.numel() for p in ffn.parameters()) == 2 * 8 + d + inner


def test_rotations_are_part_of_the_model():
    """A layer drawn from other random numbers gives the same output once the state is loaded."""
    torch.manual_seed(0)
    a = RandomRotationFeedForward(8, 32, 1, 6)
    b = RandomRotationFeedForward(8, 32, 1, 6)
    x = torch.randn(5, 8)
    assert not torch.equal(a(x), b(x))
    b.load_state_dict(a.state_dict())
    assert torch.equal(a(x), b(x))
