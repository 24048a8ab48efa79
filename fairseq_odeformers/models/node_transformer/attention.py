"""Multi-head attention whose maps may depend on time, to the states themselves or to a source."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from fairseq_odeformers.modules.incremental import append

from .layout import Affine, attend, column, features_first
from .linear import TimeDependentLinear
from .runge_kutta import Time


class MultiheadAttention(nn.Module):
    """The maps of multi-head attention, initialised as fairseq's.

    Args:
        embed_dim: width C.
        num_heads: number H of heads.
        time_dependent: whether the maps have a term c t.

    Raises:
        ValueError: the heads do not divide the width.
    """

    def __init__(self, embed_dim, num_heads, time_dependent=False):
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"embed_dim {embed_dim} is not divisible by {num_heads} heads")
        self.num_heads = num_heads
        for name in ("q", "k", "v", "out"):
            self.add_module(name, TimeDependentLinear(embed_dim, embed_dim, time_dependent))
        for linear in (self.q, self.k, self.v):
            nn.init.xavier_uniform_(linear.weight, gain=0.5**0.5)
        nn.init.xavier_uniform_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def to_self(self, bias: Tensor | None, memory: Memory | None = None) -> SelfAttention:
        """Self-attention of a batch; the arguments are those of :class:`SelfAttention`."""
        qkv = Affine.of(self.q, self.k, self.v)
        return SelfAttention(self.num_heads, qkv, Affine.of(self.out), bias, memory)

    def source(self, encoder_out: Tensor) -> Tensor:
        """Keys and values (2C, S, B), at t = 0, of an encoder's output (S, B, C)."""
        return Affine.of(self.k, self.v)(0.0, features_first(encoder_out))

    def to_source(self, kv: Tensor, bias: Tensor | None) -> SourceAttention:
        """Attention to the keys and values of :meth:`source`."""
        kv_time = column(self.k.time, self.v.time)
        q, out = Affine.of(self.q), Affine.of(self.out)
        return SourceAttention(self.num_heads, q, kv, kv_time, out, bias)


class SelfAttention(NamedTuple):
    """MHSA_t(X) of one batch.

    Attributes:
        bias: what is added to scores, as :func:`attend` takes it.
        memory: of the tokens before, in incremental decoding.
    """

    num_heads: int
    qkv: Affine
    out: Affine
    bias: Tensor | None
    memory: Memory | None

    def projected(self, t: Time, x: Tensor) -> tuple[Tensor, ...]:
        """Queries, keys and values (C, T, B)."""
        return self.qkv(t, x).chunk(3)

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        q, k, v = self.projected(t, x)
        if self.memory:
            k, v = self.memory.append(k, v)
        return self.out(t, attend(q, k, v, self.num_heads, self.bias))


class SourceAttention(NamedTuple):
    """MHA_t(X, E) of one batch; the encoder's output E does not change over time.

    Attributes:
        kv: keys and values at t = 0 (2C, S, B).
        kv_time: their change over time (2C, 1), or None.
        bias: as in :class:`SelfAttention`.
    """

    num_heads: int
    q: Affine
    kv: Tensor
    kv_time: Tensor | None
    out: Affine
    bias: Tensor | None

    def projected(self, t: Time, x: Tensor) -> tuple[Tensor, ...]:
        """Queries (C, T, B), and keys and values (C, S, B)."""
        kv = self.kv if self.kv_time is None else self.kv + self.kv_time.unsqueeze(1) * t
        return self.q(t, x), *kv.chunk(2)

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        return self.out(t, attend(*self.projected(t, x), self.num_heads, self.bias))


class Memory:
    """Keys and values of the tokens before, for each evaluation of a field in its turn.

    A method on a fixed grid evaluates the field at the same times whenever a token is added.

    Args:
        saved: those of the tokens before, to which those of the newest are added.
        bias: what is added to the scores of the newest token as a key (1, 1, B).
    """

    def __init__(self, saved: dict[str, Tensor], bias: Tensor):
        self.saved = saved
        self.bias = append(saved, "mask", bias, dim=0)
        self.evaluation = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Of the newest token (C, 1, B); returns those of all tokens (C, T, B)."""
        index = self.evaluation
        self.evaluation += 1
        return (
            append(self.saved, f"key{index}", key, dim=1),
            append(self.saved, f"value{index}", value, dim=1),
        )
