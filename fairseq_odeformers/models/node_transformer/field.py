"""The vector fields of the N-ODE Transformer (Baier-Reinio and De Sterck 2020).

States are laid out features first, (C, T, B): each operation then works on few long rows, which for
the small models of the paper is several times faster than on many short ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.modules.dropout import dropout
from fairseq_odeformers.modules.incremental import append
from fairseq_odeformers.modules.precision import single

from .runge_kutta import Time

# Attention over fewer numbers than this, a query and head, is sums of products: so few are faster
# than products of many small matrices.
FEW = 64


class TimeDependentLinear(nn.Linear):
    """A x + b + c t (paper, Eq. 5).

    Args:
        in_features, out_features: widths.
        time_dependent: whether there is c; without it this is Eq. 4.
    """

    def __init__(self, in_features, out_features, time_dependent=True):
        super().__init__(in_features, out_features)
        self.time = None
        if time_dependent:
            bound = in_features**-0.5
            self.time = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))


class Affine(NamedTuple):
    """A x + b + c t of states (I, T, B).

    Attributes:
        weight: A (O, I).
        bias, time: b and c (O, 1); c may be None.
    """

    weight: Tensor
    bias: Tensor
    time: Tensor | None

    @classmethod
    def of(cls, *maps: TimeDependentLinear) -> Affine:
        """Several maps of the same states as one."""
        return cls(*(join(maps, name) for name in ("weight", "bias", "time")))

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        """Of t, one number or one a sequence (B)."""
        if self.time is None:
            bias = self.bias
        elif isinstance(t, float):
            bias = torch.add(self.bias, self.time, alpha=t)
        else:
            bias = self.bias + self.time * (t.repeat(x.size(1)) if t.dim() else t)
        return torch.addmm(bias, self.weight, x.flatten(1)).unflatten(1, x.shape[1:])


def join(maps: Sequence[TimeDependentLinear], name: str) -> Tensor | None:
    """The weights (O, I), biases or times (O, 1) of several maps, one below the other."""
    parts = [getattr(linear, name) for linear in maps]
    return None if parts[0] is None else single(torch.cat(parts)).view(sum(map(len, parts)), -1)


class FeedForward(NamedTuple):
    """Two affine maps with ReLU between them."""

    fc1: Affine
    fc2: Affine

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        return self.fc2(t, self.fc1(t, x).relu_())


class Memory:
    """Keys and values of the tokens before, for each evaluation of a field in its turn.

    A method on a fixed grid evaluates the field at the same times whenever a token is added.

    Args:
        saved: those of the tokens before, to which those of the newest are added.
        mask: what is added to the scores of the newest token as a key (1, 1, B).
    """

    def __init__(self, saved: dict[str, Tensor], mask: Tensor):
        self.saved = saved
        self.mask = append(saved, "mask", mask, dim=0)
        self.evaluation = 0

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Of the newest token (C, 1, B); returns those of all tokens (C, T, B)."""
        index = self.evaluation
        self.evaluation += 1
        return (
            append(self.saved, f"key{index}", key, dim=1),
            append(self.saved, f"value{index}", value, dim=1),
        )


class SelfAttention(NamedTuple):
    """Multi-head self-attention.

    Attributes:
        mask: what is added to scores, as :func:`attend` takes it.
        memory: in incremental decoding.
    """

    num_heads: int
    qkv: Affine
    out: Affine
    mask: Tensor | None
    memory: Memory | None = None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        q, k, v = self.qkv(t, x).chunk(3)
        if self.memory:
            k, v = self.memory.append(k, v)
        return self.out(t, attend(q, k, v, self.num_heads, self.mask))


class SourceAttention(NamedTuple):
    """Multi-head attention to an encoder's output, which does not change over time.

    Attributes:
        kv: keys and values at t = 0 (2C, S, B).
        kv_time: their change over time (2C, 1), or None.
        mask: as in :class:`SelfAttention`.
    """

    num_heads: int
    q: Affine
    kv: Tensor
    kv_time: Tensor | None
    out: Affine
    mask: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        kv = self.kv if self.kv_time is None else self.kv + self.kv_time.unsqueeze(1) * t
        return self.out(t, attend(self.q(t, x), *kv.chunk(2), self.num_heads, self.mask))


