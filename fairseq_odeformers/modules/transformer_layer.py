"""Bases of layers for fairseq's stacks: fairseq's own layers, and blocks in their place."""

import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import (
    TransformerDecoderLayerBase,
    TransformerEncoderLayerBase,
)
from torch import Tensor, nn

from .incremental import IncrementalState

Output = tuple[Tensor, Tensor | None, list[Tensor | None] | None]  # of a decoder layer


class EncoderLayer(TransformerEncoderLayerBase):
    """fairseq's Transformer layer, always evaluated by its own methods.

    fairseq 0.12.2 has an inference kernel, which knows only the plain residual connections with
    LayerNorm, and copies of the parameters for it; here it has neither.
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
        """As fairseq's layer, from and to (T, B, C); a text of padding alone gives numbers."""
        return super().forward(x, key_padding_mask(encoder_padding_mask), attn_mask)


class DecoderLayer(TransformerDecoderLayerBase):
    """fairseq's Transformer layer, which also takes a source of padding alone."""

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor | None = None,
        encoder_padding_mask: Tensor | None = None,
        *args,
        **kwargs,
    ) -> Output:
        """As fairseq's layer, from and to (T, B, C); a source of padding alone gives numbers."""
        mask = key_padding_mask(encoder_padding_mask)
        return super().forward(x, encoder_out, mask, *args, **kwargs)


class RepeatedDecoderLayer(DecoderLayer):
    """A decoder layer whose subclass evaluates it several times to pass it once.

    In incremental decoding the evaluations of a token see the keys and values of the same
    evaluation of the tokens before, and of no other. fairseq's attention would append all
    keys and values to one cache: training would be right, and generation silently wrong.
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
        """fairseq's layer with the key/value cache of the evaluation *index*.

        Args:
            index: 0 for the first evaluation of a pass, 1 for the second, and so on.
        """
        cache = incremental_state
        if incremental_state is not None:
            cache = incremental_state.setdefault(self.cache_name(index), {})
        inputs = x, encoder_out, encoder_padding_mask, cache
        return super().forward(*inputs, *args, **kwargs)

    def cache_name(self, index: int) -> str:
        """Where the incremental state holds the cache of an evaluation of this layer."""
        return self.self_attn._get_full_incremental_state_key(f"evaluation{index}")

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """fairseq's method, called as beams are chosen: reorder the caches of all evaluations."""
        index = 0
        while cache := (incremental_state or {}).get(self.cache_name(index)):
            for attention in filter(None, (self.self_attn, self.encoder_attn)):
                attention.reorder_incremental_state(cache, new_order)
            index += 1


class WithoutLayerNorm(nn.Module):
    """Mixin of a layer of fairseq's Transformer: x + F(x), not normalised."""

    def __init__(self, cfg: TransformerConfig, *args, **kwargs):
        super().__init__(cfg, *args, **kwargs)
        drop_layer_norms(self)


def drop_layer_norms(layer: nn.Module) -> None:
    """Replace the LayerNorms of a layer of fairseq's Transformer by the identity."""
    for name, _ in list(layer.named_children()):
        if name.endswith("layer_norm"):
            setattr(layer, name, nn.Identity())


class Block(nn.Module):
    """Base of a module that takes the place of a layer in fairseq's encoder or decoder.

    fairseq's stacks ask a layer for more than ``forward``: both of the supported versions let it
    rename the parameters of older checkpoints, and the encoder of 0.12.2 asks whether it has an
    inference kernel.

    A block of several layers names in ``state_modules()`` those whose outputs are the states after
    each of them.

    Attributes:
        batch_first: whether these are (B, T, C), not (T, B, C).
    """

    load_to_BT = False
    batch_first = False

    def upgrade_state_dict_named(self, state_dict: dict[str, Tensor], name: str) -> None:
        """Leave a checkpoint as it is: there is no older layout."""


def key_padding_mask(padding_mask: Tensor | None) -> Tensor | None:
    """The keys that attention leaves out (B, T): padding, but not in a sequence of padding alone.

    Without any key the attention weights would not be numbers.
    """
    if padding_mask is None:
        return None
    return padding_mask & ~padding_mask.all(1, keepdim=True)
