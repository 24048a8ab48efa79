"""The Macaron Net as its paper writes it, for reading.

The equations of Lu et al. (2019) as functions of tensors, in the paper's order. Tests hold the
layers against them. Matrices multiply rows from the right; a state is one sequence (T, d), without
padding.

The paper's equations have no LayerNorm; its code has one in each sub-layer. A sub-layer here is a
pair (F, LN). LN precedes F, or with ``pre_norm=False`` follows the residual connection.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

Function = Callable[[Tensor], Tensor]
SubLayer = tuple[Function, Function]


def multi_head_attention(q: Tensor, k: Tensor, v: Tensor, num_heads: int, causal: bool) -> Tensor:
    """Concat(head_1, ..., head_H) of softmax(Q K^T / sqrt(d / H)) V each (Eqs. 3 and 4): (T, d).

    The paper divides by sqrt(d); its code, as every Transformer, by the square root of the width of
    a head. The projections of Q, K, V and of the result are the caller's.

    Args:
        q, k, v: (T, d), (S, d) and (S, d).
        causal: whether a query sees no key after its own position.
    """
    heads = []
    for q_head, k_head, v_head in zip(*(z.chunk(num_heads, -1) for z in (q, k, v))):
        scores = q_head @ k_head.T / math.sqrt(q_head.size(-1))  # T, S
        if causal:
            scores = scores + torch.full_like(scores, -math.inf).triu(1)
        heads.append(scores.softmax(-1) @ v_head)
    return torch.cat(heads, -1)


def feed_forward(x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> Tensor:
    """FFN(x) = relu(x W_1 + b_1) W_2 + b_2 (section 2.2): (T, d)."""
    return torch.relu(x @ w1 + b1) @ w2 + b2


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias, of the features of each token: (T, d)."""
    x = x - x.mean(-1, keepdim=True)
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def residual_step(x: Tensor, size: float, f: Function, norm: Function, pre_norm: bool) -> Tensor:
    """x + size F(LN(x)); with LayerNorm after it, LN(x + size F(x))."""
    return x + size * f(norm(x)) if pre_norm else norm(x + size * f(x))


def encoder_layer(
    x: Tensor, ffn_down: SubLayer, attention: SubLayer, ffn_up: SubLayer, pre_norm: bool = True
) -> Tensor:
    """Half a step of an FFN, attention, and half a step of another FFN: (T, d)."""
    x = residual_step(x, 1 / 2, *ffn_down, pre_norm)  # Eq. 17
    x = residual_step(x, 1, *attention, pre_norm)  # Eq. 18
    return residual_step(x, 1 / 2, *ffn_up, pre_norm)  # Eq. 19


def decoder_layer(
    x: Tensor,
    ffn_down: SubLayer,
    self_attention: SubLayer,
    source_attention: SubLayer,
    ffn_up: SubLayer,
    pre_norm: bool = True,
) -> Tensor:
    """The same with attention to the target so far, then to the source (section 4.1): (T, d)."""
    x = residual_step(x, 1 / 2, *ffn_down, pre_norm)
    x = residual_step(x, 1, *self_attention, pre_norm)
    x = residual_step(x, 1, *source_attention, pre_norm)
    return residual_step(x, 1 / 2, *ffn_up, pre_norm)
