"""DiffEqFormer as its paper writes it, for reading.

This module contains the equations of Tong et al. (2025) as functions of tensors. Tests compare the
layers with these functions. Matrices multiply rows from the right. A state is one sequence (T, d),
without padding.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fairseq_odeformers.models.common import naive as common
from fairseq_odeformers.models.common.naive import Function

Field = Callable[[float, Tensor], Tensor]

# --- weights as functions of time ------------------------------------------


def time_features(t: float, frequencies: int) -> Tensor:
    """phi(t) = (t, sin(pi s t), cos(pi s t)) for s = 1, ..., S: (1 + 2S).

    These are this project's frequencies; the highest completes S/2 periods from t = 0 to 1.
    """
    angles = [math.pi * s * t for s in range(1, frequencies + 1)]
    return torch.tensor([t, *map(math.sin, angles), *map(math.cos, angles)])


def released_time_features(t: float, frequencies: int) -> Tensor:
    """phi(t) = (t, sin(1000 w_i t), cos(1000 w_i t)), w_i = 10000^(-i/S), i = 0, ..., S - 1.

    These are the frequencies in the authors' code (``qkvflow/nn/time_embed.py``).
    """
    angles = [1000 * t * 10_000 ** (-i / frequencies) for i in range(frequencies)]
    return torch.tensor([t, *map(math.sin, angles), *map(math.cos, angles)])


def time_embedding(phi: Tensor, a1: Tensor, c1: Tensor, a2: Tensor, c2: Tensor) -> Tensor:
    """e(t) = A_2 silu(A_1 phi(t) + c_1) + c_2: (E). Each map has its own A and c."""
    hidden = a1 @ phi + c1
    return a2 @ (hidden * torch.sigmoid(hidden)) + c2


def weight(e: Tensor, g: Tensor, w0: Tensor) -> Tensor:
    """W(t) = G e(t) + W_0, with G (d_in, d_out, E) and W_0 (d_in, d_out)."""
    return g @ e + w0


def bias(e: Tensor, b: Tensor) -> Tensor:
    """b(t) = B e(t), with B (d_out, E)."""
    return b @ e


def layer_norm(x: Tensor, e: Tensor, u: Tensor, v: Tensor, eps: float = 1e-5) -> Tensor:
    """LN_t(x): the scale is 1 + u e(t), the shift v e(t), with u and v (d, E)."""
    return common.layer_norm(x, 1 + u @ e, v @ e, eps)


# --- branches with the weights at one time ---------------------------------


def attention(
    x: Tensor,
    qkv: tuple[Tensor, Tensor],
    out: tuple[Tensor, Tensor],
    num_heads: int,
    causal: bool = False,
) -> Tensor:
    """Attn_t(x): (T, d). One weight (d, 3d) with a bias computes queries, keys and values."""
    q, k, v = (x @ qkv[0] + qkv[1]).chunk(3, -1)
    return common.multi_head_attention(q, k, v, num_heads, causal) @ out[0] + out[1]


def feed_forward(x: Tensor, fc1: tuple[Tensor, Tensor], fc2: tuple[Tensor, Tensor]) -> Tensor:
    """FFN_t(x): (T, d)."""
    return common.feed_forward(x, *fc1, *fc2)


# --- the model -------------------------------------------------------------


def solve(x: Tensor, steps: int, attention: Field, ffn: Field, final_norm: Function) -> Tensor:
    """LayerNorm of x_L, where x_(k+1) = x_k + (1/L) [Attn_t(x_k) + FFN_t(x_k)], t = (k+1)/L.

    Args:
        attention, ffn: functions of t and x that include their LN_t. Both read the same state.
    """
    for k in range(steps):
        t = (k + 1) / steps
        x = x + (attention(t, x) + ffn(t, x)) / steps
    return final_norm(x)
