"""Blocks that take all L steps of an encoder or decoder; one replaces all of fairseq's layers."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fairseq_odeformers.models.common.answers import AttentionMaps, LayerParts
from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.modules.attention import split_heads, visible
from fairseq_odeformers.modules.incremental import Incremental, IncrementalState, Saved, append
from fairseq_odeformers.modules.transformer_layer import Block, key_padding_mask

from .branches import FeedForward, SelfAttention, SourceAttention
from .spec import BlockSpec


class EulerStep(nn.Module):
    """One of L steps of Euler's method: x + f(x)/L."""

    def __init__(self, steps: int):
        super().__init__()
        self.steps = steps

    def forward(self, x: Tensor, slope: Callable[[Tensor], Tensor]) -> Tensor:
        """Map (B, T, C) to (B, T, C)."""
        return x + slope(x) / self.steps


class DiffEqEncoderBlock(Block):
    """All steps of an encoder, and the base class of the decoder blocks."""

    batch_first = True
    source_attention = False
    depths: Sequence[EulerStep]

    def __init__(self, spec: BlockSpec):
        super().__init__()
        self.self_attn = SelfAttention(spec)
        self.encoder_attn = SourceAttention(spec) if self.source_attention else None
        self.feed_forward = FeedForward(spec)
        self.checkpoint_activations = spec.checkpoint_activations
        self.depths = nn.ModuleList(  # pyright: ignore[reportAttributeAccessIssue]
            EulerStep(spec.steps_taken) for _ in range(spec.steps_taken)
        )

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """Map x_0 to x_L.

        Args:
            x: input (T, B, C).
            encoder_padding_mask: true where a token is padding (B, T).

        Returns:
            Output (T, B, C).
        """
        mask = visible(key_padding_mask(encoder_padding_mask), x.size(0), causal=False)
        attention, ffn = self.self_attn.weights(), self.feed_forward.weights()

        def slope(index: int, x: Tensor) -> Tensor:
            q, k, v = self.self_attn.project(x, attention[index])
            attended = self.self_attn(q, k, v, attention[index], mask, False)
            return attended + self.feed_forward(x, ffn[index])

        return self.solve(x, slope)

    def solve(self, x: Tensor, slope: Callable[[int, Tensor], Tensor]) -> Tensor:
        """Map x_0 (T, B, C) to x_L (T, B, C).

        Args:
            slope: f(x) (B, T, C) as a function of the number of the step, 0, 1, ..., and x.
        """
        x = x.transpose(0, 1)
        for index, step in enumerate(self.depths):
            f = lambda x, index=index: slope(index, x)  # noqa: E731
            if self.checkpoint_activations:
                x = checkpoint(step, x, f, use_reentrant=False)
            else:
                x = step(x, f)
        return x.transpose(0, 1)

    def attention_maps(self, *args: Any, **kwargs: Any) -> Iterator[AttentionMaps]:
        """Yield the maps of all steps, for which the block takes its steps once more."""
        attentions: list[Any] = [a for a in (self.self_attn, self.encoder_attn) if a is not None]
        with record_calls(attentions) as calls:
            self(*args, **kwargs)
        for attention in attentions:
            steps = [attention.map_of(*call.args) for call in calls if call.module is attention]
            yield AttentionMaps(torch.stack(steps), cross=attention is self.encoder_attn)

    def layer_parts(self, *args: Any, **kwargs: Any) -> Iterator[LayerParts]:
        """Yield the outputs of the heads in each step for one text, by taking the steps again."""
        with record_calls([self.self_attn]) as calls:
            self(*args, **kwargs)
        for call in calls:
            q, k, v = (split_heads(x, self.self_attn.num_heads) for x in call.args[:3])
            yield LayerParts(F.scaled_dot_product_attention(q, k, v)[0])

    def state_modules(self) -> Sequence[nn.Module]:
        """Return the modules whose outputs are the states (B, T, C) after each step."""
        return self.depths


class DiffEqCausalBlock(Incremental, DiffEqEncoderBlock):
    """All steps of a decoder without an encoder: causal self-attention and FFN.

    In incremental decoding, a new token adds its key and value in each step to the saved state. The
    block of a translator attends to the source as well.
    """

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
        """Map x_0 to x_L, with the keys and values of earlier tokens and a source.

        Args:
            x: input (T, B, C); in incremental decoding only the newest token (1, B, C).
            encoder_out: the encoder's output (S, B, C), for a translator.
            encoder_padding_mask: true where a token of the source is padding (B, S).
            self_attn_mask: any tensor if the self-attention is causal; its values are not read.
            self_attn_padding_mask: true where a target token is padding (B, T).
            need_attn, need_head_weights: ignored; no attention weights are returned.

        Returns:
            Output (T, B, C), and two Nones in place of attention weights and saved state.
        """
        saved, causal = None, self_attn_mask is not None
        if incremental_state is not None:
            saved = self.saved(incremental_state)
            newest = self_attn_padding_mask
            newest = x.new_zeros(x.size(1), 1).bool() if newest is None else newest
            self_attn_padding_mask = append(saved, "padding", newest, dim=1)
        mask = visible(self_attn_padding_mask, x.size(0), causal or saved is not None)
        attention, ffn = self.self_attn.weights(), self.feed_forward.weights()
        slope_to_source = self.attend_to_source(encoder_out, encoder_padding_mask, saved)

        def slope(index: int, x: Tensor) -> Tensor:
            q, k, v = self.self_attn.project(x, attention[index])
            if saved is not None:
                k = append(saved, f"key{index}", k, dim=1)
                v = append(saved, f"value{index}", v, dim=1)
            attended = self.self_attn(q, k, v, attention[index], mask, causal and mask is None)
            return attended + self.feed_forward(x, ffn[index]) + slope_to_source(index, x)

        x = self.solve(x, slope)
        if saved is not None:
            self.save(incremental_state, saved)
        return x, None, None

    def attend_to_source(
        self, source: Tensor | None, padding_mask: Tensor | None, saved: Saved | None
    ) -> Callable[[int, Tensor], Tensor | float]:
        """Return the source's part of the slope as a function of step and state: 0 here."""
        return lambda index, x: 0.0


class DiffEqDecoderBlock(DiffEqCausalBlock):
    """All steps of a translator's decoder, with a third branch: cross-attention (S, B, C)."""

    source_attention = True
    encoder_attn: SourceAttention

    def attend_to_source(
        self, source: Tensor, padding_mask: Tensor | None, saved: Saved | None
    ) -> Callable[[int, Tensor], Tensor]:
        """Return Attn_t(LN_t(x), E) as a function of step and state; generation projects E once."""
        weights, source = self.encoder_attn.weights(), source.transpose(0, 1)
        mask = visible(key_padding_mask(padding_mask), 1, causal=False)

        def slope(index: int, x: Tensor) -> Tensor:
            kv = (saved or {}).get(f"source{index}")
            if kv is None:
                kv = self.encoder_attn.project(source, weights[index])
            if saved is not None:
                saved[f"source{index}"] = kv
            return self.encoder_attn(x, kv, weights[index], mask)

        return slope
