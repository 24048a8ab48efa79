"""The affine maps of the N-ODE Transformer, A x + b + c t."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.precision import at_least_float32

from .runge_kutta import Time


class TimeDependentLinear(nn.Linear):
    """The parameters of A x + b + c t (paper, Eq. 5), which :class:`Affine` computes.

    Args:
        in_features, out_features: widths.
        time_dependent: whether there is c. Without c the map is A x + b (Eq. 4).
    """

    def __init__(self, in_features, out_features, time_dependent=True):
        super().__init__(in_features, out_features)
        self.time = None
        if time_dependent:
            bound = in_features**-0.5
            self.time = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))


class Affine(NamedTuple):
    """A x + b + c t of states (I, T, B), one product for several maps of the same states.

    Attributes:
        weight: A (O, I).
        bias, time: b and c (O, 1); c may be None.
    """

    weight: Tensor
    bias: Tensor
    time: Tensor | None

    @classmethod
    def join(cls, *maps: TimeDependentLinear) -> "Affine":
        """The map whose output is the outputs of the given maps, one below the other."""
        return cls(
            at_least_float32(torch.cat([linear.weight for linear in maps])),
            column(*(linear.bias for linear in maps)),
            column(*(linear.time for linear in maps)),
        )

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        if self.time is None:
            bias = self.bias
        elif isinstance(t, float):
            bias = torch.add(self.bias, self.time, alpha=t)
        else:  # one time of the batch, or of each sequence (B)
            bias = self.bias + self.time * (t.repeat(x.size(1)) if t.dim() else t)
        return torch.addmm(bias, self.weight, x.flatten(1)).unflatten(1, x.shape[1:])


def column(*vectors: Tensor | None) -> Tensor | None:
    """Vectors as a column (O, 1), one below the other; None if they are None."""
    return None if None in vectors else at_least_float32(torch.cat(vectors)).unsqueeze(1)
