"""State of incremental decoding: the tensors that a module keeps of earlier tokens."""

from collections.abc import Mapping

import torch
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from torch import Tensor

# The state that fairseq passes to each module of a decoder; None outside of incremental decoding.
IncrementalState = dict[str, dict[str, Tensor | None]] | None
Saved = dict[str, Tensor]


class Incremental(FairseqIncrementalState):
    """Mixin for a module that keeps tensors of earlier tokens and reorders them with their beams.

    Attributes:
        batch_dim: dimension of the hypotheses in these tensors.
    """

    batch_dim = 0

    def saved(self, incremental_state: IncrementalState) -> Saved:
        """The saved tensors by name, in a new dictionary; empty at the first token of decoding."""
        saved = self.get_incremental_state(incremental_state, "saved") or {}
        return {name: tensor for name, tensor in saved.items() if tensor is not None}

    def save(self, incremental_state: IncrementalState, saved: Saved) -> None:
        """Save tensors for the next token; outside of decoding, this does nothing."""
        tensors: Mapping[str, Tensor | None] = saved
        self.set_incremental_state(incremental_state, "saved", {**tensors})

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Reorder the saved tensors by an index of hypotheses, as fairseq asks for."""
        if saved := self.saved(incremental_state):
            self.save(incremental_state, self.reorder(saved, new_order))

    def reorder(self, saved: Saved, new_order: Tensor) -> Saved:
        """The tensors of the hypotheses in an index."""
        return {
            name: tensor.index_select(self.batch_dim, new_order) for name, tensor in saved.items()
        }


def append(saved: Saved, name: str, new: Tensor, dim: int) -> Tensor:
    """Append *new* to a saved tensor along *dim*, the dimension of tokens.

    Returns:
        The saved tensor, including the new tokens.
    """
    saved[name] = torch.cat([saved[name], new], dim) if name in saved else new
    return saved[name]
