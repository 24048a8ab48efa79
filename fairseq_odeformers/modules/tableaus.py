"""The Runge-Kutta methods of the blocks, by their order: steps of size 1 of an autonomous ODE."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tableau:
    """The Butcher tableau of an explicit method, without the nodes, as F does not depend on time.

    Attributes:
        matrix: the rows of a, of the evaluations after the first.
        weights: b of all evaluations.
    """

    matrix: Sequence[Sequence[float]]
    weights: Sequence[float]


# Euler 1768: a Transformer layer.
EULER = Tableau(matrix=(), weights=(1,))

# Heun 1900, "improved Euler" in Li et al. 2022. Not the midpoint rule.
HEUN = Tableau(matrix=((1,),), weights=(1 / 2, 1 / 2))

# Kutta 1901's third-order method. Heun's has the weights 1/4, 0, 3/4.
KUTTA = Tableau(matrix=((1 / 2,), (-1, 2)), weights=(1 / 6, 2 / 3, 1 / 6))

# Kutta 1901, the "classical" method. Not the 3/8 rule of the same paper, which torchdiffeq, and the
# N-ODE Transformer after it, call rk4.
CLASSICAL = Tableau(matrix=((1 / 2,), (0, 1 / 2), (0, 0, 1)), weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6))

TABLEAUS = {1: EULER, 2: HEUN, 3: KUTTA, 4: CLASSICAL}
