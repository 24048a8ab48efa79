"""The N-ODE Transformer as its paper writes it, for reading.

This module contains the equations of Baier-Reinio and De Sterck (2020) in the paper's order, for
states X (..., T, C). As in the paper, there is no dropout, and no LayerNorm except in the last
function, the field of this project's translators and language models. Tests compare the blocks with
these functions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torchdiffeq import odeint

POINTS = 1001  # number of points for the trapezoidal rule

Time = float | Tensor
Map = Callable[[Time, Tensor], Tensor]  # a function of t and X, such as MHSA_t, FFN_t or dX/dt


def composed(ffn: Map, mhsa: Map, t: Time, x: Tensor) -> Tensor:
    """FFN_t(MHSA_t(X)) (Eq. 2)."""
    return ffn(t, mhsa(t, x))


def composed_with_skip(ffn: Map, mhsa: Map, t: Time, x: Tensor) -> Tensor:
    """FFN_t(X + MHSA_t(X)) (Eq. 3)."""
    return ffn(t, x + mhsa(t, x))


class Affine(NamedTuple):
    """A x + b (Eq. 4) or, with c, A x + b + c t (Eq. 5)."""

    A: Tensor
    b: Tensor
    c: Tensor | None = None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        y = F.linear(x, self.A, self.b)
        return y if self.c is None else y + self.c * t


def attention(
    maps: Sequence[Affine],
    num_heads: int,
    t: Time,
    x: Tensor,
    source: Tensor,
    mask: Tensor | None = None,
) -> Tensor:
    """Multi-head attention of X to a source, or MHSA_t(X) if the source is X: (..., T, C).

    Args:
        maps: affine maps for queries, keys, values and the output.
        source: states (..., S, C).
        mask: true where a key is hidden; broadcasts to the scores (..., H, T, S).
    """

    def heads(x: Tensor) -> Tensor:
        return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)  # (..., H, T, C/H)

    query, key, value, out = maps
    q, k, v = heads(query(t, x)), heads(key(t, source)), heads(value(t, source))
    scores = q @ k.mT * q.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return out(t, (scores.softmax(-1) @ v).transpose(-3, -2).flatten(-2))


def feed_forward(maps: Sequence[Affine], t: Time, x: Tensor) -> Tensor:
    """FFN_t(X): two affine maps with ReLU between them."""
    first, second = maps
    return second(t, torch.relu(first(t, x)))


def solve(slope: Map, x: Tensor, final_time: float, **options: Any) -> Tensor:
    """Return X(T_F) for dX/dt = slope(t, X), X(0) = x; *options* are ``torchdiffeq.odeint``'s."""
    return odeint(slope, x, x.new_tensor([0.0, final_time]), **options)[-1]


def arclength(slope: Map, x: Tensor, final_time: float, **options: Any) -> Tensor:
    """Return the integral of ||dX/dt||_F^2 from 0 to T_F, divided by 2n, for n tokens (Eq. 6): ().

    The factor lambda is left out. The trapezoidal rule computes the integral.
    """
    times = torch.linspace(0, final_time, POINTS).to(x)
    states = odeint(slope, x, times, **options)
    squares = torch.stack([slope(t, state).square().sum() for t, state in zip(times, states)])
    return torch.trapezoid(squares, times) / (2 * len(x))


def residual(ffn: Map, mhsa: Map, t: Time, x: Tensor) -> Tensor:
    """MHSA_t(X) + FFN_t(X + MHSA_t(X)) (Eq. 9)."""
    return mhsa(t, x) + ffn(t, x + mhsa(t, x))


def normalised_residual(
    ffn: Map, mhsa: Map, norms: Sequence[Callable[[Tensor], Tensor]], t: Time, x: Tensor
) -> Tensor:
    """Y + FFN_t(LN'(X + Y)) with Y = MHSA_t(LN(X)): Eq. 9 with LayerNorms, not in the paper."""
    first, second = norms
    y = mhsa(t, first(x))
    return y + ffn(t, second(x + y))