class Field(NamedTuple):
    """X'(t) of one batch as a function of t and X; what depends on neither is made once.

    Attributes:
        attentions: functions of t and a state.
        feed_forward: the same.
        layer_norms: weight and bias for each of them, or empty.
        dropout: a mask (C, T, B) for each of them, or empty.
        skip_connection: alpha is 1.
        residual: take Eq. 9.
        real: 1 where a token is and 0 where padding is (T, B), or None without padding.
    """

    attentions: list[Callable[[Time, Tensor], Tensor]]
    feed_forward: FeedForward
    layer_norms: list[tuple[Tensor, Tensor]]
    dropout: list[Tensor]
    skip_connection: bool
    residual: bool
    real: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        """X' (C, T, B) of X (C, T, B) and t, one number or one a sequence (B)."""
        inner = x
        for index, attention in enumerate(self.attentions):
            attended = self.sublayer(index, attention, t, inner)
            inner = inner + attended if self.skip_connection or self.residual else attended
        change = self.sublayer(len(self.attentions), self.feed_forward, t, inner)
        if self.residual:
            change = change + (inner - x)
        return change if self.real is None else change * self.real

    def sublayer(self, index: int, function, t: Time, x: Tensor) -> Tensor:
        if self.layer_norms:
            weight, bias = self.layer_norms[index]
            x = F.layer_norm(x.movedim(0, -1), weight.shape, weight, bias).movedim(-1, 0)
        x = function(t, x)
        return x * self.dropout[index] if self.dropout else x


class TransformerField(nn.Module):
    r"""X'(t) of a block of the encoder.

    .. math::
        \mathrm{FFN}_t(\alpha X + \mathrm{MHSA}_t(X)) \quad \text{(Eqs. 2 and 3)}, \qquad
        \mathrm{MHSA}_t(X) + \mathrm{FFN}_t(X + \mathrm{MHSA}_t(X)) \quad \text{(Eq. 9)}

    FFN has one hidden layer with ReLU. With ``layer_norm``, both take normalised states; dropout is
    applied to what they return, with one mask a solve, or X' would be no function of t and X.

    Args:
        embed_dim: width C.
        num_heads: number H of attention heads.
        ffn_embed_dim: width of the hidden layer.
        residual: take Eq. 9.
        skip_connection: whether alpha is 1 (Eq. 3).
        time_dependent_attention: give the affine maps of MHSA a term c t; those of FFN have one.
        layer_norm: normalise.
        dropout: probability.
    """

    sublayers = 2

    def __init__(
        self,
        embed_dim,
        num_heads,
        ffn_embed_dim,
        residual=False,
        skip_connection=False,
        time_dependent_attention=False,
        layer_norm=False,
        dropout=0.0,
    ):
        super().__init__()
        self.num_heads = num_heads
        self.residual = residual
        self.skip_connection = skip_connection
        self.dropout = dropout
        self.self_attn = attention_maps(embed_dim, time_dependent_attention)
        self.fc1 = TimeDependentLinear(embed_dim, ffn_embed_dim)
        self.fc2 = TimeDependentLinear(ffn_embed_dim, embed_dim)
        norms = self.sublayers if layer_norm else 0
        self.layer_norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(norms))

    def of_batch(self, x: Tensor, padding_mask: Tensor | None = None) -> Field:
        """The field for a batch.

        Args:
            x: a state (C, T, B).
            padding_mask: true where a token is padding (B, T); there X' is 0.
        """
        return self.field(x, [self.self_attention(padding_mask, x)], padding_mask)

    def self_attention(self, padding_mask, x, causal=False, memory=None) -> SelfAttention:
        maps = self.self_attn
        qkv, out = Affine.of(maps["q"], maps["k"], maps["v"]), Affine.of(maps["out"])
        mask = memory.mask if memory else key_mask(padding_mask, x)
        if causal:
            length = x.size(1)
            future = torch.full((length, length), lowest(x), dtype=x.dtype, device=x.device)
            future = future.tril(-1).unsqueeze(-1)  # key, query, 1
            mask = future if mask is None else future.minimum(mask)
        return SelfAttention(self.num_heads, qkv, out, mask, memory)

    def field(self, x, attentions, padding_mask) -> Field:
        masks = []
        if self.training and self.dropout:
            masks = [dropout(torch.ones_like(x), self.dropout) for _ in range(self.sublayers)]
        return Field(
            attentions,
            FeedForward(Affine.of(self.fc1), Affine.of(self.fc2)),
            [(single(norm.weight), single(norm.bias)) for norm in self.layer_norms],
            masks,
            self.skip_connection,
            self.residual,
            None if padding_mask is None else (~padding_mask).T.to(x),
        )


