"""The affine maps of the N-ODE Transformer."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .runge_kutta import Time


class TimeDependentLinear(nn.Linear):
    """A x + b + c t (paper, Eq. 5).

    Args:
        in_features, out_features: widths.
        time_dependent: whether there is c; without it this is A x + b (Eq. 4).
    """

    def __init__(self, in_features, out_features, time_dependent=True):
        super().__init__(in_features, out_features)
        self.time = None
        if time_dependent:
            bound = in_features**-0.5
            self.time = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, t: Time, x: Tensor) -> Tensor:
        """A x + b + c t of x (..., I), where t is a float or broadcasts to (..., 1)."""
        out = F.linear(x, self.weight, self.bias)
        return out if self.time is None else out + self.time * t
