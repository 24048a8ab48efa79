"""Initial value problems for batches of sequences, their solutions, and what is integrated beside.

The integrand is the regulariser of the trajectories: their arclength, and derivatives of higher
order.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

Time = float | Tensor  # of the whole batch, or of each sequence (B)
VectorField = Callable[[Time, Tensor], Tensor]  # X' (C, T, B) of t and X (C, T, B)
Integrand = Callable[[Time, Tensor, Tensor], Tensor]  # values (B) of t, X and X'

SMALLER_RATE = "give a smaller learning rate"
MORE_STEPS = (
    "give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a smaller learning rate "
    "or, to keep trajectories simple, an --arclength-weight"
)


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


def check_finite(problem: Problem, end: Tensor) -> None:
    """Raise a RuntimeError if X(T_F) is not finite; compiled code has no such branch."""
    compiled = end.device.type == "xla" or torch.compiler.is_compiling()
    if not compiled and not end.isfinite().all():
        raise RuntimeError(
            f"{problem.name}, at t = {problem.final_time:g}: the state is not finite; "
            f"{SMALLER_RATE}"
        )


def arclength(f: VectorField, order: int, lengths: Tensor) -> Integrand:
    r"""The integrand of the regulariser, for a sequence of n tokens whose X solves X' = f(t, X).

    .. math:: \frac{1}{2n} \left\| \frac{d^K X}{dt^K} \right\|_F^2

    K = 1 is the paper's Eq. 6. For larger K see Kelly et al. 2020, Learning Differential Equations
    that are Easy to Solve.

    Args:
        order: K.
        lengths: n of each sequence (B).

    Returns:
        A function of t, X and X'.
    """

    def integrand(t: Time, x: Tensor, slope: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        slope = derivative(f, order, t, x, slope)
        return slope.square().sum((0, 1)) / (2 * lengths.clamp(min=1))

    return integrand


def derivative(f: VectorField, order: int, t: Tensor, x: Tensor, slope: Tensor) -> Tensor:
    """The derivative by time of this order, at t and X, of the solution of X' = f(t, X).

    Args:
        slope: f(t, x).
    """
    if order == 1:
        return slope

    def lower(t: Tensor, x: Tensor) -> Tensor:
        return derivative(f, order - 1, t, x, f(t, x))

    with sdpa_kernel(SDPBackend.MATH):  # the other backends have no forward-mode derivative
        return jvp(lower, (t, x), (torch.ones_like(t), slope))[1]
