"""TransEvolve as its paper writes it, for reading: every term, and no fast path.

The equations of Dutta et al. (2021) as functions of tensors, in the paper's order. Tests hold the
layers against them, and the benchmark times them. Matrices multiply rows from the right; a mask
(B, 1, T, S) is true where a query may not see a key.
"""

import math
from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor


def time_map(w: Tensor, depth: int, total_depth: int) -> Tensor:
    """T^l = w^l * [sin(j l / P) | cos(j l / P)], j = 1..d'/2, P = d' L / 2 pi (Eq. 7): (d')."""
    period = len(w) * total_depth / (2 * math.pi)
    phase = torch.arange(1, len(w) // 2 + 1, dtype=w.dtype) * depth / period
    return w * torch.cat([phase.sin(), phase.cos()])


class Scores(NamedTuple):
    """What a block computes once, from its input: the initial scores and how they evolve."""

    a0: Tensor  # B, H, T, S
    a1: Tensor  # B, H, T, d'/H
    a2: Tensor  # B, H, S, d'/H
    a3: Tensor  # H, d'/H


def initial_scores(
    x: Tensor,
    y: Tensor,
    w_q: Tensor,
    w_k: Tensor,
    w_q_tilde: Tensor,
    w_k_tilde: Tensor,
    num_heads: int,
) -> Scores:
    """A_0, A_1, A_2 and A_3 of queries of X and keys of Y (Eq. 6).

    Args:
        x, y: (B, T, d) and (B, S, d); the same in self-attention.
        w_q, w_k: (d, d + d').
        w_q_tilde, w_k_tilde: (d', d + d').
    """

    def heads(z):
        return z.unflatten(-1, (num_heads, -1)).transpose(-3, -2)

    q, k = x @ w_q, y @ w_k
    a0 = heads(q) @ heads(k).transpose(-2, -1) / math.sqrt(q.size(-1) / num_heads)
    a3 = (w_q_tilde * w_k_tilde).sum(1)
    return Scores(a0, heads(q @ w_k_tilde.T), heads(k @ w_q_tilde.T), a3.view(num_heads, -1))


def attention(scores: Scores, time: Tensor, mask: Optional[Tensor] = None) -> Tensor:
    """A^l = softmax(A_0 + A_1 T^l + T^l A_2 + A_3 (T^l * T^l)) of Eq. 9: (B, H, T, S)."""
    a0, a1, a2, a3 = scores
    t = time.view(len(a3), -1, 1)  # H, d'/H, 1
    evolved = a0 + a1 @ t + (a2 @ t).transpose(-2, -1) + a3.unsqueeze(1) @ t.square()
    if mask is not None:
        evolved = evolved.masked_fill(mask, -math.inf)
    return evolved.softmax(-1)


def attend(weights: Tensor, values: Tensor) -> Tensor:
    """A^l X, head by head: from values (B, S, d) to (B, T, d)."""
    values = values.unflatten(-1, (weights.size(1), -1)).transpose(1, 2)
    return (weights @ values).transpose(1, 2).flatten(2)


def full_feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """relu(x W_1 + B_1) W_2 + B_2 (Eq. 3)."""
    return F.relu(x @ w1 + b1) @ w2 + b2


def rotation(w: Tensor, depth: int, total_depth: int) -> Tensor:
    """U = [sin(w_ij j l / P) | cos(w_ij j l / P)] / sqrt(s), j = 1..s/2, P = s L / 2 pi (Eq. 10).

    Args:
        w: (s, s/2), drawn from N(0, s^2) once.
    """
    size = len(w)
    phase = w * torch.arange(1, size // 2 + 1) * depth / (size * total_depth / (2 * math.pi))
    return torch.cat([phase.sin(), phase.cos()], 1) / math.sqrt(size)


def random_feed_forward(x: Tensor, first: tuple, second: tuple) -> Tensor:
    """relu(x U_1 S_1 V_1 + B_1) U_2 S_2 V_2 + B_2 (Eq. 11, appendix B).

    Args:
        first, second: U, the diagonal of S, V and B. U and V are square, of d and d_ff rows in the
            first, of d_ff and d in the second; S is rectangular.
    """
    (u1, s1, v1, b1), (u2, s2, v2, b2) = first, second
    sigma1, sigma2 = x.new_zeros(len(u1), len(v1)), x.new_zeros(len(u2), len(v2))
    sigma1.diagonal().copy_(s1)
    sigma2.diagonal().copy_(s2)
    return F.relu(x @ u1 @ sigma1 @ v1 + b1) @ u2 @ sigma2 @ v2 + b2


def block_output(block, x: Tensor, source: Optional[Tensor] = None) -> Tensor:
    """X^L of an encoder block (Eqs. 9 and 11), or with a source of a decoder block (Eq. 13).

    Args:
        block: a block of :mod:`.block`, for its weights. There is no W~_k among them: softmax does
            not see what it adds. Here it is random.
        x: input X^0 (B, T, d).
        source: encoder output (B, S, d); it makes the self-attention causal.
    """
    total_depth, causal = len(block.depths), None
    x0 = block.layer_norm(x) if block.normalize_before else x
    evolving = [(block.self_attn, _scores(block.self_attn, x0, x0))]
    if source is not None:
        causal = torch.ones(x.size(1), x.size(1), dtype=torch.bool).triu(1)
        evolving.append((block.encoder_attn, _scores(block.encoder_attn, x0, source)))
    for l in range(1, total_depth + 1):  # noqa: E741
        depth = block.depths[l - 1]
        self_attn, *encoder_attn = (
            attention(scores, time_map(attn.time_weight[l - 1], l, total_depth), mask)
            for (attn, scores), mask in zip(evolving, (causal, None))
        )
        x = attend(self_attn, depth.self_attn_layer_norm(x)) @ depth.self_attn_out_proj.weight.T + x
        for weights in encoder_attn:
            x = attend(weights, source) @ depth.encoder_attn_out_proj.weight.T + x
        x = _feed_forward(depth.feed_forward, depth.final_layer_norm(x)) + x
    return x if block.normalize_before else block.layer_norm(x)


def _scores(attn, x, y):
    w_q, w_k, w_q_tilde = attn.q_proj.weight.T, attn.k_proj.weight.T, attn.time_query
    w_k_tilde = torch.randn_like(w_q_tilde)
    return initial_scores(x, y, w_q, w_k, w_q_tilde, w_k_tilde, attn.num_heads)


def _feed_forward(ffn, x):
    if isinstance(ffn, torch.nn.Sequential):
        return full_feed_forward(x, ffn[0].weight.T, ffn[0].bias, ffn[2].weight.T, ffn[2].bias)
    first = _whole(ffn.u1), ffn.s1, _whole(ffn.v1_rows), ffn.b1
    return random_feed_forward(x, first, (_whole(ffn.u2), ffn.s2, _whole(ffn.v2_rows), ffn.b2))


def _whole(part):
    """The square matrix of which a layer keeps what meets a diagonal; the rest has no effect."""
    whole = torch.randn(max(part.shape), max(part.shape), dtype=part.dtype)
    whole[: part.size(0), : part.size(1)] = part
    return whole
