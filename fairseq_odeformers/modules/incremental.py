"""The state of incremental decoding: tensors that a module saves for later tokens."""

from collections.abc import Mapping

import torch
from fairseq.incremental_decoding_utils import FairseqIncrementalState
from torch import Tensor

# The state that fairseq passes to each module of a decoder; None outside incremental decoding.
IncrementalState = dict[str, dict[str, Tensor | None]] | None
Saved = dict[str, Tensor]


class Incremental(FairseqIncrementalState):
    """Mixin for modules that save tensors of earlier tokens and reorder them with the beams.

    Attributes:
        batch_dim: the dimension of these tensors that indexes the hypotheses.
    """

    batch_dim = 0

    def saved(self, incremental_state: IncrementalState) -> Saved:
        """Return the saved tensors by name, in a new dictionary; it is empty at the first token."""
        saved = self.get_incremental_state(incremental_state, "saved") or {}
        return {name: tensor for name, tensor in saved.items() if tensor is not None}

    def save(self, incremental_state: IncrementalState, saved: Saved) -> None:
        """Save tensors for the next token; outside decoding, this does nothing."""
        tensors: Mapping[str, Tensor | None] = saved
        self.set_incremental_state(incremental_state, "saved", {**tensors})

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> None:
        """Select the saved tensors of the hypotheses that fairseq keeps."""
        if saved := self.saved(incremental_state):
            self.save(incremental_state, self.reorder(saved, new_order))

    def reorder(self, saved: Saved, new_order: Tensor) -> Saved:
        """Select the hypotheses with the indices *new_order* (B) from the tensors."""
        return {
            name: tensor.index_select(self.batch_dim, new_order) for name, tensor in saved.items()
        }


def append(saved: Saved, name: str, new: Tensor, dim: int) -> Tensor:
    """Append *new* to a saved tensor along *dim*, the dimension that indexes tokens.

    Returns:
        The tensor of all tokens; it is saved in place of the earlier tensor.
    """
    saved[name] = torch.cat([saved[name], new], dim) if name in saved else new
    return saved[name]
