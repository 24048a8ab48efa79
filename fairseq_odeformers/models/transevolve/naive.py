"""TransEvolve as its paper writes it, for reading: with every term and without fast paths.

This module contains the equations of Dutta et al. (2021) as functions of tensors, in the paper's
order. A :func:`block` of depth L computes its :func:`initial_scores` once. Each depth l = 1..L
evolves them with its :func:`time_map` into its :func:`attention`, and applies a
:func:`residual_attention` and one of the two feed-forward layers:

    X^l = FF^l(Y^l) + Y^l,    Y^l = A^l X^(l-1) W_o^l + X^(l-1).

The equations have no LayerNorm. The layers apply it to X^(l-1) before attention and to Y^l before
FF^l, and once per block. Tests compare the layers with these functions. Matrices multiply rows from
the right. A mask (B, 1, T, S) is true where a query may not see a key.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

Function = Callable[[Tensor], Tensor]


def full_feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """relu(x W_1 + B_1) W_2 + B_2 (Eq. 3)."""
    return F.relu(x @ w1 + b1) @ w2 + b2


class Scores(NamedTuple):
    """The initial scores of a block, and the terms that make them evolve."""

    a0: Tensor  # (B, H, T, S)
    a1: Tensor  # (B, H, T, d'/H)
    a2: Tensor  # (B, H, S, d'/H)
    a3: Tensor  # (H, d'/H)


def initial_scores(
    x: Tensor,
    y: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_q_tilde: Tensor,
    w_k_tilde: Tensor,
    num_heads: int,
) -> Scores:
    """A_0, A_1, A_2 and A_3 for queries from X and keys from Y (Eqs. 6 and 12).

    As in the authors' code, A_0 is divided by the root of (d + d') / H, the width of a head, and
    the others are not scaled. The paper divides by the root of d or d' over the number of heads.

    Args:
        x, y: states (B, T, d) and (B, S, d), the same in self-attention.
        w_q, w_k: matrices (d, d + d').
        w_q_tilde, w_k_tilde: matrices (d', d + d').
    """

    def heads(z: Tensor) -> Tensor:
        return z.unflatten(-1, (num_heads, -1)).transpose(-3, -2)

    q, k = x @ w_q, y @ w_k
    a0 = heads(q) @ heads(k).transpose(-2, -1) / math.sqrt(q.size(-1) / num_heads)
    a3 = (w_q_tilde * w_k_tilde).sum(1)
    return Scores(a0, heads(q @ w_k_tilde.T), heads(k @ w_q_tilde.T), a3.view(num_heads, -1))


def time_map(w: Tensor, number: int, depth: int) -> Tensor:
    """T^l = w^l * [sin(j l / P) | cos(j l / P)], j = 1..d'/2, P = d' L / 2 pi (Eq. 7): (d').

    The number l counts from 1, as in the paper; the authors' code counts l and j from 0.
    """
    period = len(w) * depth / (2 * math.pi)
    phase = torch.arange(1, len(w) // 2 + 1, dtype=w.dtype) * number / period
    return w * torch.cat([phase.sin(), phase.cos()])


def attention(scores: Scores, time: Tensor, mask: Tensor | None = None) -> Tensor:
    """A^l = softmax(A_0 + A_1 T^l + (A_2 T^l)^T + A_3 (T^l * T^l)) from Eq. 9: (B, H, T, S).

    T^l is a column here. The paper's A_2 has a column per key; here it has a row, like A_1.
    """
    a0, a1, a2, a3 = scores
    t = time.view(len(a3), -1, 1)  # (H, d'/H, 1)
    evolved = a0 + a1 @ t + (a2 @ t).transpose(-2, -1) + a3.unsqueeze(1) @ t.square()
    if mask is not None:
        evolved = evolved.masked_fill(mask, -math.inf)
    return evolved.softmax(-1)


def attend(weights: Tensor, values: Tensor) -> Tensor:
    """A^l X for each head: from values (B, S, d) to (B, T, d)."""
    values = values.unflatten(-1, (weights.size(1), -1)).transpose(1, 2)
    return (weights @ values).transpose(1, 2).flatten(2)


def residual_attention(x: Tensor, weights: Tensor, values: Tensor, w_o: Tensor) -> Tensor:
    """Y^l = A^l X W_o^l + X (Eq. 9): (B, T, d).

    In the second line of Eq. 13, the values (B, S, d) are the encoder output.
    """
    return attend(weights, values) @ w_o + x


class Attention(NamedTuple):
    """One attention of depth l: in an encoder the only one, in a translator's decoder two.

    Attributes:
        scores: the block's initial scores.
        w: w^l (d').
        values: a function of X, with its LayerNorm. Attention to a source ignores X.
        w_o: W_o^l (d, d).
        mask: true where a query may not see a key.
    """

    scores: Scores
    w: Tensor
    values: Function
    w_o: Tensor
    mask: Tensor | None = None


def block(x: Tensor, depths: Sequence[tuple[Sequence[Attention], Function]]) -> Tensor:
    """X^L from X^0 (B, T, d), for the attentions and the feed-forward layer of each depth."""
    for number, (attentions, ffn) in enumerate(depths, start=1):
        for scores, w, values, w_o, mask in attentions:
            weights = attention(scores, time_map(w, number, len(depths)), mask)
            x = residual_attention(x, weights, values(x), w_o)
        x = ffn(x) + x
    return x


def rotation(omega: Tensor, number: int, depth: int) -> Tensor:
    """U = [sin(omega_ij j l / P) | cos(omega_ij j l / P)] / sqrt(s), P = s L / 2 pi (Eq. 10).

    j counts from 1 to s/2. Each U and V is divided by the root of its own size s. In the authors'
    code, both are divided by the root of the output width, and l and j count from 0.

    Args:
        omega: matrix (s, s/2), drawn once, normal with a standard deviation of s.
    """
    size = len(omega)
    phase = omega * torch.arange(1, omega.size(1) + 1) * number / (size * depth / (2 * math.pi))
    return torch.cat([phase.sin(), phase.cos()], 1) / math.sqrt(size)


def random_feed_forward(x: Tensor, first: tuple, second: tuple) -> Tensor:
    """relu(x U_1 S_1 V_1 + B_1) U_2 S_2 V_2 + B_2 (Eq. 11, appendix B).

    Args:
        first, second: U, the diagonal of S, V and B. In the first, U is (d, d) and V is
            (d_ff, d_ff); in the second, it is the other way round. S is rectangular.
    """
    (u1, s1, v1, b1), (u2, s2, v2, b2) = first, second
    sigma1, sigma2 = x.new_zeros(len(u1), len(v1)), x.new_zeros(len(u2), len(v2))
    sigma1.diagonal().copy_(s1)
    sigma2.diagonal().copy_(s2)
    return F.relu(x @ u1 @ sigma1 @ v1 + b1) @ u2 @ sigma2 @ v2 + b2
