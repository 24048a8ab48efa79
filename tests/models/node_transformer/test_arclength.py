"""Derivatives of trajectories; what is integrated of them is tested with blocks."""

import torch
from torch.func import jacrev

from fairseq_odeformers.models.node_transformer.arclength import derivative
from fairseq_odeformers.models.node_transformer.field import TransformerField

D = 8


def test_derivatives_along_the_trajectory(float64):
    """X'' = f_t + f_X f, and its derivative, by Jacobians."""
    x = torch.randn(D, 3, 1)
    f = TransformerField(D, D // 2, D, time_dependent_attention=True).of_batch(x)

    def total(g):
        def along(t, x):
            g_t, g_x = jacrev(g, argnums=(0, 1))(t, x)
            return g_t + torch.einsum("ctbijk,ijk->ctb", g_x, f(t, x))

        return along

    t = torch.tensor(0.3)
    slope = f(t, x)
    assert (derivative(f, 2, t, x, slope) - total(f)(t, x)).abs().max() < 1e-12
    assert (derivative(f, 3, t, x, slope) - total(total(f))(t, x)).abs().max() < 1e-11
