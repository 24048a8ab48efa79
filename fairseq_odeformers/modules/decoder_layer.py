"""fairseq's decoder layer as a base of layers that compute something else."""

from fairseq.modules.transformer_layer import TransformerDecoderLayerBase
from torch import Tensor

from .incremental import IncrementalState
from .padding import key_padding_mask

Output = tuple[Tensor, Tensor | None, list[Tensor | None] | None]


class DecoderLayer(TransformerDecoderLayerBase):
    """fairseq's Transformer layer, which a subclass may evaluate several times."""

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
    evaluation of the tokens before, and of no other. fairseq's attention would append those of all
    evaluations to one cache: training would be right, and generation silently wrong.
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
