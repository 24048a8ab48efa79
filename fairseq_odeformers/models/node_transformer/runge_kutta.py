"""A step of an explicit Runge-Kutta method, whichever its tableau."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_odeformers.modules.tableaus import Tableau

from .problem import Integrand, Time, VectorField


class Step(NamedTuple):
    """The state after a step, and the step's stages: their times, states and slopes."""

    end: Tensor
    times: list[Time]
    states: list[Tensor]
    slopes: list[Tensor]


def take_step(tableau: Tableau, f: VectorField, t: Time, h: Time, x: Tensor, slope: Tensor) -> Step:
    """A step of X' = f(t, X) from t to t + h, where *slope* is f(t, x)."""
    times, states, slopes = [t], [x], [slope]
    for node, row in zip(tableau.nodes, tableau.matrix):
        times.append(t + node * h)
        states.append(combine(x, h, row, slopes))
        slopes.append(f(times[-1], states[-1]))
    last = tableau.first_same_as_last
    end = states[-1] if last else combine(x, h, tableau.weights, slopes)
    return Step(end, times, states, slopes)


def error_of(tableau: Tableau, h: Time, step: Step) -> Tensor:
    """The difference of the method's two solutions after a step of size h."""
    error = torch.zeros_like(step.end)
    for b, other, slope in zip(tableau.weights, tableau.embedded_weights, step.slopes):
        error = add_product(error, h * (b - other), slope)  # nan if any slope is infinite
    return error


def integral_over(tableau: Tableau, h: Time, step: Step, integrand: Integrand) -> Tensor:
    """The integral (B) of a function of t, X and X' over a step, with the step's weights."""
    total = step.end.new_zeros(step.end.size(-1))
    for weight, t, x, slope in zip(tableau.weights, step.times, step.states, step.slopes):
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
