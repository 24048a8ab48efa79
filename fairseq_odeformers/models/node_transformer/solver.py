"""Solves X'(t) = f(t, X) for batches of sequences, on a fixed grid or with adaptive steps.

The loops are our own, for what sequences need: errors that leave padding out, steps of the batch or
of each sequence, integrals beside the state, and a fraction of the overhead of torchdiffeq, which
is what a small model's time goes into. The norm of the error and the choice of steps are those of
torchdiffeq.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .methods import ADAPTIVE, FIXED_GRID
from .runge_kutta import Integrand, Step, Time, VectorField, combine

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # factors from one step to the next


class Problem(NamedTuple):
    """X'(t) = f(t, X) from X(0) to X(T_F), for a batch of sequences.

    Attributes:
        f: X' of t and X, which is 0 where padding is.
        x: X(0) (C, T, B).
        entries: number of entries of X that are not padding, of each sequence (B).
        final_time: T_F.
        integrand: values (B) of t, X and X' to integrate as well.
        name: of the problem, in messages.
    """

    f: VectorField
    x: Tensor
    entries: Tensor
    final_time: float = 1.0
    integrand: Integrand | None = None
    name: str = "a solve"


class Solution(NamedTuple):
    """What a solve ends with.

    Attributes:
        state: X(T_F) (C, T, B).
        integral: of the integrand, from 0 to T_F (B); 0 without one.
        statistics: how often f was evaluated for the state, ``nfe``, and how many adaptive steps
            were ``accepted`` and ``rejected``, of each sequence (B).
    """

    state: Tensor
    integral: Tensor
    statistics: dict[str, Tensor]


class SolveError(RuntimeError):
    """A solve that does not come to its end."""


class TooManySteps(SolveError):
    """A solve for which the steps that it may take are not enough."""


class NotFinite(SolveError):
    """A state or slope that is not finite, or that changes too fast for any step."""


@dataclass(frozen=True)
class FixedGrid:
    """Equal steps, whose number does not depend on the data: XLA can compile them.

    Args:
        method: from ``FIXED_GRID``.
        steps: their number.

    Raises:
        ValueError: there is no such method, or no step.
    """

    method: str = "rk4"
    steps: int = 1

    def __post_init__(self):
        check_method(self.method, FIXED_GRID)
        if self.steps < 1:
            raise ValueError(f"{self.steps} steps: a fixed grid has at least 1")

    def __call__(self, problem: Problem) -> Solution:
        """The solution.

        Raises:
            NotFinite: the state is not finite at T_F, on another device than one of XLA.
        """
        f, x, tableau = problem.f, problem.x, FIXED_GRID[self.method]
        h = problem.final_time / self.steps
        integral = x.new_zeros(x.size(-1))
        for index in range(self.steps):
            t = index * h
            step = tableau.step(f, t, h, x, f(t, x))
            if problem.integrand:
                integral = integral + tableau.integral(h, step, problem.integrand)
            x = step.end
        check_finite(problem, x)
        nfe = torch.full_like(integral, self.steps * len(tableau.weights))
        return Solution(x, integral, {"nfe": nfe})


@dataclass(frozen=True)
class Adaptive:
    """Steps as large as the tolerances allow.

    Args:
        method: from ``ADAPTIVE``.
        rtol, atol: relative and absolute tolerance: the errors of a step, divided by
            ``atol + rtol |X|``, have a root mean square of at most 1 over the entries that are not
            padding.
        max_steps: how many steps a solve may take, with the rejected ones.
        per_sequence: whether each sequence has its own steps, as if it were alone; otherwise all
            have the same, and a solution depends, within the tolerance, on the rest of the batch.

    Raises:
        ValueError: there is no such method.
    """

    method: str = "dopri5"
    rtol: float = 1e-5
    atol: float = 1e-5
    max_steps: int = 1000
    per_sequence: bool = False

    def __post_init__(self):
        check_method(self.method, ADAPTIVE)

    def __call__(self, problem: Problem) -> Solution:
        """The solution. What controls the steps, a value (1) or one a sequence (B), is on the CPU.

        Raises:
            ValueError: the state is on an XLA device.
            TooManySteps: more than ``max_steps`` are needed.
            NotFinite: steps too small for a float are needed, as where the state grows beyond all
                bounds.
        """
        refuse_xla(problem.x, self.method)
        f, x, final = problem.f, problem.x, problem.final_time
        tableau = ADAPTIVE[self.method]
        entries = problem.entries if self.per_sequence else problem.entries.sum(0, keepdim=True)
        entries = entries.cpu().double().clamp(min=1)
        t, accepted, steps = (torch.zeros_like(entries) for _ in range(3))
        slope = f(self.time(t, x), x)
        next_h = self.first_step(f, x, slope, entries)
        integral = x.new_zeros(x.size(-1))
        while (running := t < final).any():
            h = next_h.minimum(final - t)  # 0 where the end is reached
            self.check(problem, t, h, steps, running)
            size = self.time(h, x)
            step = tableau.step(f, self.time(t, x), size, x, slope)
            ratio = self.error_ratio(step, size, entries)
            finite = ratio.isfinite()
            if not finite.all():  # a step of some goes into no gradient if one is not finite
                steps = steps + ~finite
                next_h = torch.where(finite, h, h * SMALLEST)
                continue
            accept = running & (ratio <= 1)
            if accept.any():
                if problem.integrand:
                    size = self.time(h * accept, x)
                    integral = integral + tableau.integral(size, step, problem.integrand)
                t = torch.where(accept, torch.where(h < final - t, t + h, final), t)
                x = merge(accept, step.end, x)
                if tableau.first_same_as_last:
                    slope = merge(accept, step.slopes[-1], slope)
                elif (t < final).any():
                    slope = merge(accept, f(self.time(t, x), x), slope)
            steps, accepted = steps + running, accepted + accept
            smallest = torch.where(ratio < 1, 1.0, SMALLEST)
            factor = SAFETY * ratio ** (-1 / tableau.order)
            next_h = h * factor.clamp(smallest).clamp(max=LARGEST)
        nfe = 2 + len(tableau.nodes) * steps
        if not tableau.first_same_as_last:
            nfe = nfe + accepted - 1
        counts = {"nfe": nfe, "accepted": accepted, "rejected": steps - accepted}
        counts = {name: count.to(x).expand(x.size(-1)) for name, count in counts.items()}
        return Solution(x, integral, counts)

    @torch.no_grad()
    def first_step(self, f: VectorField, x: Tensor, slope: Tensor, entries: Tensor) -> Tensor:
        """By Hairer, Norsett and Wanner 1993 (Solving Ordinary Differential Equations I, II.4)."""
        scale = self.atol + x.abs() * self.rtol
        d0, d1 = self.rms(x / scale, entries), self.rms(slope / scale, entries)
        h0 = torch.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        size = self.time(h0, x)
        change = f(size, combine(x, size, (1,), [slope])) - slope
        d2 = self.rms(change / scale, entries) / h0
        largest = d1.maximum(d2)
        h1 = (0.01 / largest) ** (1 / ADAPTIVE[self.method].order)
        h1 = torch.where(largest <= 1e-15, (h0 * 1e-3).clamp(min=1e-6), h1)
        return h1.minimum(100 * h0)

    @torch.no_grad()
    def error_ratio(self, step: Step, h: Time, entries: Tensor) -> Tensor:
        """Root mean square of the error over the tolerance."""
        error = ADAPTIVE[self.method].error(h, step)
        largest = step.states[0].abs().maximum(step.end.abs())
        return self.rms(error / (self.atol + self.rtol * largest), entries)

    def rms(self, x: Tensor, entries: Tensor) -> Tensor:
        """Root mean square of the batch (1) or of each sequence (B), of so many entries."""
        squares = x.square()
        squares = squares.sum((0, 1)) if self.per_sequence else squares.sum().view(1)
        return (squares.double().to(entries.device) / entries).sqrt()

    def time(self, values: Tensor, x: Tensor) -> Time:
        """A float for the batch, or a tensor for states like *x* with a value a sequence."""
        return values.to(x) if self.per_sequence else values.item()

    def check(self, problem: Problem, t: Tensor, h: Tensor, steps: Tensor, running: Tensor) -> None:
        """Stop a solve that does not come to its end, at times *t* before steps *h*."""
        stuck = running & ~(t + h > t)
        excessive = running & (steps >= self.max_steps)
        if not (stuck | excessive).any():
            return
        index = int((excessive if excessive.any() else stuck).nonzero()[0])
        where = f"{problem.name}, step {int(steps[index]) + 1:,} at t = {float(t[index]):.6g}"
        if self.per_sequence:
            where = f"{where} of sequence {index}"
        where = f"{where} of {problem.final_time:g}"
        if excessive.any():
            raise TooManySteps(f"{where}: a solve may take {self.max_steps:,} steps")
        raise NotFinite(
            f"{where}: the state or its slope is not finite, or changes too fast for any step"
        )


@dataclass(frozen=True)
class Checkpointed:
    """Gradients through steps that are computed again for them.

    Until then the memory holds nothing of a solve but its problem.

    Args:
        solver: that computes the steps.
    """

    solver: FixedGrid | Adaptive

    def __call__(self, problem: Problem) -> Solution:
        """The solution, as the solver returns and raises it."""
        return checkpoint(self.solver, problem, use_reentrant=False)


def check_method(name: str, methods: dict) -> None:
    if name not in methods:
        raise ValueError(f"method {name}: choose one of {', '.join(methods)}")


def refuse_xla(x: Tensor, what: str) -> None:
    """Raise a ValueError for a state on an XLA device."""
    if x.device.type == "xla":
        raise ValueError(
            f"{what} does not run on XLA, where what is computed may not depend on the data; take "
            f"a fixed grid, {', '.join(FIXED_GRID)}, and gradients through its steps"
        )


def check_finite(problem: Problem, x: Tensor) -> None:
    """Raise NotFinite for a state at T_F that is not; XLA compiles no such branch."""
    if x.device.type != "xla" and not x.isfinite().all():
        raise NotFinite(f"{problem.name}, at t = {problem.final_time:g}: the state is not finite")


def merge(choose: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """States *x* where *choose* is true, of all (1) or each sequence (B); *y* elsewhere."""
    return x if choose.all() else torch.where(choose.to(x.device), x, y)
