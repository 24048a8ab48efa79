"""The affine maps of the N-ODE Transformer, A x + b + c t."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from fairseq_odeformers.modules.precision import at_least_float32

from .problem import Time


class TimeDependentLinear(nn.Linear):
    """A x + b + c t (paper, Eq. 5).

    Args:
        in_features, out_features: widths.
        time_dependent: whether there is c. Without c the map is A x + b (Eq. 4).
    """

    def __init__(self, in_features: int, out_features: int, time_dependent: bool = True):
        super().__init__(in_features, out_features)
        self.time: nn.Parameter | None = None
        if time_dependent:
            bound = in_features**-0.5
            self.time = nn.Parameter(torch.empty(out_features).uniform_(-bound, bound))

    def forward(self, t: Time, x: Tensor) -> Tensor:
        """From states (I, T, B) at a time, of the batch or of each sequence, to (O, T, B)."""
        return Affine.join(self)(t, x)


class Affine(NamedTuple):
    """A x + b + c t with the parameters of one map, or of several maps of the same states.

    A solve evaluates the maps of its field many times. It joins them once: queries, keys and values
    then are one product, and half precision is cast to single precision once.

    Attributes:
        weight: A (O, I).
        bias, time: b and c (O, 1); c may be None.
    """

    weight: Tensor
    bias: Tensor
    time: Tensor | None

    @classmethod
    def join(cls, *maps: TimeDependentLinear) -> "Affine":
        """The map whose output is the outputs of *maps*, one below the other."""
        return cls(
            at_least_float32(torch.cat([linear.weight for linear in maps])),
            column(*(linear.bias for linear in maps)),
            time_column(*maps),
        )

    def __call__(self, t: Time, x: Tensor) -> Tensor:
        """From states (I, T, B) at a time, of the batch or of each sequence, to (O, T, B)."""
        if self.time is None:
            bias = self.bias
        elif isinstance(t, Tensor):  # one time of the batch (), or of each sequence (B)
            bias = self.bias + self.time * (t.repeat(x.size(1)) if t.dim() else t)
        else:
            bias = torch.add(self.bias, self.time, alpha=t)
        return torch.addmm(bias, self.weight, x.flatten(1)).unflatten(1, x.shape[1:])


def time_column(*maps: TimeDependentLinear) -> Tensor | None:
    """c (O, 1) of maps, one below the other; None if they have no c."""
    times = [linear.time for linear in maps if linear.time is not None]
    return column(*times) if times else None


def column(*vectors: Tensor) -> Tensor:
    """Vectors as a column (O, 1), one below the other."""
    return at_least_float32(torch.cat(vectors)).unsqueeze(1)
