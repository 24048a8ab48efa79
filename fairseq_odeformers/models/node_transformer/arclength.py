"""The regulariser of the trajectories: their arclength, and its generalisation."""

import torch
from torch import Tensor
from torch.func import jvp
from torch.nn.attention import SDPBackend, sdpa_kernel

from .runge_kutta import Integrand, VectorField


def arclength(f: VectorField, order: int, tokens: Tensor) -> Integrand:
    r"""What the regulariser integrates from 0 to T_F.

    .. math:: \frac{1}{2n} \left\| \frac{d^K X}{dt^K} \right\|_F^2

    of a sequence of n tokens, where X solves X' = f(t, X). K = 1 is Eq. 6 of the paper; for larger
    K see Kelly et al. 2020 (Learning Differential Equations that are Easy to Solve).

    Args:
        order: K.
        tokens: n of each sequence (B).

    Returns:
        A function of t, X and X'.
    """

    def integrand(t, x, slope):
        t = torch.as_tensor(t, dtype=x.dtype, device=x.device)
        slope = derivative(f, order, t, x, slope)
        return slope.square().sum((0, 1)) / (2 * tokens.clamp(min=1))

    return integrand


def derivative(f: VectorField, order: int, t: Tensor, x: Tensor, slope: Tensor) -> Tensor:
    """The derivative of this order by time, at t and X, of the solution of X' = f(t, X).

    Args:
        slope: f(t, x).
    """
    if order == 1:
        return slope

    def lower(t, x):
        return derivative(f, order - 1, t, x, f(t, x))

    with sdpa_kernel(SDPBackend.MATH):  # the others have no forward derivative
        return jvp(lower, (t, x), (torch.ones_like(t), slope))[1]
