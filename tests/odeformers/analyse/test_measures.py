"""Measures of hidden states against literal formulas and known answers."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics.pairwise import euclidean_distances

from odeformers.analyse.measures import (
    activation_factors,
    differential_entropy,
    dot_product_factors,
    isomap,
    summarize,
)


def pairs(states):
    """A layer, the place of a pair of its tokens among the factors, and the two tokens."""
    layers, tokens, _ = states.shape
    every = [(i, j) for i in range(tokens) for j in range(i + 1, tokens)]
    return [(layer, place, *pair) for layer in range(1, layers) for place, pair in enumerate(every)]


def test_activation_factors_equal_the_formula():
    """A pair of equal embeddings has no factor."""
    torch.manual_seed(0)
    states = torch.randn(4, 6, 5, dtype=torch.float64)
    states[0, 2] = states[0, 0]
    factors = activation_factors(states)
    for layer, place, i, j in pairs(states):
        now, before = (
            math.sqrt(sum((x[i, c] - x[j, c]).item() ** 2 for c in range(5)))
            for x in (states[layer], states[0])
        )
        expected = now / before if before else math.nan
        assert factors[layer - 1, place] == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_dot_products_equal_the_formula():
    """A pair of orthogonal embeddings has no factor."""
    torch.manual_seed(0)
    states = torch.randn(3, 4, 5, dtype=torch.float64)
    states[0, 2] = 0
    factors = dot_product_factors(states)
    for layer, place, i, j in pairs(states):
        now, before = (sum(a * b for a, b in zip(x[i], x[j])) for x in states[[layer, 0]])
        expected = float(now / before) if before else math.nan
        assert factors[layer - 1, place] == pytest.approx(expected, rel=1e-10, nan_ok=True)


@pytest.mark.parametrize("neurons, tolerance", [(32, 0.12), (256, 0.03), (512, 0.02)])
@pytest.mark.parametrize("scale", [0.1, 1.0, 20.0])
def test_entropy_of_known_densities(neurons, tolerance, scale):
    torch.manual_seed(0)
    gaussian = differential_entropy(scale * torch.randn(2, 500, neurons))
    uniform = differential_entropy(scale * torch.rand(2, 500, neurons))
    assert gaussian.shape == (2, 500)
    assert gaussian.mean().item() == pytest.approx(
        0.5 * math.log(2 * math.pi * math.e * scale**2), abs=tolerance
    )
    assert uniform.mean().item() == pytest.approx(math.log(scale), abs=tolerance)


def test_entropy_of_a_constant_vector_is_minus_infinity():
    """A constant vector does not change the entropy of the other vectors."""
    torch.manual_seed(0)
    values = torch.randn(3, 64)
    before = differential_entropy(values)
    values[1] = 2.0
    after = differential_entropy(values)
    assert after[1] == -math.inf
    assert torch.equal(after[[0, 2]], before[[0, 2]])


def test_summaries_leave_out_non_finite_values():
    values = torch.tensor([[5.0, -math.inf, 1.0, 2.0, math.nan], [math.nan] * 5])
    summary = summarize(values)
    assert summary.pop("left_out").tolist() == [2, 5]
    assert [row[0] for row in summary.values()] == pytest.approx([8 / 3, 1, 1.5, 2, 3.5, 5])
    assert all(np.isnan(row[1]) for row in summary.values())


def test_isomap_keeps_distances_in_a_plane():
    """If all points are neighbours, distances are kept, also between layers with the same mean."""
    generator = np.random.default_rng(0)
    plane = np.linalg.qr(generator.normal(size=(9, 2)))[0].T
    points = generator.normal(size=(2, 3, 2))
    points -= points.mean(1, keepdims=True)
    shift = generator.normal(size=(2, 1, 9))
    mapped = isomap(torch.from_numpy(points @ plane + shift))
    assert mapped.shape == (2, 3, 2)
    assert euclidean_distances(mapped.reshape(6, 2)) == pytest.approx(
        euclidean_distances(points.reshape(6, 2)), abs=1e-6
    )
