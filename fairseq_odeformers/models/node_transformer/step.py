"""Steps of explicit Runge-Kutta methods, and the choice of the next size from the error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_odeformers.modules.tableaus import EULER, Tableau

from .problem import Integrand, Time, VectorField

SAFETY, MIN_FACTOR, MAX_FACTOR = 0.9, 0.2, 10.0  # limits on changes of the step size


class Step(NamedTuple):
    """The state after a step, and the times, states and slopes of the step's stages."""

    end: Tensor
    times: list[Time]
    states: list[Tensor]
    slopes: list[Tensor]


def take_step(tableau: Tableau, f: VectorField, t: Time, h: Time, x: Tensor, slope: Tensor) -> Step:
    """Take a step of dX/dt = f(t, X) from t to t + h, where *slope* is f(t, x)."""
    times, states, slopes = [t], [x], [slope]
    for node, row in zip(tableau.nodes, tableau.matrix):
        times.append(t + node * h)
        states.append(combine(x, h, row, slopes))
        slopes.append(f(times[-1], states[-1]))
    last = tableau.first_same_as_last
    end = states[-1] if last else combine(x, h, tableau.weights, slopes)
    return Step(end, times, states, slopes)


def error_of(tableau: Tableau, h: Time, step: Step) -> Tensor:
    """Return the difference (C, T, B) of the method's two solutions after a step of size h."""
    error = torch.zeros_like(step.end)
    for b, other, slope in zip(tableau.weights, tableau.embedded_weights, step.slopes):
        error = add_product(error, h * (b - other), slope)  # NaN if a slope is infinite
    return error


def integral_over(tableau: Tableau, h: Time, step: Step, integrand: Integrand) -> Tensor:
    """Return the integral (B) of a function of t, X and dX/dt over a step, by its weights."""
    total = step.end.new_zeros(step.end.size(-1))
    for weight, t, x, slope in zip(tableau.weights, step.times, step.states, step.slopes):
        if weight:
            total = total + weight * integrand(t, x, slope)
    return h * total


def combine(x: Tensor, h: Time, coefficients: Sequence[float], slopes: list[Tensor]) -> Tensor:
    """Return x + h (a_1 k_1 + a_2 k_2 + ...) with slopes k (C, T, B)."""
    for a, slope in zip(coefficients, slopes):
        if a:
            x = add_product(x, h * a, slope)
    return x


def add_product(x: Tensor, factor: Time, slope: Tensor) -> Tensor:
    """Add to x a slope times a factor (one for the batch, or one per sequence)."""
    if isinstance(factor, Tensor):
        return torch.addcmul(x, slope, factor)
    return torch.add(x, slope, alpha=factor)


@dataclass(frozen=True)
class Controller:
    """The choice of the sizes of adaptive steps, by the rules of torchdiffeq.

    Sizes and error ratios are in double precision on the CPU, with one value for the batch (1) or
    one per sequence (B).

    Args:
        tableau: tableau of an adaptive method.
        rtol, atol: relative and absolute tolerance.
        entries: number of entries that are not padding, in the batch (1) or per sequence (B).
        per_sequence: whether each sequence has its own steps.
    """

    tableau: Tableau
    rtol: float
    atol: float
    entries: Tensor
    per_sequence: bool

    @torch.no_grad()
    def first_step(self, f: VectorField, x: Tensor, slope: Tensor) -> Tensor:
        """Choose the size of the first step from x and f(0, x).

        See Hairer, Norsett and Wanner 1993, Solving Ordinary Differential Equations I, section
        II.4.
        """
        scale = self.atol + x.abs() * self.rtol
        d0, d1 = self.rms(x / scale), self.rms(slope / scale)
        h0 = torch.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        size = self.time(h0, x)
        change = f(size, take_step(EULER, f, 0.0, size, x, slope).end) - slope
        d2 = self.rms(change / scale) / h0
        largest = d1.maximum(d2)
        h1 = (0.01 / largest) ** (1 / self.tableau.order)
        h1 = torch.where(largest <= 1e-15, (h0 * 1e-3).clamp(min=1e-6), h1)
        return h1.minimum(100 * h0)

    def next_step(self, h: Tensor, ratio: Tensor) -> Tensor:
        """Choose the size of the next step after a step of size h with a given error ratio.

        After an accepted step with a ratio below 1, the next step is not smaller.
        """
        smallest = torch.where(ratio < 1, 1.0, MIN_FACTOR)
        factor = SAFETY * ratio ** (-1 / self.tableau.order)
        return h * factor.clamp(smallest).clamp(max=MAX_FACTOR)

    @torch.no_grad()
    def error_ratio(self, h: Time, step: Step) -> Tensor:
        """Return the root mean square of error / tolerance; an accepted step has at most 1."""
        error = error_of(self.tableau, h, step)
        largest = step.states[0].abs().maximum(step.end.abs())
        return self.rms(error / (self.atol + self.rtol * largest))

    def rms(self, x: Tensor) -> Tensor:
        """Return the root mean square over the entries in the batch (1) or in each sequence (B)."""
        squares = x.square()
        squares = squares.sum((0, 1)) if self.per_sequence else squares.sum().view(1)
        return (squares.double().to(self.entries.device) / self.entries).sqrt()

    def time(self, values: Tensor, x: Tensor) -> Time:
        """Convert times or sizes to the form that a field accepts: a float, or a tensor (B)."""
        return values.to(x) if self.per_sequence else values.item()
