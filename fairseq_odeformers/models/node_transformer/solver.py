"""Solvers of dX/dt = f(t, X) for batches of sequences, on a fixed grid or with adaptive steps.

The norm of the error and the choice of steps follow torchdiffeq. This module has its own loops
because batches of sequences need more than torchdiffeq offers: errors exclude padding, steps are
common to the batch or specific to each sequence, and integrals are computed together with the
state. In addition, torchdiffeq's overhead would dominate the run time of a small model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from fairseq_odeformers.modules.tableaus import ADAPTIVE, FIXED_GRID

from .problem import MORE_STEPS, SMALLER_RATE, Problem, Solution, check_finite
from .step import MIN_FACTOR, Controller, integral_over, take_step


@dataclass(frozen=True)
class FixedGrid:
    """Solver that takes a fixed number of equal steps.

    The steps do not depend on the data, so XLA can compile them.

    Args:
        method: name of a method from ``FIXED_GRID``.
        steps: number of steps, at least 1.
    """

    method: str = "rk4"
    steps: int = 1

    def __call__(self, problem: Problem) -> Solution:
        """Solve a problem.

        Raises:
            RuntimeError: the state is not finite at T_F. Compiled code does not check this.
        """
        f, x, tableau = problem.f, problem.x, FIXED_GRID[self.method]
        h = problem.final_time / self.steps
        integral = x.new_zeros(x.size(-1))
        for index in range(self.steps):
            t = index * h
            step = take_step(tableau, f, t, h, x, f(t, x))
            if problem.integrand:
                integral = integral + integral_over(tableau, h, step, problem.integrand)
            x = step.end
        check_finite(problem, x)
        nfe = torch.full_like(integral, self.steps * len(tableau.weights))
        return Solution(x, integral, {"nfe": nfe})


class Progress(NamedTuple):
    """The progress of an adaptive solve.

    The variables that control the steps (t, h, steps and accepted) are on the CPU, with one value
    for the batch (1) or one per sequence (B).

    Attributes:
        t, h: time, and size of the next step.
        x, slope: X(t) and dX/dt (C, T, B).
        integral: integral of the integrand from 0 to t (B).
        steps, accepted: number of steps so far, and number of accepted ones.
    """

    t: Tensor
    h: Tensor
    x: Tensor
    slope: Tensor
    integral: Tensor
    steps: Tensor
    accepted: Tensor


@dataclass(frozen=True)
class Adaptive:
    """Solver that takes steps as large as the tolerances allow.

    Args:
        method: name of a method from ``ADAPTIVE``.
        rtol, atol: relative and absolute tolerance. The errors of a step, divided by
            ``atol + rtol |X|``, have a root mean square of at most 1 over the entries that are not
            padding.
        max_steps: maximum number of accepted and rejected steps of a solve.
        per_sequence: whether each sequence has its own steps, as if it were the only one.
            Otherwise, all sequences have the same steps, and a solution depends on the rest of the
            batch, within the tolerance.
        stops: whether a solve stops after ``max_steps`` at the current state instead of raising an
            error.
        kept_steps: number of first steps that keep their activations for the backward pass. The
            backward pass recomputes later steps in groups of this size, so that a solve that
            does not end reaches ``max_steps`` before it fills the memory.
    """

    method: str = "dopri5"
    rtol: float = 1e-5
    atol: float = 1e-5
    max_steps: int = 1000
    per_sequence: bool = False
    stops: bool = False
    kept_steps: int = 16

    def __call__(self, problem: Problem) -> Solution:
        """Solve a problem.

        Raises:
            RuntimeError: the solve exceeds ``max_steps`` and ``stops`` is false, or it needs steps
                too small for a float because the state or its slope grows without bound.
        """
        controller = self.control(problem)
        progress = self.advance(problem, controller, self.begin(problem, controller))
        while self.running(problem, progress).any():
            progress = checkpointed(self.advance)(problem, controller, progress)
        return Solution(progress.x, progress.integral, self.statistics(problem, progress))

    def control(self, problem: Problem) -> Controller:
        """Make the controller that chooses the steps for a problem."""
        entries = problem.entries if self.per_sequence else problem.entries.sum(0, keepdim=True)
        entries = entries.cpu().double().clamp(min=1)
        return Controller(ADAPTIVE[self.method], self.rtol, self.atol, entries, self.per_sequence)

    def begin(self, problem: Problem, controller: Controller) -> Progress:
        """Return the progress at t = 0."""
        f, x = problem.f, problem.x
        zero = torch.zeros_like(controller.entries)
        slope = f(controller.time(zero, x), x)
        h = controller.first_step(f, x, slope)
        return Progress(zero, h, x, slope, x.new_zeros(x.size(-1)), steps=zero, accepted=zero)

    def running(self, problem: Problem, progress: Progress) -> Tensor:
        """Return whether more steps are needed, for the batch (1) or for each sequence (B)."""
        running = progress.t < problem.final_time
        if self.stops:
            running = running & (progress.steps < self.max_steps)
        return running

    def advance(self, problem: Problem, controller: Controller, progress: Progress) -> Progress:
        """Take up to ``kept_steps`` more steps, or fewer if the solve ends."""
        for _ in range(self.kept_steps):
            if not (running := self.running(problem, progress)).any():
                break
            progress = self.step(problem, controller, progress, running)
        return progress

    def step(
        self, problem: Problem, controller: Controller, progress: Progress, running: Tensor
    ) -> Progress:
        """Take one more step; it may be rejected.

        Args:
            running: result of :meth:`running`.

        Raises:
            RuntimeError: see :meth:`check_step`.
        """
        f, final, tableau = problem.f, problem.final_time, controller.tableau
        t, next_h, x, slope, integral, steps, accepted = progress
        h = next_h.minimum(final - t) * running  # 0 where no more steps are needed
        self.check_step(problem, t, h, steps, running)
        size = controller.time(h, x)
        step = take_step(tableau, f, controller.time(t, x), size, x, slope)
        ratio = controller.error_ratio(size, step)
        finite = ratio.isfinite()
        if not finite.all():  # reject this step at once: no gradient may pass through it
            smaller = torch.where(finite, h, h * MIN_FACTOR)
            return progress._replace(h=smaller, steps=steps + ~finite)
        accept = running & (ratio <= 1)
        if accept.any():
            if problem.integrand:
                size = controller.time(h * accept, x)
                integral = integral + integral_over(tableau, size, step, problem.integrand)
            t = torch.where(accept, torch.where(h < final - t, t + h, final), t)
            x = merge(accept, step.end, x)
            if tableau.first_same_as_last:
                slope = merge(accept, step.slopes[-1], slope)
            elif (t < final).any():
                slope = merge(accept, f(controller.time(t, x), x), slope)
        next_h = controller.next_step(h, ratio)
        return Progress(t, next_h, x, slope, integral, steps + running, accepted + accept)

    def check_step(
        self, problem: Problem, t: Tensor, h: Tensor, steps: Tensor, running: Tensor
    ) -> None:
        """Check a step from t to t + h before it is taken.

        Args:
            t, h: time and size of the step, for the batch (1) or for each sequence (B), on the CPU.
            steps: number of earlier steps.
            running: whether a step is needed.

        Raises:
            RuntimeError: ``max_steps`` have already been taken, or h is too small for a float.
        """
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
            raise RuntimeError(
                f"{where}: exceeded the limit of {self.max_steps:,} steps; {MORE_STEPS}"
            )
        raise RuntimeError(
            f"{where}: the state or its slope is not finite, or changes too fast for any step; "
            f"{SMALLER_RATE}"
        )

    def statistics(self, problem: Problem, progress: Progress) -> dict[str, Tensor]:
        """Return the statistics of a :class:`Solution`.

        f is evaluated at t = 0, for the size of the first step, and in each step for all stages
        except the first. The slope of the first stage is the last slope of the previous step if the
        method reuses it. Otherwise, it takes one evaluation after each accepted step except the
        last.
        """
        tableau, steps, accepted = ADAPTIVE[self.method], progress.steps, progress.accepted
        unfinished = progress.t < problem.final_time
        nfe = 2 + len(tableau.nodes) * steps
        if not tableau.first_same_as_last:
            nfe = nfe + accepted - 1 + unfinished
        counts = {"nfe": nfe, "accepted": accepted, "rejected": steps - accepted}
        if self.stops:
            counts["unfinished"] = unfinished
        x = progress.x
        return {name: count.to(x).expand(x.size(-1)) for name, count in counts.items()}


def checkpointed(solve: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a solver, or a part of it, so that the backward pass recomputes its steps."""
    return partial(checkpoint, solve, use_reentrant=False)


def merge(choose: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Choose the states *x* where *choose* (1, or B for each sequence) is true, *y* elsewhere."""
    return x if choose.all() else torch.where(choose.to(x.device), x, y)
