"""The regulariser of the trajectories: their arclength, and derivatives of higher order."""

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from .problem import Integrand, Time, VectorField


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
