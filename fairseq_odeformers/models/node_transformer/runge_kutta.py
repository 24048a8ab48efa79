"""A step of an explicit Runge-Kutta method, whichever its tableau."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from .problem import Integrand, Time, VectorField


class Step(NamedTuple):
    """The state after a step, and the step's stages: their times, states and slopes."""

    end: Tensor
    times: list[Time]
    states: list[Tensor]
    slopes: list[Tensor]


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

    def step(self, f: VectorField, t: Time, h: Time, x: Tensor, slope: Tensor) -> Step:
        """A step of X' = f(t, X) from t to t + h, where *slope* is f(t, x)."""
        times, states, slopes = [t], [x], [slope]
        for node, row in zip(self.nodes, self.matrix):
            times.append(t + node * h)
            states.append(combine(x, h, row, slopes))
            slopes.append(f(times[-1], states[-1]))
        end = states[-1] if self.first_same_as_last else combine(x, h, self.weights, slopes)
        return Step(end, times, states, slopes)

    def error(self, h: Time, step: Step) -> Tensor:
        """The difference of the method's two solutions after a step of size h."""
        error = torch.zeros_like(step.end)
        for b, other, slope in zip(self.weights, self.embedded_weights, step.slopes):
            error = add_product(error, h * (b - other), slope)  # nan if any slope is infinite
        return error

    def integral(self, h: Time, step: Step, integrand: Integrand) -> Tensor:
        """The integral (B) of a function of t, X and X' over a step, with the step's weights."""
        total = step.end.new_zeros(step.end.size(-1))
        for weight, t, x, slope in zip(self.weights, step.times, step.states, step.slopes):
            if weight:
                total = total + weight * integrand(t, x, slope)
        return h * total


def combine(x: Tensor, h: Time, coefficients: Sequence[float], slopes: list[Tensor]) -> Tensor:
    """x + h (a_1 k_1 + a_2 k_2 + ...) of slopes k."""
    for a, slope in zip(coefficients, slopes):
        if a:
            x = add_product(x, h * a, slope)
    return x


def add_product(x: Tensor, factor: Time, slope: Tensor) -> Tensor:
    """x plus the product of a factor, of the batch or of each sequence, and a slope."""
    if isinstance(factor, Tensor):
        return torch.addcmul(x, slope, factor)
    return torch.add(x, slope, alpha=factor)
