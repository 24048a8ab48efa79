"""The N-ODE Transformer as its paper writes it, for reading: no fast path and no solver of our own.

The equations of Baier-Reinio and De Sterck (2020) in the paper's order, of states X (..., T, C) and
the maps of a :class:`~.field.TransformerField`, which are A x + b + c t (Eqs. 4 and 5). As in the
paper there is no LayerNorm and no dropout. Tests hold the blocks against them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchdiffeq import odeint

from .attention import MultiheadAttention
from .field import TransformerField
from .runge_kutta import Time

POINTS = 1001  # of the integral over time


def vector_field(field: TransformerField, t: Time, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """FFN_t(alpha X + MHSA_t(X)): Eq. 2 with alpha = 0, Eq. 3 with alpha = 1.

    Args:
        mask: true where a key is padding, broadcast to the scores (..., H, T, T).
    """
    attended = self_attention(field.self_attn, t, x, mask)
    return feed_forward(field, t, x + attended if field.skip_connection else attended)


def residual_vector_field(field: TransformerField, t: Time, x: Tensor) -> Tensor:
    """MHSA_t(X) + FFN_t(X + MHSA_t(X)) (Eq. 9)."""
    attended = self_attention(field.self_attn, t, x)
    return attended + feed_forward(field, t, x + attended)


def self_attention(
    maps: MultiheadAttention, t: Time, x: Tensor, mask: Tensor | None = None
) -> Tensor:
    """MHSA_t(X), whose maps are Eq. 4, or Eq. 5 with ``--time-dependent-attention``."""

    def heads(x):
        return x.unflatten(-1, (maps.num_heads, -1)).transpose(-3, -2)  # ..., H, T, C/H

    q, k, v = (heads(linear(t, x)) for linear in (maps.q, maps.k, maps.v))
    scores = q @ k.transpose(-2, -1) * q.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return maps.out(t, (scores.softmax(-1) @ v).transpose(-3, -2).flatten(-2))


def feed_forward(field: TransformerField, t: Time, x: Tensor) -> Tensor:
    """FFN_t(X): two maps of Eq. 5 with ReLU between them."""
    return field.fc2(t, torch.relu(field.fc1(t, x)))


def solve(slope, x: Tensor, final_time: float, **options) -> Tensor:
    """X(T_F) of X' = *slope*(t, X) from X(0) = *x*; the options are those of ``odeint``."""
    return odeint(slope, x, x.new_tensor([0.0, final_time]), **options)[-1]


def arclength(slope, x: Tensor, final_time: float, **options) -> Tensor:
    """1/2n of the integral of ||X'||_F^2 from 0 to T_F, of one sequence of n tokens (Eq. 6): ().

    lambda is left out; the integral is that of the trapezoidal rule.
    """
    times = torch.linspace(0, final_time, POINTS).to(x)
    states = odeint(slope, x, times, **options)
    squares = torch.stack([slope(t, state).square().sum() for t, state in zip(times, states)])
    return torch.trapezoid(squares, times) / (2 * len(x))
