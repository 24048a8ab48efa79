"""States laid out features first, (C, T, B), and what depends on this layout.

Each operation then works on few long rows, which for the small models of the paper is several times
faster than on many short ones. States are in single precision or better: half has none for the
errors of a solver to be small.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fairseq_odeformers.modules.precision import at_least_float32

from .linear import TimeDependentLinear
from .runge_kutta import Time

# Where keys times the width of a head are fewer than this, attention is sums of products: so few
# are faster than products of many small matrices.
FEW = 64


def features_first(x: Tensor) -> Tensor:
    """From (T, B, C) to (C, T, B)."""
    return at_least_float32(x).permute(2, 0, 1).contiguous()


def tokens_first(x: Tensor) -> Tensor:
    """From (C, T, B) to (T, B, C)."""
    return x.permute(1, 2, 0)


class Affine(NamedTuple):
    """A x + b + c t of states (I, T, B), one product for several maps of the same states.

    Attributes:
        weight: A (O, I).
        bias, time: b and c (O, 1); c may be None.
    """

    weight: Tensor
    bias: Tensor
    time: Tensor | None

    @classmethod
    def of(cls, *maps: TimeDependentLinear) -> Affine:
        """The outputs of the maps, one below the other."""
        return cls(
            at_least_float32(torch.cat([linear.weight for linear in maps])),
            column(*(linear.bias for linear in maps)),
            column(*(linear.time for linear in maps)),
        )

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        if self.time is None:
            bias = self.bias
        elif isinstance(t, float):
            bias = torch.add(self.bias, self.time, alpha=t)
        else:  # of the batch, or of each sequence (B)
            bias = self.bias + self.time * (t.repeat(x.size(1)) if t.dim() else t)
        return torch.addmm(bias, self.weight, x.flatten(1)).unflatten(1, x.shape[1:])


def column(*vectors: Tensor | None) -> Tensor | None:
    """Vectors as a column (O, 1), one below the other, or None if there are none."""
    return None if None in vectors else at_least_float32(torch.cat(vectors)).unsqueeze(1)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm of the features of each token, with weight and bias (C)."""
    return F.layer_norm(x.movedim(0, -1), weight.shape, weight, bias).movedim(-1, 0)


def padding_bias(padding_mask: Tensor | None, x: Tensor) -> Tensor | None:
    """What is added to scores (S, 1, B) where padding is (B, S).

    It is finite, as a sequence of padding alone may not become nan.
    """
    if padding_mask is None:
        return None
    return (padding_mask.T.to(x) * torch.finfo(x.dtype).min).unsqueeze(1)


def causal_bias(x: Tensor) -> Tensor:
    """What is added to scores (T, T, 1), key before query, to hide the keys of later tokens."""
    bias = x.new_full((x.size(1), x.size(1)), torch.finfo(x.dtype).min)
    return bias.tril(-1).unsqueeze(-1)


def attend(q: Tensor, k: Tensor, v: Tensor, num_heads: int, bias: Tensor | None) -> Tensor:
    """The heads' outputs, concatenated (C, T, B).

    Args:
        q: queries (C, T, B).
        k, v: keys and values (C, S, B).
        bias: added to scores (S, T or 1, B or 1).
    """
    q, k, v = (x.unflatten(0, (num_heads, -1)) for x in (q, k, v))  # H, C/H, T or S, B
    if k.size(2) * k.size(1) >= FEW:
        # B, H, T, C/H; torch's fused kernels take contiguous tensors alone.
        q, k, v = (x.permute(3, 0, 2, 1).contiguous() for x in (q, k, v))
        if bias is not None:
            bias = bias.permute(2, 1, 0).unsqueeze(1)  # B, 1, T, S
        x = F.scaled_dot_product_attention(q, k, v, bias)
        return x.permute(1, 3, 2, 0).flatten(0, 1)
    q = q * q.size(1) ** -0.5
    scores = (q.unsqueeze(2) * k.unsqueeze(3)).sum(1)  # H, S, T, B
    weights = (scores if bias is None else scores + bias).softmax(1)
    return (weights.unsqueeze(1) * v.unsqueeze(3)).sum(2).flatten(0, 1)
