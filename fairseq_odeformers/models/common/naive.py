"""The equations of a Transformer's sub-layers as papers write them, for reading.

The papers' ``naive`` files use these functions of tensors. Matrices multiply rows from the right; a
state is one sequence (T, d), without padding.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]
SubLayer = tuple[Function, Function]  # F and its LayerNorm


def multi_head_attention(q: Tensor, k: Tensor, v: Tensor, num_heads: int, causal: bool) -> Tensor:
    """Concat(head_1, ..., head_H) with head_i = softmax(Q_i K_i^T / sqrt(d / H)) V_i: (T, d).

    Vaswani et al. 2017, Eq. 1 and section 3.2.2. The caller projects Q, K, V and the result.

    Args:
        q, k, v: queries (T, d), keys (S, d) and values (S, d).
        causal: whether a query sees only keys up to its own position.
    """
    heads = []
    for q_head, k_head, v_head in zip(*(z.chunk(num_heads, -1) for z in (q, k, v))):
        scores = q_head @ k_head.T / math.sqrt(q_head.size(-1))  # (T, S)
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        heads.append(scores.softmax(-1) @ v_head)
    return torch.cat(heads, -1)


def feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """relu(x W_1 + b_1) W_2 + b_2: (T, d), Eq. 2 of Vaswani et al. 2017."""
    return torch.relu(x @ w1 + b1) @ w2 + b2


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the features of each token: (T, d)."""
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias
