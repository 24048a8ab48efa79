"""Affine maps A x + b + c t, LayerNorm and attention for states with features first, (C, T, B).

In this layout, each operation works on a few long rows instead of many short ones. For the small
models of the paper, this is several times faster. States are in float32 or better, since half
precision cannot represent the small errors of a solve.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.modules.basics import at_least_float32

from .problem import Time

# If the keys of one head and sequence have fewer elements than this, attention uses sums of
# products, because products of many small matrices are slower. Compiled code must be valid for all
# lengths, so it always uses products of matrices.
FEW_KEY_ELEMENTS = 64


def features_first(x: Tensor) -> Tensor:
    """Map (T, B, C) to (C, T, B)."""
    return at_least_float32(x).permute(2, 0, 1).contiguous()


def tokens_first(x: Tensor) -> Tensor:
    """Map (C, T, B) to (T, B, C)."""
    return x.permute(1, 2, 0)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Normalise the features of each token in x (C, T, B), with weight and bias (C)."""
    return F.layer_norm(x.movedim(0, -1), weight.shape, weight, bias).movedim(-1, 0)


def padding_bias(padding_mask: Tensor | None, x: Tensor) -> Tensor | None:
    """Return a bias (S, 1, B) of the scores that hides padded keys; None without padding.

    The bias is finite, so that a sequence that consists of padding does not cause NaN.

    Args:
        padding_mask: true where a key is padding (B, S).
        x: any tensor with the precision and device of the scores.
    """
    if padding_mask is None:
        return None
    return (padding_mask.T.to(x) * torch.finfo(x.dtype).min).unsqueeze(1)


def causal_bias(x: Tensor) -> Tensor:
    """Return a bias (T, T, 1) of the scores that hides later keys, for states x (C, T, B)."""
    bias = x.new_full((x.size(1), x.size(1)), torch.finfo(x.dtype).min)
    return bias.tril(-1).unsqueeze(-1)


def attention_map(q: Tensor, k: Tensor, num_heads: int, bias: Tensor | None) -> Tensor:
    """Return the attention weights (B, H, T, S); for the arguments, see :func:`attend`."""
    q, k = (x.unflatten(0, (num_heads, -1)).permute(3, 0, 2, 1) for x in (q, k))  # (B, H, T, C/H)
    scores = q @ k.mT * q.size(-1) ** -0.5
    if bias is not None:
        scores = scores + bias.permute(2, 1, 0).unsqueeze(1)
    return scores.softmax(-1)


def attend(q: Tensor, k: Tensor, v: Tensor, num_heads: int, bias: Tensor | None) -> Tensor:
    """Return the concatenated outputs of the heads (C, T, B).

    Args:
        q: queries (C, T, B).
        k, v: keys and values (C, S, B).
        bias: bias of the scores (S, T or 1, B or 1), or None.
    """
    q, k, v = (x.unflatten(0, (num_heads, -1)) for x in (q, k, v))  # (H, C/H, T or S, B)
    if torch.compiler.is_compiling() or k.size(2) * k.size(1) >= FEW_KEY_ELEMENTS:
        # (B, H, T, C/H); torch's fused kernels only accept contiguous tensors.
        q, k, v = (x.permute(3, 0, 2, 1).contiguous() for x in (q, k, v))
        if bias is not None:
            bias = bias.permute(2, 1, 0).unsqueeze(1)  # (B, 1, T, S)
        x = F.scaled_dot_product_attention(q, k, v, bias)
        return x.permute(1, 3, 2, 0).flatten(0, 1)
    q = q * q.size(1) ** -0.5
    scores = (q.unsqueeze(2) * k.unsqueeze(3)).sum(1)  # (H, S, T, B)
    weights = (scores if bias is None else scores + bias).softmax(1)
    return (weights.unsqueeze(1) * v.unsqueeze(3)).sum(2).flatten(0, 1)


class TimeDependentLinear(nn.Linear):
    """Linear map that depends on time: A x + b + c t (N-ODE Transformer, Eq. 5).

    Args:
        in_features, out_features: widths I and O.
        time_dependent: whether the map has c; without it, the map is A x + b (Eq. 4).
    """

    def __init__(self, in_features: int, out_features: int, time_dependent: bool = True):
        super().__init__(in_features, out_features)
        self.time: nn.Parameter | None = None
        if time_dependent:
            bound = in_features**-0.5
            self.time = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, t: Time, x: Tensor) -> Tensor:
        """Map states (I, T, B) to (O, T, B).

        Args:
            t: a time for the whole batch, or one per sequence (B).
            x: states (I, T, B), with features first.
        """
        return Affine.join(self)(t, x)


class Affine(NamedTuple):
    """A x + b + c t with the parameters of one map, or of several maps of the same states.

    A solve evaluates the maps of its field many times, so they are joined once. One product then
    computes queries, keys and values, and half precision is cast to float32 only once.

    Attributes:
        weight: A (O, I).
        bias, time: b and c (O, 1); c may be None.
    """

    weight: Tensor
    bias: Tensor
    time: Tensor | None

    @classmethod
    def join(cls, *maps: TimeDependentLinear) -> "Affine":
        """Join maps into one that stacks their outputs."""
        return cls(
            at_least_float32(torch.cat([linear.weight for linear in maps])),
            column(*(linear.bias for linear in maps)),
            time_column(*maps),
        )

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        """Map states (I, T, B) to (O, T, B).

        Args:
            t: a time for the whole batch, or one per sequence (B).
            x: states (I, T, B), with features first.
        """
        if self.time is None:
            bias = self.bias
        elif isinstance(t, Tensor):  # one time for the batch (), or per sequence (B)
            bias = self.bias + self.time * (t.repeat(x.size(1)) if t.dim() else t)
        else:
            bias = torch.add(self.bias, self.time, alpha=t)
        return torch.addmm(bias, self.weight, x.flatten(1)).unflatten(1, x.shape[1:])


def time_column(*maps: TimeDependentLinear) -> Tensor | None:
    """Return the stacked c (O, 1) of maps; None if they have no c."""
    times = [linear.time for linear in maps if linear.time is not None]
    return column(*times) if times else None


def column(*vectors: Tensor) -> Tensor:
    """Stack vectors into a column (O, 1)."""
    return at_least_float32(torch.cat(vectors)).unsqueeze(1)
