"""The layers of TransJect with statistics of the tokens so far, for language models.

The paper's eigenvalues are of all tokens, and the weights of its experts depend on a maximum over
them; so each token would see those after it. Here the sum and the maximum run over the tokens up to
the present one.
"""

from typing import Optional

import torch
from torch import Tensor

from .layer import (
    Eigenvalues,
    MixtureOfExperts,
    RandomEigenvalues,
    TransJectLayer,
    over_largest,
    reconstruction,
)


class CausalEigenvalues(Eigenvalues):
    """At each token, the eigenvalues of X_0^T X_0 over the tokens up to it."""

    def forward(self, x: Tensor, before: Optional[Tensor] = None):
        """
        Args:
            x: X_0 (B, T, C), zero where padding is.
            before: the sum g over the tokens before these (B, 1, C).

        Returns:
            sigma (B, T, C); the sum with these tokens (B, 1, C); and in training the regulariser
            ``reconstruction`` (B) of all tokens.
        """
        sums = self.squares(x).cumsum(1)
        regularizers = {"reconstruction": reconstruction(x, sums[:, -1])} if self.training else {}
        if before is not None:
            sums = sums + before
        return over_largest(sums).to(x), sums[:, -1:], regularizers


class CausalRandomEigenvalues(RandomEigenvalues):
    """Learnt numbers depend on no token."""

    def forward(self, x: Tensor, before: Optional[Tensor] = None):
        sigma, regularizers = super().forward(x)
        return sigma, None, regularizers


class CausalMixtureOfExperts(MixtureOfExperts):
    """The weights of the experts at a token are those of the tokens up to it."""

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        step: Tensor,
        padding_mask: Optional[Tensor] = None,
        before: Optional[Tensor] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: X (B, T, C).
            sigma: eigenvalues, (B, T, C) or (1, 1, C).
            step: s, one number.
            padding_mask: true where a token is padding (B, T).
            before: maximum of the experts' states over the tokens before these (B, E, C).

        Returns:
            X' (B, T, C), and the maximum with these tokens (B, E, C).
        """
        (changes,) = self.changes([x], sigma)
        if self.gate is None:
            return torch.addcmul(x, changes[0], step), None
        lowest = torch.finfo(x.dtype).min
        floor = x if padding_mask is None else x.masked_fill(padding_mask.unsqueeze(-1), lowest)
        peaks = torch.addcmul(floor, changes, step).cummax(2).values  # E, B, T, C
        if before is not None:
            peaks = torch.maximum(peaks, before.transpose(0, 1).unsqueeze(2))
        real = peaks if padding_mask is None else peaks.masked_fill(peaks <= lowest / 2, 0.0)
        weights = self.gate(real).softmax(0)
        return x + step * (weights * changes).sum(0), peaks[:, :, -1].transpose(0, 1)


class CausalTransJectLayer(TransJectLayer):
    """The experts, with the running maximum, then the FFN."""

    experts_class = CausalMixtureOfExperts

    def forward(
        self,
        x: Tensor,
        sigma: Tensor,
        padding_mask: Optional[Tensor] = None,
        before: Optional[Tensor] = None,
    ) -> tuple[Tensor, Optional[Tensor]]:
        """
        Args:
            x: input (B, T, C).
            sigma: eigenvalues, (B, T, C) or (1, 1, C).
            padding_mask: true where a token is padding (B, T).
            before: what was returned for the tokens before these.

        Returns:
            output (B, T, C), and what to give for the tokens after these.
        """
        step = self.step()
        x, peaks = self.experts(x, sigma, step, padding_mask, before)
        return self.ffn(x, step), peaks
