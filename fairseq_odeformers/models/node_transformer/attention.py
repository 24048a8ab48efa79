"""Multi-head self-attention and attention to a source, with maps that may depend on time.

:class:`SelfAttention` and :class:`SourceAttention` hold the parameters. Their ``bind`` returns a
function of t and X for one batch.
"""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import Projections
from fairseq_odeformers.modules.incremental import append

from .layout import (
    Affine,
    TimeDependentLinear,
    attend,
    attention_map,
    causal_bias,
    features_first,
    padding_bias,
    time_column,
)
from .problem import Time


class KeyValueCache:
    """Keys and values of earlier tokens in each evaluation of a field, in order.

    On a fixed grid, the field is evaluated at the same times for each new token.

    Args:
        saved: tensors (..., B) from earlier decoding steps; this step appends to them.
    """

    def __init__(self, saved: dict[str, Tensor]):
        self.saved = saved
        self.evaluation = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Save the newest token's key and value (C, 1, B); return all keys and values (C, T, B)."""
        index = self.evaluation
        self.evaluation += 1
        return (
            append(self.saved, f"key{index}", key, dim=1),
            append(self.saved, f"value{index}", value, dim=1),
        )


class MultiheadAttention(nn.Module):
    """The affine maps of multi-head attention, initialised as in fairseq.

    Args:
        embed_dim: width C.
        num_heads: number H of heads, a divisor of C.
        time_dependent: whether the maps have a term c t.
    """

    def __init__(self, embed_dim: int, num_heads: int, time_dependent: bool = False):
        super().__init__()
        self.num_heads = num_heads
        self.q = TimeDependentLinear(embed_dim, embed_dim, time_dependent)
        self.k = TimeDependentLinear(embed_dim, embed_dim, time_dependent)
        self.v = TimeDependentLinear(embed_dim, embed_dim, time_dependent)
        self.out = TimeDependentLinear(embed_dim, embed_dim, time_dependent)
        for linear in (self.q, self.k, self.v):
            nn.init.xavier_uniform_(linear.weight, gain=0.5**0.5)
        nn.init.xavier_uniform_(self.out.weight)
        nn.init.zeros_(self.out.bias)


class SelfAttention(MultiheadAttention):
    """MHSA_t(X): multi-head self-attention at time t."""

    def projections(self) -> Iterator[Projections]:
        """Yield the projections, the same at all times: only the biases depend on time."""
        maps = (self.q, self.k, self.v, self.out)
        yield Projections.of(self.num_heads, *(linear.weight for linear in maps))

    def bind(
        self, x: Tensor, padding_mask: Tensor | None, causal: bool, cache: KeyValueCache | None
    ) -> "BoundSelfAttention":
        """Return MHSA_t(X) for one batch; see :meth:`.TransformerField.bind` for arguments."""
        bias = padding_bias(padding_mask, x)
        if cache is not None:  # extend the newest token's bias (1, 1, B) to all tokens (T, 1, B)
            newest = x.new_zeros(1, 1, x.size(-1)) if bias is None else bias
            bias = append(cache.saved, "bias", newest, dim=0)
        if causal:
            bias = causal_bias(x) if bias is None else causal_bias(x).minimum(bias)
        qkv, out = Affine.join(self.q, self.k, self.v), Affine.join(self.out)
        return BoundSelfAttention(self.num_heads, qkv, out, bias, cache)


class BoundSelfAttention(NamedTuple):
    """MHSA_t(X) for one batch, from and to (C, T, B).

    Attributes:
        num_heads: number H of heads, a divisor of C.
        qkv, out: maps to queries, keys and values, and of the heads' outputs.
        bias: bias of the scores, in the form that :func:`attend` accepts.
        cache: keys and values of earlier tokens, in incremental decoding.
    """

    num_heads: int
    qkv: Affine
    out: Affine
    bias: Tensor | None
    cache: KeyValueCache | None

    def project(self, t: Time, x: Tensor) -> tuple[Tensor, ...]:
        """Return queries, keys and values (C, T, B)."""
        return self.qkv(t, x).chunk(3)

    def map(self, t: Time, x: Tensor) -> Tensor:
        """Return the attention map (B, H, T, T) of an entire text."""
        q, k, _ = self.project(t, x)
        return attention_map(q, k, self.num_heads, self.bias)

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        q, k, v = self.project(t, x)
        if self.cache is not None:
            k, v = self.cache.append(k, v)
        return self.out(t, attend(q, k, v, self.num_heads, self.bias))


class SourceAttention(MultiheadAttention):
    """MHA_t(X, E): multi-head attention at time t to the encoder's output E."""

    def bind(
        self, x: Tensor, source: Tensor, padding_mask: Tensor | None, cache: KeyValueCache | None
    ) -> "BoundSourceAttention":
        """Return MHA_t(X, E) for one batch; see :meth:`.TransformerField.bind` for arguments."""
        saved = {} if cache is None else cache.saved
        if "source" not in saved:
            saved["source"] = Affine.join(self.k, self.v)(0.0, features_first(source))
        return BoundSourceAttention(
            self.num_heads,
            q=Affine.join(self.q),
            kv=saved["source"],
            kv_time=time_column(self.k, self.v),
            out=Affine.join(self.out),
            bias=padding_bias(padding_mask, x),
        )


class BoundSourceAttention(NamedTuple):
    """MHA_t(X, E) for one batch, from and to (C, T, B); E does not change over time.

    Attributes:
        num_heads: number H of heads, a divisor of C.
        q, out: maps to queries, and of the heads' outputs.
        kv: keys and values at t = 0 (2C, S, B).
        kv_time: change of keys and values per unit of time (2C, 1), or None.
        bias: bias of the scores, in the form that :func:`attend` accepts.
    """

    num_heads: int
    q: Affine
    kv: Tensor
    kv_time: Tensor | None
    out: Affine
    bias: Tensor | None

    def project(self, t: Time, x: Tensor) -> tuple[Tensor, ...]:
        """Return queries (C, T, B), and keys and values (C, S, B)."""
        kv = self.kv if self.kv_time is None else self.kv + self.kv_time.unsqueeze(1) * t
        return self.q(t, x), *kv.chunk(2)

    def map(self, t: Time, x: Tensor) -> Tensor:
        """Return the attention map (B, H, T, S)."""
        q, k, _ = self.project(t, x)
        return attention_map(q, k, self.num_heads, self.bias)

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        q, k, v = self.project(t, x)
        return self.out(t, attend(q, k, v, self.num_heads, self.bias))
