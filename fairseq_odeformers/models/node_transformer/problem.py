"""Initial value problems for batches of sequences, and their solutions."""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor

Time = float | Tensor  # of the whole batch, or of each sequence (B)
VectorField = Callable[[Time, Tensor], Tensor]  # X' (C, T, B) of t and X (C, T, B)
Integrand = Callable[[Time, Tensor, Tensor], Tensor]  # values (B) of t, X and X'


class Problem(NamedTuple):
    """X'(t) = f(t, X) from X(0) to X(T_F), for a batch of sequences.

    Attributes:
        f: X' as a function of t and X; it is 0 where padding is.
        x: X(0) (C, T, B).
        entries: the number of entries of X that are not padding, of each sequence (B).
        final_time: T_F.
        integrand: a function of t, X and X' to integrate as well.
        name: names the problem in messages.
    """

    f: VectorField
    x: Tensor
    entries: Tensor
    final_time: float = 1.0
    integrand: Integrand | None = None
    name: str = "a solve"


class Solution(NamedTuple):
    """The end of a solve.

    Attributes:
        state: X(T_F) (C, T, B); of an unfinished sequence, X(t) at the time t that it reached.
        integral: the integral of the integrand from 0 to T_F or t (B); 0 without an integrand.
        statistics: for each sequence (B) the number of evaluations of f for the state, ``nfe``, and
            the numbers of ``accepted`` and ``rejected`` adaptive steps; of a solver that stops
            after a number of steps also ``unfinished``, 1 where T_F is not reached and else 0.
    """

    state: Tensor
    integral: Tensor
    statistics: dict[str, Tensor]


Solver = Callable[[Problem], Solution]
