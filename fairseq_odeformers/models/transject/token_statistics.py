"""The sum and the maximum over tokens: over all of them, or over those up to the present one.

The paper's eigenvalues sum over all tokens, and the weights of its experts depend on a maximum over
them, so that each token would see those after it. In a causal model both run up to the present
token.
"""

from collections.abc import Callable, Iterable

import torch
from fairseq.incremental_decoding_utils import with_incremental_state
from torch import Tensor, nn

IncrementalState = dict[str, dict[str, Tensor | None]] | None


@with_incremental_state
class TokenStatistics(nn.Module):
    """A sum or a maximum over tokens; one instance serves one of them.

    In the causal form an incremental state keeps the value of the last token, and the tokens of the
    next call continue it.

    Args:
        causal: whether the statistic runs up to the present token.
    """

    def __init__(self, causal):
        super().__init__()
        self.causal = causal

    def sum(self, x: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) to (B, 1, C), or (B, T, C) if causal."""
        if not self.causal:
            return x.sum(1, keepdim=True)
        return self._continued(x.cumsum(1), torch.add, incremental_state)

    def max(self, experts: Iterable[Tensor], incremental_state: IncrementalState = None) -> Tensor:
        """From (B, T, C) of each of E experts to (B, E, 1, C), or (B, E, T, C) if causal."""
        if not self.causal:
            return torch.stack([x.amax(1, keepdim=True) for x in experts], dim=1)
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
