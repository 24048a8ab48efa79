"""The vector fields of the N-ODE Transformer: X' as a function of t and X.

A field is bound to a batch before it is solved, as a solve evaluates it many times: what depends
neither on t nor on X, such as masks, joined weights and the source's keys, is then made once, and
dropout has one mask a solve, without which X' would be no function of t and X.
"""

from __future__ import annotations

from typing import NamedTuple, Union

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.dropout import dropout
from fairseq_odeformers.modules.precision import at_least_float32

from .attention import Memory, MultiheadAttention
from .layout import Affine, causal_bias, layer_norm, padding_bias
from .linear import TimeDependentLinear
from .runge_kutta import Time, VectorField


class FeedForward(NamedTuple):
    """FFN_t(X): two affine maps with ReLU between them."""

    fc1: Affine
    fc2: Affine

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        return self.fc2(t, self.fc1(t, x).relu_())


class Sublayer(NamedTuple):
    """Attention or FFN, of normalised states if there are weight and bias for that, with dropout.

    Attributes:
        dropout: a mask (C, T, B), or None.
    """

    function: VectorField
    norm: tuple[Tensor, Tensor] | None
    dropout: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        x = self.function(t, x if self.norm is None else layer_norm(x, *self.norm))
        return x if self.dropout is None else x * self.dropout


class ComposedField(NamedTuple):
    """FFN_t(alpha X + MHSA_t(X)) (paper, Eqs. 2 and 3).

    Attributes:
        attentions: MHSA, and in a decoder the attention to a source after it.
        skip_connection: whether alpha is 1, or else 0.
        real: 1 where a token is and 0 where padding is (T, B), or None without padding.
    """

    attentions: list[Sublayer]
    feed_forward: Sublayer
    skip_connection: bool
    real: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        for attention in self.attentions:
            attended = attention(t, x)
            x = x + attended if self.skip_connection else attended
        slope = self.feed_forward(t, x)
        return slope if self.real is None else slope * self.real


class ResidualField(NamedTuple):
    """MHSA_t(X) + FFN_t(X + MHSA_t(X)) (paper, Eq. 9).

    The attributes are those of :class:`ComposedField`.
    """

    attentions: list[Sublayer]
    feed_forward: Sublayer
    real: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        inner = x
        for attention in self.attentions:
            inner = inner + attention(t, inner)
        slope = (inner - x) + self.feed_forward(t, inner)
        return slope if self.real is None else slope * self.real


Field = Union[ComposedField, ResidualField]


class TransformerField(nn.Module):
    """X' in a block of the encoder: a :class:`ComposedField` or a :class:`ResidualField`.

    Args:
        embed_dim: width C.
        num_heads: number H of attention heads.
        ffn_embed_dim: width of FFN's hidden layer.
        residual: take the residual field, which has all skip connections.
        skip_connection: whether alpha is 1 in the composed field.
        time_dependent_attention: give the affine maps of MHSA a term c t; those of FFN have one.
        layer_norm: normalise what MHSA and FFN take.
        dropout: probability, of what they return.
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
        self.residual = residual
        self.skip_connection = skip_connection
        self.dropout = dropout
        self.self_attn = MultiheadAttention(embed_dim, num_heads, time_dependent_attention)
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
        self_attention = self.self_attn.to_self(padding_bias(padding_mask, x))
        return self.field(x, padding_mask, self_attention)

    def field(self, x: Tensor, padding_mask: Tensor | None, *attentions: VectorField) -> Field:
        """The function of t and X, features first, that a solver takes, bound to a batch.

        In training each sub-layer has one mask of dropout, shaped as *x*, for the whole solve.

        Args:
            padding_mask: true where a token of X is padding (B, T).
            attentions: of a decoder to itself and to the source; of an encoder to itself.
        """
        functions = [*attentions, FeedForward(Affine.of(self.fc1), Affine.of(self.fc2))]
        norms = [
            (at_least_float32(norm.weight), at_least_float32(norm.bias))
            for norm in self.layer_norms
        ]
        masks = [None] * len(functions)
        if self.training and self.dropout:
            masks = [dropout(torch.ones_like(x), self.dropout) for _ in functions]
        *attentions, feed_forward = map(Sublayer, functions, norms or [None] * len(masks), masks)
        real = None if padding_mask is None else (~padding_mask).T.to(x)
        if self.residual:
            return ResidualField(attentions, feed_forward, real)
        return ComposedField(attentions, feed_forward, self.skip_connection, real)


class TransformerDecoderField(TransformerField):
    r"""X' in a block of the decoder, which attends to an encoder's output E as well.

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

    def __init__(self, embed_dim, num_heads, *args, **options):
        super().__init__(embed_dim, num_heads, *args, **options)
        time_dependent = self.self_attn.q.time is not None
        self.encoder_attn = MultiheadAttention(embed_dim, num_heads, time_dependent)

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
            source: keys and values of the source, of ``encoder_attn.source`` (2C, S, B).
            source_padding_mask: true where a token of the source is padding (B, S).
            causal: whether there are later tokens to hide.
            memory: in incremental decoding, where *x* is the newest token alone.
        """
        bias = memory.bias if memory else padding_bias(padding_mask, x)
        if causal:
            bias = causal_bias(x) if bias is None else causal_bias(x).minimum(bias)
        self_attention = self.self_attn.to_self(bias, memory)
        source_bias = padding_bias(source_padding_mask, x)
        source_attention = self.encoder_attn.to_source(source, source_bias)
        return self.field(x, padding_mask, self_attention, source_attention)
