"""Sums and maxima over the tokens of a text: over all tokens, or up to each token.

The paper's eigenvalues are a sum over all tokens, and the weights of its experts depend on a
maximum over all tokens. Both would leak future tokens in a causal model, so they only include the
tokens up to each token there.
"""

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_odeformers.modules.incremental import Incremental, IncrementalState


class TokenStatistics(Incremental, nn.Module):
    """A sum or a maximum over tokens; a module needs one instance for each statistic.

    In the causal form, an incremental state keeps the value at the last token, and the next call
    continues from it.

    Args:
        causal: whether the statistic at a token only includes the tokens up to that token.
    """

    def __init__(self, causal: bool):
        super().__init__()
        self.causal = causal
        self.prefix_maxima: Callable[[Tensor], Tensor] = cummax

    def sum(self, x: Tensor, incremental_state: IncrementalState = None) -> Tensor:
        """Sum x (B, T, C) over tokens to (B, 1, C), or over prefixes to (B, T, C) if causal."""
        if not self.causal:
            return x.sum(1, keepdim=True)
        return self._continued(x.cumsum(1), torch.add, incremental_state)

    def max(self, experts: Iterable[Tensor], incremental_state: IncrementalState = None) -> Tensor:
        """Return the maxima (B, E, 1, C), or (B, E, T, C) if causal, of E experts (B, T, C)."""
        if not self.causal:
            return torch.stack([x.amax(1, keepdim=True) for x in experts], dim=1)
        maxima = torch.stack([*map(self.prefix_maxima, experts)], dim=1)
        return self._continued(maxima, torch.maximum, incremental_state)

    def for_export(self) -> "TokenStatistics":
        """Return this statistic, computed by operations that ONNX supports."""
        self.prefix_maxima = doubled_maxima
        return self

    def _continued(
        self,
        prefixes: Tensor,
        combine: Callable[[Tensor, Tensor], Tensor],
        incremental_state: IncrementalState,
    ) -> Tensor:
        """Combine the statistics of prefixes in this call with that saved for earlier tokens."""
        if incremental_state is None:
            return prefixes
        if saved := self.saved(incremental_state):
            prefixes = combine(prefixes, saved["last"])
        self.save(incremental_state, {"last": prefixes[..., -1:, :]})
        return prefixes


def cummax(x: Tensor) -> Tensor:
    """Return the maximum (B, T, C) over each prefix of x (B, T, C)."""
    return x.cummax(1).values


def doubled_maxima(x: Tensor, longest: int = 2**16) -> Tensor:
    """Compute :func:`cummax` for up to *longest* tokens by maxima over 2, 4, 8, ... tokens."""
    length, shift = x.size(1), 1
    while length != 1 and shift < longest:
        earlier = F.pad(x, (0, 0, shift, 0), value=-torch.inf)[:, :length]
        x, shift = torch.maximum(x, earlier), 2 * shift
    return x
