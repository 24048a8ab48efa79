"""Base classes of layers for fairseq's stacks: fairseq's own layers and their replacements."""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from .incremental import IncrementalState

Output = tuple[Tensor, Tensor | None, list[Tensor | None] | None]  # the result of a decoder layer


class EncoderLayer(TransformerEncoderLayerBase):
    """fairseq's Transformer layer, without the inference kernel of fairseq 0.12.2.

    That kernel supports only plain residual connections with LayerNorm, and keeps copies of the
    parameters. This layer has neither the kernel nor the copies.
    """

    _load_from_state_dict = nn.Module._load_from_state_dict

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        self.can_use_fastpath = False
        for name in list(self._parameters):
            delattr(self, name)
            self.register_buffer(name, torch.empty(0), persistent=False)

    def forward(
        self, x: Tensor, encoder_padding_mask: Tensor | None, attn_mask: Tensor | None = None
    ) -> Tensor:
        """Map (T, B, C) to (T, B, C); no output is NaN, even if a text consists of padding."""
        return super().forward(x, key_padding_mask(encoder_padding_mask), attn_mask)


class DecoderLayer(TransformerDecoderLayerBase):
    """fairseq's decoder layer; its output is never NaN, even if a source consists of padding."""

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        *args,
        **kwargs,
    ) -> Output:
        """Map (T, B, C) to (T, B, C); no output is NaN, even if a source consists of padding."""
        mask = key_padding_mask(encoder_padding_mask)
        return super().forward(x, encoder_out, mask, *args, **kwargs)


class RepeatedDecoderLayer(DecoderLayer):
    """Base class of decoder layers that evaluate fairseq's layer several times in one pass.

    In incremental decoding, each evaluation of a token sees only the keys and values from the same
    evaluation of earlier tokens. fairseq's attention would append the keys and values of all
    evaluations to one cache, and generation would be silently wrong.
    """

    def evaluate(
        self,
        index: int,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState = None,
        *args,
        **kwargs,
    ) -> Output:
        """Evaluate fairseq's layer with the key/value cache of evaluation *index*.

        Args:
            index: 0 for the first evaluation of a pass, 1 for the second, and so on.
        """
        cache = incremental_state
        if incremental_state is not None:
            cache = incremental_state.setdefault(self.cache_name(index), {})
        inputs = x, encoder_out, encoder_padding_mask, cache
        return super().forward(*inputs, *args, **kwargs)

    def cache_name(self, index: int) -> str:
        """Return the key under which the incremental state keeps the cache of an evaluation."""
        return self.self_attn._get_full_incremental_state_key(f"evaluation{index}")

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Reorder the caches of all evaluations when fairseq chooses beams."""
        index = 0
        while cache := (incremental_state or {}).get(self.cache_name(index)):
            for attention in filter(None, (self.self_attn, self.encoder_attn)):
                attention.reorder_incremental_state(cache, new_order)
            index += 1


class WithoutLayerNorm(nn.Module):
    """Mixin that removes LayerNorm from a layer of fairseq's Transformer: x + F(x)."""

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        drop_layer_norms(self)


def drop_layer_norms(layer: nn.Module) -> None:
    """Replace the LayerNorms of a layer of fairseq's Transformer with the identity."""
    for name, _ in list(layer.named_children()):
        if name.endswith("layer_norm"):
            setattr(layer, name, nn.Identity())


class Block(nn.Module):
    """Base class of modules that replace one or several layers of fairseq's stacks.

    fairseq's stacks use more than ``forward``. Both supported versions call
    ``upgrade_state_dict_named`` to rename the parameters of older checkpoints. The encoder of
    0.12.2 reads whether a layer has an inference kernel.

    A block in place of several layers defines ``state_modules()``. The outputs of the modules that
    it returns are the states after each layer.

    Attributes:
        batch_first: whether the states after each layer are (B, T, C) instead of (T, B, C).
    """

    load_to_BT = False
    batch_first = False

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Leave the checkpoint unchanged, since there is no older layout."""


def key_padding_mask(padding_mask: Tensor | None) -> Tensor | None:
    """Return a mask (B, T) of the keys that attention ignores.

    It masks padding, except in texts that consist of padding: without any key, the attention
    weights would be NaN.
    """
    if padding_mask is None:
        return None
    return padding_mask & ~padding_mask.all(1, keepdim=True)
