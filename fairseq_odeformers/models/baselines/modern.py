"""The modern Transformer layer: RMSNorm, rotary positions, SwiGLU (Llama, Touvron et al. 2023)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.models.common.answers import AttentionMaps, LayerParts, Projections
from fairseq_odeformers.models.common.transformer import Spec
from fairseq_odeformers.modules.attention import attention_map, split_heads, visible
from fairseq_odeformers.modules.basics import Dropout, LinearWithoutBias, at_least_float32
from fairseq_odeformers.modules.incremental import Incremental, IncrementalState, append
from fairseq_odeformers.modules.transformer_layer import Block, key_padding_mask

ROTARY_BASE = 10_000.0


def gated_width(ffn_embed_dim: int) -> int:
    """Return 2/3 of an FFN's inner width, rounded up to a multiple of 8: a SwiGLU of equal size."""
    return -(-2 * ffn_embed_dim // 24) * 8


@dataclass(frozen=True)
class ModernSpec(Spec):
    """The sizes and dropout probabilities of a layer; fields are named after their options."""

    embed_dim: int  # C
    attention_heads: int  # H
    ffn_embed_dim: int | None = None
    dropout: float = 0.0
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    @property
    def inner_width(self) -> int:
        """The inner width: the option or, by default, 8/3 C rounded up to a multiple of 8."""
        return self.ffn_embed_dim or gated_width(4 * self.embed_dim)


class RMSNorm(nn.Module):
    """RMSNorm (Zhang and Sennrich 2019, Eq. 4): x / sqrt(mean(x^2) + eps) * weight.

    The mean is over the features of a token. It is computed in float32 or better.
    """

    eps = 1e-5  # the value in Llama 2 and 3

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Map (..., C) to (..., C)."""
        wide = at_least_float32(x)
        scale = (wide.square().mean(-1, keepdim=True) + self.eps).rsqrt()
        return (wide * scale).to(x) * self.weight


def rotate(x: Tensor, first: int) -> Tensor:
    r"""Rotate the features i and i + h/2 of the token at position m by :math:`m b^{-2i/h}`.

    Su et al. 2024, Eq. 15, with the base b = :data:`ROTARY_BASE`. Angles and products are in
    float32 or better, since half precision cannot represent the positions in a long text.

    Args:
        x: heads (B, H, T, h).
        first: position of the first token.

    Returns:
        The rotated heads (B, H, T, h).
    """
    half, dtype = x.size(-1) // 2, torch.promote_types(x.dtype, torch.float32)
    positions = torch.arange(first, first + x.size(2), device=x.device, dtype=dtype)
    planes = torch.arange(half, device=x.device, dtype=dtype)
    angles = torch.outer(positions, ROTARY_BASE ** (-planes / half))  # (T, h/2)
    cos, sin = angles.cos(), angles.sin()
    a, b = x.to(dtype).chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)


class Attention(Incremental, nn.Module):
    """Base class of the attentions, without biases and with weights initialised as in fairseq."""

    def __init__(self, spec: ModernSpec):
        super().__init__()
        width = spec.embed_dim
        self.num_heads = spec.attention_heads
        self.q_proj = LinearWithoutBias(width, width)
        self.k_proj = LinearWithoutBias(width, width)
        self.v_proj = LinearWithoutBias(width, width)
        self.out_proj = LinearWithoutBias(width, width)
        for linear in (self.q_proj, self.k_proj, self.v_proj):
            nn.init.xavier_uniform_(linear.weight, gain=2**-0.5)
        nn.init.xavier_uniform_(self.out_proj.weight)
        self.attention_dropout = Dropout(spec.attention_dropout, type(self).__name__)

    def heads(self, projection: nn.Linear, x: Tensor) -> Tensor:
        """Project states (T, B, C) and split them into heads (B, H, T, C/H)."""
        return split_heads(projection(x).transpose(0, 1), self.num_heads)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool = False
    ) -> Tensor:
        """Attend to keys and values, and return the output (T, B, C).

        Args:
            q: queries (B, H, T, C/H).
            k, v: keys and values (B, H, S, C/H).
            mask: true where a query may see a key, see :func:`.visible`.
            causal: without a mask, whether a query sees only keys up to its own position.
        """
        p = self.attention_dropout.active_p
        out = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=p, is_causal=causal)
        return self.out_proj(out.permute(2, 0, 1, 3).flatten(2))


class SelfAttention(Attention):
    """Self-attention with rotary positions (Su et al. 2024), causal or not."""

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """Map (T, B, C) to (T, B, C).

        Args:
            x: states (T, B, C); in incremental decoding, only the newest token (1, B, C).
            padding_mask: true where a token is padding (B, T).
            causal: whether a token sees only itself and earlier tokens.
            incremental_state: the rotated keys and the values of earlier tokens.
        """
        saved = self.saved(incremental_state)
        q, k, v = self.project(x, first=saved["key"].size(2) if saved else 0)
        if incremental_state is None:
            mask = visible(padding_mask, x.size(0), causal)
            return self.attend(q, k, v, mask, causal and mask is None)
        if padding_mask is None:
            padding_mask = x.new_zeros(x.size(1), x.size(0)).bool()
        k, v = append(saved, "key", k, dim=2), append(saved, "value", v, dim=2)
        mask = visible(append(saved, "padding", padding_mask, dim=1), x.size(0), causal=True)
        self.save(incremental_state, saved)
        return self.attend(q, k, v, mask)

    def project(self, x: Tensor, first: int = 0) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys, rotated by positions *first*, ..., and values (B, H, T, C/H)."""
        q, k, v = (self.heads(proj, x) for proj in (self.q_proj, self.k_proj, self.v_proj))
        return rotate(q, first), rotate(k, first), v

    def attention_maps(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        causal: bool = False,
        incremental_state: IncrementalState = None,
    ) -> Iterator[AttentionMaps]:
        """Yield the map of a call without an incremental state."""
        q, k, _ = self.project(x)
        mask = visible(padding_mask, x.size(0), causal)
        yield AttentionMaps(attention_map(q, k, mask, causal and mask is None).unsqueeze(0))

    def layer_parts(self, x: Tensor, *unused: Any) -> Iterator[LayerParts]:
        """Yield the outputs of the heads for one text (T, 1, C), without causal masking."""
        yield LayerParts(F.scaled_dot_product_attention(*self.project(x))[0])

    def projections(self) -> Iterator[Projections]:
        """Yield the projections of this layer, at its one depth."""
        maps = (self.q_proj, self.k_proj, self.v_proj, self.out_proj)
        yield Projections.of(self.num_heads, *(linear.weight for linear in maps))


class SourceAttention(Attention):
    """A decoder's cross-attention, without positions."""

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
    ) -> Tensor:
        """Map (T, B, C) to (T, B, C).

        Args:
            x: states (T, B, C).
            source: the encoder's output (S, B, C); generation projects it once.
            padding_mask: true where a token of the source is padding (B, S).
            incremental_state: keys and values of the source.
        """
        saved = self.saved(incremental_state)
        if not saved:
            saved["key"] = self.heads(self.k_proj, source)
            saved["value"] = self.heads(self.v_proj, source)
            if incremental_state is not None:
                self.save(incremental_state, saved)
        mask = visible(padding_mask, x.size(0), causal=False)
        return self.attend(self.heads(self.q_proj, x), saved["key"], saved["value"], mask)

    def attention_maps(
        self,
        x: Tensor,
        source: Tensor,
        padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
    ) -> Iterator[AttentionMaps]:
        """Yield the map of a call without an incremental state."""
        q, k = self.heads(self.q_proj, x), self.heads(self.k_proj, source)
        weights = attention_map(q, k, visible(padding_mask, x.size(0), causal=False))
        yield AttentionMaps(weights.unsqueeze(0), cross=True)


