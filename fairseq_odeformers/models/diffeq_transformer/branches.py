"""The branches of a step: attention and FFN, pre-norm, with the weights at the step's time."""

from collections.abc import Iterator, Sequence

import torch.nn.functional as F
from fairseq.utils import get_activation_fn
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import Projections
from fairseq_odeformers.modules.attention import attention_map, split_heads
from fairseq_odeformers.modules.basics import Dropout

from .maps import TimeDependent, TimeDependentLayerNorm, TimeDependentLinear, Weights
from .spec import BlockSpec


class Branch(nn.Module):
    """Base class of functions of a state and of weights that the caller has evaluated."""

    def __init__(self, spec: BlockSpec):
        super().__init__()
        self.embed_dim = spec.embed_dim
        self.layer_norm = TimeDependentLayerNorm(spec)
        self.dropout_module = Dropout(spec.dropout, type(self).__name__)

    def weights(self) -> Sequence[tuple[Weights, ...]]:
        """Return the weights of the maps for each step, with the maps in order of construction."""
        maps = [child for child in self.children() if isinstance(child, TimeDependent)]
        return [*zip(*(child.tensors() for child in maps))]

    def normalize(self, x: Tensor, norm: Weights) -> Tensor:
        """Return LN_t(x) (B, T, C)."""
        return F.layer_norm(x, (self.embed_dim,), *norm)


class Attention(Branch):
    """Base class of the attentions, initialised like fairseq's."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        self.num_heads = spec.attention_heads
        self.attention_dropout = Dropout(spec.attention_dropout, type(self).__name__)
        self.in_std, self.out_std = (2 * spec.embed_dim) ** -0.5, spec.embed_dim**-0.5

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """Return the attention (B, T, C) of queries (B, T, C) to keys and values (B, S, C).

        Args:
            mask: true where a query may see a key (B, 1, T or 1, S), see :func:`.visible`.
            causal: without a mask, whether a query sees only keys up to its own position.
        """
        q, k, v = (split_heads(x, self.num_heads) for x in (q, k, v))
        p = self.attention_dropout.active_p
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p, is_causal=causal)
        return out.transpose(1, 2).flatten(2)

    def map(self, q: Tensor, k: Tensor, mask: Tensor | None, causal: bool = False) -> Tensor:
        """Return the attention map (B, H, T, S) that :meth:`attend` applies."""
        q, k = (split_heads(x, self.num_heads) for x in (q, k))
        return attention_map(q, k, mask, causal)


class SelfAttention(Attention):
    """Attn_t(LN_t(x)); one weight computes queries, keys and values."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        self.qkv_proj = TimeDependentLinear(spec, self.embed_dim, 3 * self.embed_dim, self.in_std)
        self.out_proj = TimeDependentLinear(spec, self.embed_dim, self.embed_dim, self.out_std)

    def project(self, x: Tensor, weights: tuple[Weights, ...]) -> tuple[Tensor, ...]:
        """Map a state (B, T, C) to queries, keys and values (B, T, C)."""
        norm, qkv, _ = weights
        return F.linear(self.normalize(x, norm), *qkv).chunk(3, -1)

    def map_of(self, q: Tensor, k: Tensor, v: Tensor, weights, mask, causal: bool) -> Tensor:
        """Return the map of a call of :meth:`forward`."""
        return self.map(q, k, mask, causal)

    def projections(self) -> Iterator[Projections]:
        """Yield the projections of each step."""
        for (qkv, _), (out, _) in zip(self.qkv_proj.tensors(), self.out_proj.tensors()):
            q, k, v = qkv.chunk(3)
            yield Projections.of(self.num_heads, q, k, v, out)

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        weights: tuple[Weights, ...],
        mask: Tensor | None,
        causal: bool,
    ) -> Tensor:
        """Map the result of :meth:`project` to the slope (B, T, C); see :meth:`attend`."""
        return self.dropout_module(F.linear(self.attend(q, k, v, mask, causal), *weights[-1]))


class SourceAttention(Attention):
    """Attn_t(LN_t(x), E), where E is the encoder's output."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        self.q_proj = TimeDependentLinear(spec, self.embed_dim, self.embed_dim, self.in_std)
        self.kv_proj = TimeDependentLinear(spec, self.embed_dim, 2 * self.embed_dim, self.in_std)
        self.out_proj = TimeDependentLinear(spec, self.embed_dim, self.embed_dim, self.out_std)

    def project(self, source: Tensor, weights: tuple[Weights, ...]) -> Tensor:
        """Map the encoder's output (B, S, C) to keys and values (B, S, 2C)."""
        return F.linear(source, *weights[2])

    def map_of(self, x: Tensor, kv: Tensor, weights: tuple[Weights, ...], mask) -> Tensor:
        """Return the map of a call of :meth:`forward`."""
        norm, q_proj, *_ = weights
        return self.map(F.linear(self.normalize(x, norm), *q_proj), kv.chunk(2, -1)[0], mask)

    def forward(
        self, x: Tensor, kv: Tensor, weights: tuple[Weights, ...], mask: Tensor | None
    ) -> Tensor:
        """Map a state (B, T, C) and the result of :meth:`project` to the slope (B, T, C)."""
        norm, q_proj, _, out_proj = weights
        q = F.linear(self.normalize(x, norm), *q_proj)
        return self.dropout_module(F.linear(self.attend(q, *kv.chunk(2, -1), mask=mask), *out_proj))


class FeedForward(Branch):
    """FFN_t(LN'_t(x)), initialised like fairseq's FFN."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec)
        width, inner = spec.embed_dim, spec.ffn_embed_dim
        self.fc1 = TimeDependentLinear(spec, width, inner, (3 * width) ** -0.5)
        self.fc2 = TimeDependentLinear(spec, inner, width, (3 * inner) ** -0.5)
        self.activation_fn = get_activation_fn(spec.activation_fn)
        self.activation_dropout = Dropout(spec.activation_dropout, type(self).__name__)

    def forward(self, x: Tensor, weights: tuple[Weights, ...]) -> Tensor:
        """Map a state (B, T, C) to the slope (B, T, C)."""
        norm, fc1, fc2 = weights
        x = self.activation_fn(F.linear(self.normalize(x, norm), *fc1))
        return self.dropout_module(F.linear(self.activation_dropout(x), *fc2))
