"""The vector field of the N-ODE Transformer: dX/dt as a function of t and X.

:class:`TransformerField` holds the parameters. Its ``bind`` returns the function that a solve uses
for one batch.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.basics import Dropout, at_least_float32

from .attention import KeyValueCache, SelfAttention, SourceAttention
from .layout import Affine, TimeDependentLinear, layer_norm
from .problem import Time, VectorField
from .spec import BlockSpec


class TransformerField(nn.Module):
    r"""dX/dt in a block of the encoder or the decoder.

    The encoder's field is either composed (paper, Eqs. 2 and 3) or ``residual`` (Eq. 9). In a
    composed field, alpha is 1 with ``skip_connection``, else 0:

    .. math::
        \mathrm{FFN}_t(Y), \quad Y = \alpha X + \mathrm{MHSA}_t(X) \\
        \mathrm{MHSA}_t(X) + \mathrm{FFN}_t(Y), \quad Y = X + \mathrm{MHSA}_t(X)

    The paper has no decoder. Here, its tokens attend to the encoder's output E before the FFN:

    .. math::
        \mathrm{FFN}_t(\alpha Y + \mathrm{MHA}_t(Y, E)) \\
        \mathrm{MHSA}_t(X) + \mathrm{MHA}_t(Y, E) + \mathrm{FFN}_t(Y + \mathrm{MHA}_t(Y, E))

    With ``normalize_before``, the inputs of attention and FFN are normalised.

    Args:
        decoder: whether to attend to an encoder's output as well.
    """

    def __init__(self, spec: BlockSpec, decoder: bool = False):
        super().__init__()
        self.spec = spec
        maps = spec.embed_dim, spec.attention_heads, spec.time_dependent_attention
        self.self_attn = SelfAttention(*maps)
        self.fc1 = TimeDependentLinear(spec.embed_dim, spec.ffn_embed_dim)
        self.fc2 = TimeDependentLinear(spec.ffn_embed_dim, spec.embed_dim)
        sublayers = 3 if decoder else 2
        norms = sublayers if spec.normalize_before else 0
        self.layer_norms = nn.ModuleList(nn.LayerNorm(spec.embed_dim) for _ in range(norms))
        self.encoder_attn = SourceAttention(*maps) if decoder else None
        self.dropout_module = Dropout(spec.dropout, module_name=type(self).__name__)

    def bind(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        source: Tensor | None = None,
        source_padding_mask: Tensor | None = None,
        causal: bool = False,
        cache: KeyValueCache | None = None,
    ) -> "BoundField":
        """Return dX/dt for a batch, as a function of t and X.

        A solve evaluates dX/dt many times, so everything that depends on neither t nor X is
        computed here once.

        In training, or with fairseq's ``--retain-dropout``, each sub-layer draws one dropout mask
        for the entire solve. With a new mask at each evaluation, dX/dt would not be a function of t
        and X.

        Args:
            x: X(0) (C, T, B); in incremental decoding, only the newest token.
            padding_mask: true where a token is padding (B, T).
            source: the encoder's output (S, B, C), for a decoder.
            source_padding_mask: true where a token of the source is padding (B, S).
            causal: whether self-attention hides later tokens.
            cache: keys and values of earlier tokens, in incremental decoding.
        """
        functions: list[VectorField] = [self.self_attn.bind(x, padding_mask, causal, cache)]
        if self.encoder_attn is not None:
            assert source is not None
            functions.append(self.encoder_attn.bind(x, source, source_padding_mask, cache))
        functions.append(FeedForward(Affine.join(self.fc1), Affine.join(self.fc2)))
        norms = masks = [None] * len(functions)
        if self.spec.normalize_before:
            norms = [tuple(map(at_least_float32, norm.parameters())) for norm in self.layer_norms]
        if self.dropout_module.active_p:
            masks = [self.dropout_module(torch.ones_like(x)) for _ in functions]
        sublayers = list(map(Sublayer, functions, norms, masks))
        return BoundField(
            attentions=sublayers[:-1],
            feed_forward=sublayers[-1],
            skip_connection=self.spec.skip_connection or self.spec.residual,
            residual=self.spec.residual,
            token_mask=None if padding_mask is None else (~padding_mask).T.to(x),
        )


class BoundField(NamedTuple):
    """dX/dt for one batch; it is 0 at padding.

    Attributes:
        attentions: MHSA and, in a decoder, the cross-attention.
        skip_connection: whether alpha is 1 instead of 0.
        residual: whether dX/dt includes the outputs of the attentions (Eq. 9).
        token_mask: 1 for tokens and 0 for padding (T, B); None without padding.
    """

    attentions: list["Sublayer"]
    feed_forward: "Sublayer"
    skip_connection: bool
    residual: bool
    token_mask: Tensor | None

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        y = x
        for attention in self.attentions:
            attended = attention(t, y)
            y = y + attended if self.skip_connection else attended
        if self.residual:
            slope = (y - x) + self.feed_forward(t, y)
        else:
            slope = self.feed_forward(t, y)
        return slope if self.token_mask is None else slope * self.token_mask

    def attention_maps(self, t: Time, x: Tensor) -> Iterator[Tensor]:
        """Yield the map (B, H, T, S) of each attention at a time and state."""
        for sublayer in self.attentions:
            attention: Any = sublayer.function
            yield attention.map(t, sublayer.normalize(x))
            attended = sublayer(t, x)
            x = x + attended if self.skip_connection else attended


class Sublayer(NamedTuple):
    """Attention or FFN, with an optional LayerNorm before it and optional dropout after it.

    Attributes:
        function: the attention or FFN, a function of t and X (C, T, B).
        norm: weight and bias (C) of the LayerNorm, or None.
        dropout: scaled dropout mask (C, T, B), or None.
    """

    function: VectorField
    norm: tuple[Tensor, ...] | None
    dropout: Tensor | None

    def normalize(self, x: Tensor) -> Tensor:
        """Normalise the input of the function, if there is a LayerNorm."""
        return x if self.norm is None else layer_norm(x, *self.norm)

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        x = self.function(t, self.normalize(x))
        return x if self.dropout is None else x * self.dropout


class FeedForward(NamedTuple):
    """FFN_t(X), from and to (C, T, B): two affine maps with ReLU between them."""

    fc1: Affine
    fc2: Affine

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        return self.fc2(t, self.fc1(t, x).relu_())