class SwiGLU(nn.Module):
    """Feed-forward network W_down (silu(W_gate x) * W_up x) (Shazeer 2020, Eq. 6).

    It is initialised like fairseq's FFN.
    """

    def __init__(self, spec: ModernSpec):
        super().__init__()
        self.gate_proj = LinearWithoutBias(spec.embed_dim, spec.inner_width)
        self.up_proj = LinearWithoutBias(spec.embed_dim, spec.inner_width)
        self.down_proj = LinearWithoutBias(spec.inner_width, spec.embed_dim)
        self.activation_dropout = Dropout(spec.activation_dropout, type(self).__name__)

    def forward(self, x: Tensor) -> Tensor:
        """Map (T, B, C) to (T, B, C)."""
        x = F.silu(self.gate_proj(x)) * self.up_proj(x)
        return self.down_proj(self.activation_dropout(x))


class ModernEncoderLayer(Block):
    """x + F(RMSNorm(x)) for F = self-attention, then F = SwiGLU; the base of the decoder layer."""

    def __init__(self, spec: ModernSpec):
        super().__init__()
        self.self_attn_layer_norm = RMSNorm(spec.embed_dim)
        self.self_attn = SelfAttention(spec)
        self.final_layer_norm = RMSNorm(spec.embed_dim)
        self.feed_forward = SwiGLU(spec)
        self.dropout_module = Dropout(spec.dropout, type(self).__name__)

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """Map (T, B, C) to (T, B, C).

        Args:
            encoder_padding_mask: true where a token is padding (B, T).
        """
        padding_mask = key_padding_mask(encoder_padding_mask)
        return self.add_ffn(x + self.attend_to_self(x, padding_mask))

    def attend_to_self(self, x: Tensor, *inputs: Any) -> Tensor:
        """Return Attention(RMSNorm(x)); for *inputs*, see :meth:`SelfAttention.forward`."""
        return self.dropout_module(self.self_attn(self.self_attn_layer_norm(x), *inputs))

    def add_ffn(self, x: Tensor) -> Tensor:
        """Return x + SwiGLU(RMSNorm(x))."""
        return x + self.dropout_module(self.feed_forward(self.final_layer_norm(x)))


