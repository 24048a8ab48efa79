"""A step of an explicit Runge-Kutta method, whichever its tableau."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

Time = float | Tensor  # of the whole batch, or of each sequence (B)
VectorField = Callable[[Time, Tensor], Tensor]
Integrand = Callable[[Time, Tensor, Tensor], Tensor]


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
        nodes: c of the stages after the first, whose node is 0.
        matrix: the rows of a of these stages.
        weights: b of all stages.
        order: of the solution by b.
        error_weights: of an adaptive method, b minus the weights of its second solution.
    """

    nodes: Sequence[float]
    matrix: Sequence[Sequence[float]]
    weights: Sequence[float]
    order: int
    error_weights: Sequence[float] = ()

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
        factors = [h * weight for weight in self.error_weights]
        return add_products(torch.zeros_like(step.end), factors, step.slopes)

    def integral(self, h: Time, step: Step, integrand: Integrand) -> Tensor:
        """The integral over a step of values (B) of t, X and X', with the weights of the step."""
        stages = zip(self.weights, step.times, step.states, step.slopes)
        return h * sum(b * integrand(*stage) for b, *stage in stages if b)


def combine(x: Tensor, h: Time, coefficients: Sequence[float], slopes: list[Tensor]) -> Tensor:
    """x + h (a_1 k_1 + a_2 k_2 + ...) of slopes k, as one node of the graph."""
    terms = [(h * a, k) for a, k in zip(coefficients, slopes) if a]
    return Combination.apply(x, [factor for factor, _ in terms], *(k for _, k in terms))


class Combination(torch.autograd.Function):
    """x + sum of c_i k_i, where the c_i are constants."""

    @staticmethod
    def forward(ctx, x, factors, *slopes):
        ctx.factors = factors
        return add_products(x.clone(), factors, slopes)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, *(gradient * factor for factor in ctx.factors)


def add_products(x: Tensor, factors: Sequence[Time], slopes: Sequence[Tensor]) -> Tensor:
    """Add c_i k_i to *x* in place."""
    for factor, slope in zip(factors, slopes):
        if isinstance(factor, Tensor):
            x.addcmul_(slope, factor)
        else:
            x.add_(slope, alpha=factor)
    return x
