"""Llama's layer (Touvron et al. 2023, section 2.2) as papers write it, for reading.

Matrices multiply rows from the right; a state is one sequence (T, d), without padding.
"""

import torch
from torch import Tensor

from fairseq_odeformers.models.common.naive import Function, multi_head_attention


def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the features of each token: (T, d).

    Zhang and Sennrich 2019, Eq. 4.
    """
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def rotate(x: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    """R_m x_m for each token of a head (T, h): x_m rotated by angles that depend on its position m.

    The plane of the features i and i + h/2 rotates by m base^(-2i/h). Su et al. 2024, Eq. 15, use
    the features 2i and 2i + 1 instead. This only permutes the rows of W_Q and W_K.
    """
    half = x.size(-1) // 2
    angles = torch.outer(positions.to(x), base ** (-torch.arange(half).to(x) / half))
    plane = torch.complex(x[:, :half], x[:, half:]) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([plane.real, plane.imag], -1)


def rotary_attention(q: Tensor, k: Tensor, v: Tensor, num_heads: int, causal: bool) -> Tensor:
    """Attention (T, d) with queries and keys rotated in each head by positions 0, 1, ...."""
    positions = torch.arange(len(q))
    q, k = (
        torch.cat([rotate(head, positions) for head in x.chunk(num_heads, -1)], -1) for x in (q, k)
    )
    return multi_head_attention(q, k, v, num_heads, causal)


def swiglu(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """(silu(x W) * x V) W_2: (T, d), Eq. 6 of Shazeer 2020."""
    x, gated = x @ up, x @ gate
    return (gated * torch.sigmoid(gated) * x) @ down


def layer(x: Tensor, *branches: tuple[Function, Function]) -> Tensor:
    """x + F(RMSNorm(x)) for each sub-layer F with its norm, in turn: (T, d)."""
    for branch, norm in branches:
        x = x + branch(norm(x))
    return x