class ModernDecoderLayer(ModernEncoderLayer):
    """Decoder layer: self-attention, cross-attention (in translators), SwiGLU."""

    def __init__(self, spec: ModernSpec, no_encoder_attn: bool = False):
        super().__init__(spec)
        self.encoder_attn_layer_norm = None if no_encoder_attn else RMSNorm(spec.embed_dim)
        self.encoder_attn = None if no_encoder_attn else SourceAttention(spec)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        self_attn_mask: Tensor | None = None,
        self_attn_padding_mask: Tensor | None = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
    ) -> tuple[Tensor, None, None]:
        """Map (T, B, C) to (T, B, C).

        Args:
            x: input (T, B, C); in incremental decoding, only the newest token (1, B, C).
            encoder_out: the encoder's output (S, B, C), in a translator.
            encoder_padding_mask: true where a token of the source is padding (B, S).
            incremental_state: keys and values of both attentions.
            self_attn_mask: any tensor if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: ignored; no attention weights are returned.

        Returns:
            Output (T, B, C), and two Nones in place of attention weights and saved state.
        """
        causal = self_attn_mask is not None
        x = x + self.attend_to_self(x, self_attn_padding_mask, causal, incremental_state)
        attend, norm = self.encoder_attn, self.encoder_attn_layer_norm
        if attend is not None and norm is not None and encoder_out is not None:
            padding_mask = key_padding_mask(encoder_padding_mask)
            y = attend(norm(x), encoder_out, padding_mask, incremental_state)
            x = x + self.dropout_module(y)
        return self.add_ffn(x), None, None
