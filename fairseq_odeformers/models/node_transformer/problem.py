"""Initial value problems for batches of sequences, their solutions, and the arclength.

A solve may also integrate a function of the trajectory. This integrand is a regulariser: the
arclength, or its analogue for a derivative of higher order.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

Time = float | Tensor  # one time for the whole batch, or one per sequence (B)
VectorField = Callable[[Time, Tensor], Tensor]  # maps t and X (C, T, B) to dX/dt (C, T, B)
Integrand = Callable[[Time, Tensor, Tensor], Tensor]  # maps t, X and dX/dt to (B)

SMALLER_RATE = "lower the learning rate"
MORE_STEPS = (
    "raise --ode-max-steps or the tolerances (--ode-rtol, --ode-atol), lower the learning rate, or "
    "set an --arclength-weight to keep trajectories simple"
)


class Problem(NamedTuple):
    """dX/dt = f(t, X) from X(0) to X(T_F), for a batch of sequences.

    Attributes:
        f: dX/dt as a function of t and X; it is 0 at padding.
        x: X(0) (C, T, B).
        entries: number of entries of X that are not padding, for each sequence (B).
        final_time: T_F.
        integrand: function of t, X and dX/dt that is integrated as well.
        name: name of the problem in error messages.
    """

    f: VectorField
    x: Tensor
    entries: Tensor
    final_time: float = 1.0
    integrand: Integrand | None = None
    name: str = "a solve"


class Solution(NamedTuple):
    """The result of solving a :class:`Problem`.

    Attributes:
        state: X(T_F) (C, T, B); for an unfinished sequence, X(t) at the time t that it reached.
        integral: integral of the integrand from 0 to T_F or t (B); 0 without an integrand.
        statistics: for each sequence (B), the number ``nfe`` of evaluations of f for the state, and
            the numbers of ``accepted`` and ``rejected`` adaptive steps. If the solver may stop
            after a number of steps, ``unfinished`` is 1 where T_F was not reached, and 0 elsewhere.
    """

    state: Tensor
    integral: Tensor
    statistics: dict[str, Tensor]


Solver = Callable[[Problem], Solution]


def check_finite(problem: Problem, end: Tensor) -> None:
    """Check that X(T_F) is finite; compiled code skips this check.

    Raises:
        RuntimeError: X(T_F) is not finite.
    """
    compiled = end.device.type == "xla" or torch.compiler.is_compiling()
    if not compiled and not end.isfinite().all():
        raise RuntimeError(
            f"{problem.name}, at t = {problem.final_time:g}: the state is not finite; "
            f"{SMALLER_RATE}"
        )


def arclength(f: VectorField, order: int, lengths: Tensor) -> Integrand:
    r"""Return the integrand of the regulariser, for a sequence of n tokens and dX/dt = f(t, X).

    .. math:: \frac{1}{2n} \left\| \frac{d^K X}{dt^K} \right\|_F^2

    K = 1 is the paper's Eq. 6. For larger K, see Kelly et al. 2020, Learning Differential Equations
    that are Easy to Solve.

    Args:
        order: K.
        lengths: n for each sequence (B).

    Returns:
        A function of t, X and dX/dt with one value per sequence (B).
    """

    def integrand(t: Time, x: Tensor, slope: Tensor) -> Tensor:
        t = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        slope = derivative(f, order, t, x, slope)
        return slope.square().sum((0, 1)) / (2 * lengths.clamp(min=1))

    return integrand


def derivative(f: VectorField, order: int, t: Tensor, x: Tensor, slope: Tensor) -> Tensor:
    """Return the time derivative of order *order* of the solution of dX/dt = f(t, X) at t and X.

    Args:
        slope: f(t, x).
    """
    if order == 1:
        return slope

    def lower(t: Tensor, x: Tensor) -> Tensor:
        return derivative(f, order - 1, t, x, f(t, x))

    with sdpa_kernel(SDPBackend.MATH):  # no other backend has a forward-mode derivative
        return jvp(lower, (t, x), (torch.ones_like(t), slope))[1]
