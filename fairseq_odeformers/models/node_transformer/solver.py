"""Solves X'(t) = f(t, X) for batches of sequences, on a fixed grid or with adaptive steps.

The norm of the error and the choice of steps are torchdiffeq's. The loops are written anew because
sequences need more: errors leave padding out, the batch or each sequence has its own steps, and
integrals are computed beside the state. They also have a fraction of torchdiffeq's overhead, in
which a small model would spend most of its time.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .methods import ADAPTIVE, EULER, FIXED_GRID
from .problem import Problem, Solution, Solver, Time, VectorField
from .runge_kutta import Step

SAFETY, SMALLEST_FACTOR, LARGEST_FACTOR = 0.9, 0.2, 10.0  # from one step to the next

# Remedies, by the options of the command line.
SMALLER_RATE = "give a smaller learning rate"
MORE_STEPS = (
    "give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a smaller learning rate "
    "or, to keep trajectories simple, an --arclength-weight"
)


@dataclass(frozen=True)
class FixedGrid:
    """Equal steps. Their number does not depend on the data, so that XLA can compile them.

    Args:
        method: one of ``FIXED_GRID``.
        steps: the number of steps, at least 1.
    """

    method: str = "rk4"
    steps: int = 1

    def __call__(self, problem: Problem) -> Solution:
        """The solution.

        Raises:
            RuntimeError: the state is not finite at T_F. Compiled code does not check this.
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
        method: one of ``ADAPTIVE``.
        rtol, atol: relative and absolute tolerance. The errors of a step, divided by
            ``atol + rtol |X|``, have a root mean square of at most 1 over the entries that are not
            padding.
        max_steps: the most steps that a solve may take, accepted and rejected.
        per_sequence: whether each sequence has its own steps, as if it were alone. Otherwise all
            sequences have the same steps, and within the tolerance a solution depends on the rest
            of the batch.
    """

    method: str = "dopri5"
    rtol: float = 1e-5
    atol: float = 1e-5
    max_steps: int = 1000
    per_sequence: bool = False

    def __call__(self, problem: Problem) -> Solution:
        """The solution.

        The variables that control the steps have one value (1), or one a sequence (B), on the CPU.

        Raises:
            RuntimeError: the solve needs more than ``max_steps``, or steps too small for a float,
                since the state or its slope grows without bound.
        """
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
            if not finite.all():  # no gradient may go through a step that is not finite
                steps = steps + ~finite
                next_h = torch.where(finite, h, h * SMALLEST_FACTOR)
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
            next_h = self.next_step(h, ratio)
        nfe = 2 + len(tableau.nodes) * steps
        if not tableau.first_same_as_last:
            nfe = nfe + accepted - 1
        counts = {"nfe": nfe, "accepted": accepted, "rejected": steps - accepted}
        counts = {name: count.to(x).expand(x.size(-1)) for name, count in counts.items()}
        return Solution(x, integral, counts)

    @torch.no_grad()
    def first_step(self, f: VectorField, x: Tensor, slope: Tensor, entries: Tensor) -> Tensor:
        """The size of the first step, as in torchdiffeq.

        The source is Hairer, Norsett and Wanner 1993, Solving Ordinary Differential Equations I,
        section II.4.
        """
        scale = self.atol + x.abs() * self.rtol
        d0, d1 = self.rms(x / scale, entries), self.rms(slope / scale, entries)
        h0 = torch.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        size = self.time(h0, x)
        change = f(size, EULER.step(f, 0.0, size, x, slope).end) - slope
        d2 = self.rms(change / scale, entries) / h0
        largest = d1.maximum(d2)
        h1 = (0.01 / largest) ** (1 / ADAPTIVE[self.method].order)
        h1 = torch.where(largest <= 1e-15, (h0 * 1e-3).clamp(min=1e-6), h1)
        return h1.minimum(100 * h0)

    def next_step(self, h: Tensor, ratio: Tensor) -> Tensor:
        """The size of the step after a step of size h, by the ratio of its error to the tolerance.

        A step that was accepted, with a ratio below 1, is not followed by a smaller one.
        """
        smallest = torch.where(ratio < 1, 1.0, SMALLEST_FACTOR)
        factor = SAFETY * ratio ** (-1 / ADAPTIVE[self.method].order)
        return h * factor.clamp(smallest).clamp(max=LARGEST_FACTOR)

    @torch.no_grad()
    def error_ratio(self, step: Step, h: Time, entries: Tensor) -> Tensor:
        """The root mean square of error over tolerance, of the batch (1) or each sequence (B)."""
        error = ADAPTIVE[self.method].error(h, step)
        largest = step.states[0].abs().maximum(step.end.abs())
        return self.rms(error / (self.atol + self.rtol * largest), entries)

    def rms(self, x: Tensor, entries: Tensor) -> Tensor:
        """The root mean square over the entries of the batch (1) or of each sequence (B)."""
        squares = x.square()
        squares = squares.sum((0, 1)) if self.per_sequence else squares.sum().view(1)
        return (squares.double().to(entries.device) / entries).sqrt()

    def time(self, values: Tensor, x: Tensor) -> Time:
        """Control variables in the form that a field takes: a float, or a tensor like *x* (B)."""
        return values.to(x) if self.per_sequence else values.item()

    def check(self, problem: Problem, t: Tensor, h: Tensor, steps: Tensor, running: Tensor) -> None:
        """Stop a solve, at times *t* before steps of sizes *h*, that would not reach its end."""
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
            raise RuntimeError(f"{where}: a solve may take {self.max_steps:,} steps; {MORE_STEPS}")
        raise RuntimeError(
            f"{where}: the state or its slope is not finite, or changes too fast for any step; "
            f"{SMALLER_RATE}"
        )


def checkpointed(solver: Solver) -> Solver:
    """The same solver, whose steps the backward pass computes again, to save memory."""
    return partial(checkpoint, solver, use_reentrant=False)


def check_finite(problem: Problem, end: Tensor) -> None:
    """Raise a RuntimeError if X(T_F) is not finite; compiled code has no such branch."""
    compiled = end.device.type == "xla" or torch.compiler.is_compiling()
    if not compiled and not end.isfinite().all():
        raise RuntimeError(
            f"{problem.name}, at t = {problem.final_time:g}: the state is not finite; "
            f"{SMALLER_RATE}"
        )


def merge(choose: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """The states *x* where *choose* is true, for all (1) or each sequence (B), and else *y*."""
    return x if choose.all() else torch.where(choose.to(x.device), x, y)
