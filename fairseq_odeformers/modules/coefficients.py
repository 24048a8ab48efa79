"""Weighted sums of a block's slopes F_1, ..., F_s, with fixed, learned, gated or decaying weights.

All blocks of an encoder or decoder share one such module.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .tableaus import TABLEAUS

COEFFICIENTS = ("fixed", "learned", "gated")


class FixedCoefficients(nn.Module):
    """Weighted sum b_1 F_1 + ... + b_s F_s of slopes, with the weights b of a tableau."""

    def __init__(self, weights: Sequence[float]):
        super().__init__()
        self.weights = weights

    def forward(self, slopes: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum (T, B, C) of s slopes (T, B, C)."""
        return weighted_sum(self.weights, slopes)


class LearnedCoefficients(nn.Module):
    """Weighted sum b_1 F_1 + b_2 F_2 of two slopes, with learned weights b that start at 1.

    In checkpoints, b is called ``gamma``.
    """

    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(2))

    def forward(self, slopes: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum (T, B, C) of two slopes (T, B, C)."""
        return weighted_sum(self.gamma.unbind(), slopes)


class GatedCoefficients(nn.Module):
    r"""Weighted sum :math:`g F_1 + (1 - g) F_2` of two slopes, with a gate g for each token.

    .. math:: g = \sigma([F_1 | F_2] W + c)

    Args:
        embed_dim: width C.
    """

    def __init__(self, embed_dim: int):
        super().__init__()
        self.gate = nn.Linear(2 * embed_dim, 1)
        nn.init.xavier_uniform_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, slopes: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum (T, B, C) of two slopes (T, B, C)."""
        first, second = slopes
        g = self.gate(torch.cat([first, second], -1)).sigmoid()  # (T, B, 1)
        return g * first + (1 - g) * second


class ExponentialCoefficients(nn.Module):
    r"""Weighted sum :math:`\sum_j \alpha (1-\alpha)^{s-j} F_j`: later slopes have larger weights.

    The parameter alpha starts at 1/2. The weights sum to 1 - (1 - alpha)^s, not to 1.
    """

    def __init__(self):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))

    def forward(self, slopes: Sequence[Tensor]) -> Tensor:
        """Return the weighted sum (T, B, C) of s slopes (T, B, C)."""
        falling = reversed(range(len(slopes)))
        return weighted_sum([self.alpha * (1 - self.alpha) ** n for n in falling], slopes)


def make_coefficients(order: int, form: str, embed_dim: int) -> nn.Module:
    """Make the module that computes the weighted sum of the slopes of a block.

    Args:
        order: order of the block's Runge-Kutta method.
        form: kind of weights, one of :data:`COEFFICIENTS`.
        embed_dim: width C.

    Returns:
        A module that maps a list of slopes (T, B, C) to their weighted sum (T, B, C).

    Raises:
        ValueError: *form* is learned or gated, and *order* is not 2.

    For example:

        coefficients = make_coefficients(2, "gated", embed_dim=512)
        y = y + coefficients([slope_1, slope_2])
    """
    if form != "fixed" and order != 2:
        raise ValueError(f"{form} coefficients of order {order}: pass order 2, or fixed ones")
    if form == "gated":
        return GatedCoefficients(embed_dim)
    if form == "learned":
        return LearnedCoefficients()
    return FixedCoefficients(TABLEAUS[order].weights)


def weighted_sum(weights: Sequence[float | Tensor], slopes: Sequence[Tensor]) -> Tensor:
    """Return w_1 F_1 + w_2 F_2 + ...; a slope with the number 0 as its weight is skipped.

    Args:
        weights: numbers, or tensors that broadcast to the slopes.
        slopes: slopes F, each (T, B, C).
    """
    terms = [
        w * slope for w, slope in zip(weights, slopes, strict=True) if isinstance(w, Tensor) or w
    ]
    return sum(terms[1:], terms[0])
