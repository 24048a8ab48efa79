"""State of incremental decoding: what a module keeps of the tokens before the newest."""

from collections.abc import Mapping

import torch
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from torch import Tensor

# What fairseq hands to each module of a decoder, or None outside of incremental decoding.
IncrementalState = dict[str, dict[str, Tensor | None]] | None
Saved = dict[str, Tensor]


class Incremental(FairseqIncrementalState):
    """Mixin of a module that keeps tensors of the earlier tokens, which follow their beams.

    Attributes:
        batch_dim: their dimension of hypotheses.
    """

    batch_dim = 0

    def saved(self, incremental_state: IncrementalState) -> Saved:
        """A copy of what is kept, by names; empty at the first token, and outside of decoding."""
        kept = self.get_incremental_state(incremental_state, "saved") or {}
        return {name: tensor for name, tensor in kept.items() if tensor is not None}

    def save(self, incremental_state: IncrementalState, saved: Saved) -> None:
        """Keep tensors for the next token; outside of decoding nothing is kept."""
        kept: Mapping[str, Tensor | None] = saved
        self.set_incremental_state(incremental_state, "saved", {**kept})

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """fairseq's method: put what is kept into an order, an index of hypotheses."""
        if saved := self.saved(incremental_state):
            self.save(incremental_state, self.reorder(saved, new_order))

    def reorder(self, saved: Saved, new_order: Tensor) -> Saved:
        """Tensors of the hypotheses of an index."""
        return {
            name: tensor.index_select(self.batch_dim, new_order) for name, tensor in saved.items()
        }


def append(saved: Saved, name: str, new: Tensor, dim: int) -> Tensor:
    """Append tokens to the saved tensor of a name, along its dimension of tokens.

    Returns:
        The saved tensor, with the new tokens.
    """
    saved[name] = torch.cat([saved[name], new], dim) if name in saved else new
    return saved[name]
