"""Sigma, the eigenvalues shared by all layers of TransJect (paper, section 3.2)."""

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.basics import at_least_float32
from fairseq_odeformers.modules.incremental import IncrementalState
from fairseq_odeformers.modules.orthogonal import OrthogonalMatrices

from .token_statistics import TokenStatistics


class Eigenvalues(nn.Module):
    r"""Approximate eigenvalues of X_0^T X_0, computed once and shared by all layers as sigma.

    .. math::
        g = \mathrm{diag}(U_0^T X_0^T X_0 U_0), \quad \sigma = g / \max g, \quad
        \mathrm{reconstruction} = \left\| X_0^T X_0 - U_0 \mathrm{diag}(g) U_0^T \right\|_F^2
        / (\max g)^2

    The rows of X_0 are the tokens of a text without padding or, in the causal form, the tokens
    up to the token itself.

    Args:
        embed_dim: width C.
        causal: whether a token sees only itself and earlier tokens.
    """

    def __init__(self, embed_dim: int, causal: bool = False):
        super().__init__()
        self.rotation = OrthogonalMatrices(1, embed_dim)  # U_0
        self.statistics = TokenStatistics(causal)

    def forward(
        self, x: Tensor, incremental_state: IncrementalState = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute sigma from X_0.

        Args:
            x: X_0 (B, T, C), zero at padding.
            incremental_state: state of earlier tokens, in generation.

        Returns:
            sigma (B, 1, C), or (B, T, C) if causal; and a dictionary that, in training, contains
            the regulariser ``reconstruction`` (B) for all tokens.
        """
        squares = at_least_float32(x @ self.rotation()[0]).square()  # (B, T, C)
        eigenvalues = self.statistics.sum(squares, incremental_state)  # g
        sigma = standardize(eigenvalues).to(x)
        if not self.training:
            return sigma, {}
        return sigma, {"reconstruction": reconstruction(x, eigenvalues[:, -1])}


class RandomEigenvalues(nn.Module):
    """Random-TransJect: a learned vector, initially random, replaces the eigenvalues.

    The vector is divided by its largest entry, so that the bounds of the paper hold. It depends on
    no token, so it is causal. The authors' code draws new numbers in each pass instead.
    """

    def __init__(self, embed_dim: int, causal: bool = False):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(embed_dim))

    def forward(
        self, x: Tensor, incremental_state: IncrementalState = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return sigma (1, 1, C), and no regularisers."""
        return standardize(self.weight).view(1, 1, -1), {}


def reconstruction(x: Tensor, eigenvalues: Tensor) -> Tensor:
    """Return the reconstruction error (B) of X_0^T X_0, from X_0 (B, T, C) and g (B, C).

    U_0 preserves the norm, and g is the diagonal of U_0^T X_0^T X_0 U_0. The squared norm of the
    difference is therefore the difference of the squared norms.
    """
    # First divide X_0 by sqrt(max g), because the fourth powers of its entries may overflow or
    # underflow.
    largest = positive(eigenvalues.amax(1, keepdim=True))
    x = at_least_float32(x) / largest.sqrt().unsqueeze(2)
    gram = x.mT @ x if x.size(1) > x.size(2) else x @ x.mT
    squared_norm = at_least_float32(gram).square().sum((1, 2))
    return (squared_norm - (eigenvalues / largest).square().sum(1)).clamp(min=0)


def standardize(x: Tensor) -> Tensor:
    """Divide x (*, C) by its largest absolute value."""
    return x / positive(x.abs().amax(-1, keepdim=True))


def positive(x: Tensor) -> Tensor:
    """Clamp x to positive normal numbers, so that a text of padding is not divided by 0."""
    return x.clamp(min=torch.finfo(x.dtype).tiny)
