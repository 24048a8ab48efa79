"""The two statistics of its tokens that TransJect takes: of all of them, or of those so far.

The paper's eigenvalues sum over all tokens, and the weights of its experts depend on a maximum over
them; so each token would see those after it. In a causal model both run up to the present token.
"""

from collections.abc import Iterable
from typing import Callable, Optional

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor, nn

IncrementalState = Optional[dict[str, dict[str, Optional[Tensor]]]]


class FullStatistics(nn.Module):
    """The sum and the maximum over all tokens of a sequence."""

    def sum(self, x: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) to (B, 1, C)."""
        return x.sum(1, keepdim=True)

    def max(self, experts: Iterable[Tensor], incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) of each of E experts to (B, E, 1, C)."""
        return torch.stack([x.amax(1, keepdim=True) for x in experts], dim=1)


@with_incremental_state
class CausalStatistics(nn.Module):
    """At each token, the sum and the maximum over the tokens up to it.

    An incremental state keeps those of the last token, and the tokens of the next call continue
    them. One instance serves one sum or one maximum.
    """

    def sum(self, x: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) to (B, T, C)."""
        return self._continued(x.cumsum(1), torch.add, incremental_state)

    def max(self, experts: Iterable[Tensor], incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) of each of E experts to (B, E, T, C)."""
        maxima = torch.stack([x.cummax(1).values for x in experts], dim=1)
        return self._continued(maxima, torch.maximum, incremental_state)

    def _continued(
        self, prefixes: Tensor, combine: Callable, incremental_state: IncrementalState
    ) -> Tensor:
        if incremental_state is None:
            return prefixes
        saved = self.get_incremental_state(incremental_state, "prefix")
        if saved is not None:
            prefixes = combine(prefixes, saved["last"])
        self.set_incremental_state(incremental_state, "prefix", {"last": prefixes[..., -1:, :]})
        return prefixes

    def reorder_incremental_state(self, incremental_state: IncrementalState, new_order: Tensor):
        """Reorder the sequences of a batch, as beam search does."""
        saved = self.get_incremental_state(incremental_state, "prefix")
        if saved is not None:
            saved = {"last": saved["last"].index_select(0, new_order)}
            self.set_incremental_state(incremental_state, "prefix", saved)
