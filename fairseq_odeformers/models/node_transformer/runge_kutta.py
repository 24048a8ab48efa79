"""Runge-Kutta methods: those of torchdiffeq, and their steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Callable, NamedTuple, Union

import torch
from torch import Tensor
from torchdiffeq._impl.odeint import SOLVERS

Number = Union[float, Tensor]  # or one a sequence (B), the last dimension of a state
Function = Callable[[Number, Tensor], Tensor]
Integrand = Callable[[Number, Tensor, Tensor], Tensor]


class Step(NamedTuple):
    """The state after a step, and the step's stages: their times, states and slopes."""

    end: Tensor
    times: list[Number]
    states: list[Tensor]
    slopes: list[Tensor]


class Method(NamedTuple):
    """A Runge-Kutta method.

    Attributes:
        nodes: c of the stages after the first.
        stages: rows of the coefficients a of these stages.
        weights: b.
        errors: of an adaptive method, b minus that of the embedded method.
        order: of an adaptive method, by which its steps are chosen.
    """

    nodes: Sequence[float]
    stages: Sequence[Sequence[float]]
    weights: Sequence[float]
    errors: Sequence[float] = ()
    order: int = 0

    @property
    def first_same_as_last(self) -> bool:
        """Whether the last stage is also the first one of the next step."""
        return bool(self.stages) and [*self.stages[-1], 0] == list(self.weights)

    def step(self, f: Function, t: Number, h: Number, x: Tensor, slope: Tensor) -> Step:
        """A step of X' = f(t, X) from t to t + h, where *slope* is f(t, x)."""
        times, states, slopes = [t], [x], [slope]
        for node, row in zip(self.nodes, self.stages):
            times.append(t + node * h)
            states.append(combine(x, h, row, slopes))
            slopes.append(f(times[-1], states[-1]))
        end = states[-1] if self.first_same_as_last else combine(x, h, self.weights, slopes)
        return Step(end, times, states, slopes)

    def integral(self, h: Number, step: Step, integrand: Integrand) -> Tensor:
        """The integral over a step of values (B) of t, X and X', by the same method."""
        stages = zip(self.weights, step.times, step.states, step.slopes)
        return h * sum(b * integrand(*stage) for b, *stage in stages if b)


def combine(x: Tensor, h: Number, coefficients: Sequence[float], slopes: list[Tensor]) -> Tensor:
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


def add_products(x: Tensor, factors: Sequence[Number], slopes: Sequence[Tensor]) -> Tensor:
    """Add c_i k_i to *x* in place."""
    for factor, slope in zip(factors, slopes):
        if isinstance(factor, Tensor):
            x.addcmul_(slope, factor)
        else:
            x.add_(slope, alpha=factor)
    return x


def adaptive(name: str) -> Method:
    """The method of this name in torchdiffeq."""
    solver = SOLVERS[name]
    tableau = solver.tableau
    return Method(
        tableau.alpha.tolist(),
        [row.tolist() for row in tableau.beta],
        tableau.c_sol.tolist(),
        tableau.c_error.tolist(),
        solver.order,
    )


ADAPTIVE = {
    name: adaptive(name) for name in ("dopri5", "dopri8", "bosh3", "fehlberg2", "adaptive_heun")
}
# As torchdiffeq's; rk4 is the 3/8 rule.
FIXED_GRID = {
    "euler": Method((), (), (1,)),
    "midpoint": Method((1 / 2,), ((1 / 2,),), (0, 1)),
    "heun2": Method((1,), ((1,),), (1 / 2, 1 / 2)),
    "heun3": Method((1 / 3, 2 / 3), ((1 / 3,), (0, 2 / 3)), (1 / 4, 0, 3 / 4)),
    "rk4": Method(
        (1 / 3, 2 / 3, 1), ((1 / 3,), (-1 / 3, 1), (1, -1, 1)), (1 / 8, 3 / 8, 3 / 8, 1 / 8)
    ),
}
