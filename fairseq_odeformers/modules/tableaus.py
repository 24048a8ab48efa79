"""Butcher tableaus: the numbers of explicit Runge-Kutta methods, and those of the blocks by order.

``models/node_transformer/methods.py`` has the methods with other names, and the adaptive ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Tableau:
    r"""The Butcher tableau of an explicit Runge-Kutta method with s stages.

    .. math:: k_i = f(t + c_i h, X + h \sum_{j < i} a_{ij} k_j), \quad X + h \sum_i b_i k_i

    Attributes:
        nodes: c of the stages after the first (c = 0).
        matrix: the rows of a of these stages.
        weights: b of all stages.
        order: of the solution by b.
        embedded_weights: of an adaptive method, the weights of its second solution.
    """

    nodes: Sequence[float]
    matrix: Sequence[Sequence[float]]
    weights: Sequence[float]
    order: int
    embedded_weights: Sequence[float] = ()

    @cached_property
    def first_same_as_last(self) -> bool:
        """Whether the last stage of a step is also the first one of the next."""
        return bool(self.matrix) and (*self.matrix[-1], 0) == self.weights


# Euler 1768. A layer of a Transformer, or of another residual network, is one step of it.
EULER = Tableau(nodes=(), matrix=(), weights=(1,), order=1)

# Heun 1900, the explicit trapezoidal rule, "improved Euler" in Li et al. 2022. Not the midpoint
# rule, and not his method of order 3.
HEUN = Tableau(nodes=(1,), matrix=((1,),), weights=(1 / 2, 1 / 2), order=2)

# Kutta 1901's third-order method. Heun's has the weights 1/4, 0, 3/4.
KUTTA = Tableau(
    nodes=(1 / 2, 1), matrix=((1 / 2,), (-1, 2)), weights=(1 / 6, 2 / 3, 1 / 6), order=3
)

# Kutta 1901, the "classical" method. Not the 3/8 rule of the same paper, which torchdiffeq, and the
# N-ODE Transformer after it, call rk4.
CLASSICAL = Tableau(
    nodes=(1 / 2, 1 / 2, 1),
    matrix=((1 / 2,), (0, 1 / 2), (0, 0, 1)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    order=4,
)

TABLEAUS = {tableau.order: tableau for tableau in (EULER, HEUN, KUTTA, CLASSICAL)}