class TransformerDecoderField(TransformerField):
    r"""X'(t) of a block of the decoder, which attends to an encoder's output E as well.

    .. math::
        \mathrm{FFN}_t(\alpha Y + \mathrm{MHA}_t(Y, E)), \quad Y = \alpha X + \mathrm{MHSA}_t(X)

    or, with ``residual``, the Transformer's three residual branches as Eq. 9 has the encoder's two:

    .. math::
        \mathrm{MHSA}_t(X) + \mathrm{MHA}_t(Y, E) + \mathrm{FFN}_t(Y + \mathrm{MHA}_t(Y, E)), \quad
        Y = X + \mathrm{MHSA}_t(X)

    The paper has no decoder. Self-attention is causal. The arguments are those of
    :class:`TransformerField`.
    """

    sublayers = 3

    def __init__(self, embed_dim, *args, **options):
        super().__init__(embed_dim, *args, **options)
        time_dependent = self.self_attn["q"].time is not None
        self.encoder_attn = attention_maps(embed_dim, time_dependent)

    def of_batch(
        self,
        x: Tensor,
        padding_mask: Tensor | None,
        source: Tensor,
        source_padding_mask: Tensor | None,
        causal: bool = True,
        memory: Memory | None = None,
    ) -> Field:
        """The field for a batch.

        Args:
            x: a state (C, T, B).
            padding_mask: true where a token is padding (B, T); there X' is 0.
            source: keys and values of the source, of :meth:`source` (2C, S, B).
            source_padding_mask: true where a token of the source is padding (B, S).
            causal: whether there are later tokens to hide.
            memory: in incremental decoding, where *x* is the newest token alone.
        """
        maps = self.encoder_attn
        source_attention = SourceAttention(
            self.num_heads,
            Affine.of(maps["q"]),
            source,
            join([maps["k"], maps["v"]], "time"),
            Affine.of(maps["out"]),
            key_mask(source_padding_mask, x),
        )
        self_attention = self.self_attention(padding_mask, x, causal, memory)
        return self.field(x, [self_attention, source_attention], padding_mask)

    def source(self, encoder_out: Tensor) -> Tensor:
        """Keys and values (2C, S, B), at t = 0, of an encoder's output (S, B, C)."""
        kv = Affine.of(self.encoder_attn["k"], self.encoder_attn["v"])
        return kv(0.0, features_first(encoder_out))


def features_first(x: Tensor) -> Tensor:
    """From (T, B, C) to (C, T, B), in at least single precision.

    Half has none for the errors of a solver to be small.
    """
    return single(x).permute(2, 0, 1).contiguous()


def tokens_first(x: Tensor) -> Tensor:
    """From (C, T, B) to (T, B, C)."""
    return x.permute(1, 2, 0)


def attention_maps(embed_dim: int, time_dependent: bool) -> nn.ModuleDict:
    """The maps of multi-head attention, initialised as fairseq's."""
    maps = nn.ModuleDict(
        {
            name: TimeDependentLinear(embed_dim, embed_dim, time_dependent)
            for name in ("q", "k", "v", "out")
        }
    )
    for name in "qkv":
        nn.init.xavier_uniform_(maps[name].weight, gain=0.5**0.5)
    nn.init.xavier_uniform_(maps["out"].weight)
    nn.init.zeros_(maps["out"].bias)
    return maps


def key_mask(padding_mask: Tensor | None, x: Tensor) -> Tensor | None:
    """What is added to scores (S, 1, B) where padding is (B, S)."""
    if padding_mask is None:
        return None
    return (padding_mask.T.to(x) * lowest(x)).unsqueeze(1)


def lowest(x: Tensor) -> float:
    """For scores that are to have no weight; finite, as padding alone may not become nan."""
    return torch.finfo(x.dtype).min


def attend(q: Tensor, k: Tensor, v: Tensor, num_heads: int, mask: Tensor | None) -> Tensor:
    """The heads' outputs, joined (C, T, B).

    Args:
        q: queries (C, T, B).
        k, v: keys and values (C, S, B).
        mask: added to scores (S, T or 1, B or 1).
    """
    q, k, v = (x.unflatten(0, (num_heads, -1)) for x in (q, k, v))
    if k.size(1) * k.size(2) >= FEW:
        # B, H, T, D; torch's fused kernels take contiguous tensors alone.
        q, k, v = (x.permute(3, 0, 2, 1).contiguous() for x in (q, k, v))
        if mask is not None:
            mask = mask.permute(2, 1, 0).unsqueeze(1)
        x = F.scaled_dot_product_attention(q, k, v, mask)
        return x.permute(1, 3, 2, 0).flatten(0, 1)
    q = q * q.size(1) ** -0.5
    scores = (q.unsqueeze(2) * k.unsqueeze(3)).sum(1)  # H, S, T, B
    weights = (scores if mask is None else scores + mask).softmax(1)
    return (weights.unsqueeze(1) * v.unsqueeze(3)).sum(2).flatten(0, 1)
