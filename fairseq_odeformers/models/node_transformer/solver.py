"""Solves X'(t) = f(t, X) for batches of sequences, on a fixed grid or with adaptive steps.

The methods are those of torchdiffeq, with its norm and its choice of steps. The loops are our own,
for what sequences need: errors that leave padding out, steps of the batch or of each sequence,
integrals beside the state, and a fraction of the overhead, which is what a small model's time goes
into. The adjoint method is torchdiffeq's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torchdiffeq import odeint_adjoint

from .methods import ADAPTIVE, FIXED_GRID
from .runge_kutta import Integrand, Step, Tableau, Time, VectorField, add_products

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0  # factors from one step to the next


class Solution(NamedTuple):
    """What a solve ends with.

    Attributes:
        state: X at the final time (C, T, B).
        integral: of the integrand, from 0 to the final time (B); 0 without one.
        statistics: how often f was evaluated for the state, ``nfe``, and how many adaptive steps
            were ``accepted`` and ``rejected``, of each sequence (B).
    """

    state: Tensor
    integral: Tensor
    statistics: dict[str, Tensor]


@dataclass(frozen=True)
class OdeSolver:
    """A solver from t = 0 to a final time.

    Args:
        method: its name in torchdiffeq, from ``ADAPTIVE`` or ``FIXED_GRID``.
        rtol, atol: relative and absolute tolerance of an adaptive method: the errors of a step,
            divided by ``atol + rtol |X|``, have a root mean square of at most 1 over the entries
            that are not padding.
        steps: number of equal steps on a fixed grid.
        final_time: T_F.
        max_steps: how many adaptive steps a solve may take, with the rejected ones.
        per_sequence: whether each sequence has its own steps, as if it were alone; otherwise all
            have the same, and a solution depends, within the tolerance, on the rest of the batch.
        adjoint: compute gradients by the adjoint method, which solves backwards in time, instead of
            through the steps, whose memory grows with their number.
    """

    method: str = "dopri5"
    rtol: float = 1e-5
    atol: float = 1e-5
    steps: int | None = None
    final_time: float = 1.0
    max_steps: int = 1000
    per_sequence: bool = False
    adjoint: bool = False

    def __call__(
        self,
        f: VectorField,
        x: Tensor,
        sizes: Tensor,
        integrand: Integrand | None = None,
        parameters: Sequence[Tensor] = (),
        name: str = "a solve",
    ) -> Solution:
        """Solve from X(0).

        Args:
            f: X' of t and X, which is 0 where padding is.
            x: X(0) (C, T, B).
            sizes: number of entries of X that are not padding, of each sequence (B).
            integrand: values (B) of t, X and X' to integrate as well.
            parameters: tensors that f depends on, for the adjoint method.
            name: of the solve, in messages.

        Raises:
            ValueError: the state is on an XLA device, and the method cannot run there.
            RuntimeError: more than ``max_steps`` are needed, or steps too small for a float, as
                where the state grows beyond all bounds.
        """
        if x.device.type == "xla" and (self.adjoint or self.method in ADAPTIVE):
            raise ValueError(
                f"{'the adjoint method' if self.adjoint else self.method} does not run on XLA, "
                "where what is computed may not depend on the data; give "
                f"--ode-method {'|'.join(FIXED_GRID)} and --ode-steps, without --adjoint"
            )
        if self.adjoint:
            return self.by_adjoint(f, x, sizes, integrand, parameters, name)
        if self.method in ADAPTIVE:
            return self.adaptively(f, x, sizes, integrand, name)
        return self.on_grid(f, x, integrand)

    def on_grid(self, f, x, integrand) -> Solution:
        method, h = FIXED_GRID[self.method], self.final_time / self.steps
        integral = x.new_zeros(x.size(-1))
        for index in range(self.steps):
            t = index * h
            step = method.step(f, t, h, x, f(t, x))
            if integrand:
                integral = integral + method.integral(h, step, integrand)
            x = step.end
        nfe = torch.full_like(integral, self.steps * len(method.weights))
        return Solution(x, integral, {"nfe": nfe})

    def adaptively(self, f, x, sizes, integrand, name) -> Solution:
        method, final = ADAPTIVE[self.method], self.final_time
        sizes = sizes if self.per_sequence else sizes.sum(0, keepdim=True)
        sizes = sizes.cpu().double().clamp(min=1)  # what controls the steps is on the CPU
        t, accepted, steps = (torch.zeros_like(sizes) for _ in range(3))
        slope = f(number(t, x), x)
        next_h = self.first_step(f, x, slope, sizes)
        integral = x.new_zeros(x.size(-1))
        while (running := t < final).any():
            h = next_h.minimum(final - t)  # 0 where the end is reached
            self.check(t, h, steps, running, name)
            size = number(h, x)
            step = method.step(f, number(t, x), size, x, slope)
            ratio = self.error_ratio(method, step, size, sizes)
            finite = ratio.isfinite()
            if not finite.all():  # a step of some goes into no gradient if one is not finite
                steps = steps + ~finite
                next_h = torch.where(finite, h, h * SMALLEST)
                continue
            accept = running & (ratio <= 1)
            if accept.any():
                if integrand:
                    integral = integral + method.integral(number(h * accept, x), step, integrand)
                t = torch.where(accept, torch.where(h < final - t, t + h, final), t)
                x = merge(accept, step.end, x)
                if method.first_same_as_last:
                    slope = merge(accept, step.slopes[-1], slope)
                elif (t < final).any():
                    slope = merge(accept, f(number(t, x), x), slope)
            steps, accepted = steps + running, accepted + accept
            smallest = torch.where(ratio < 1, 1.0, SMALLEST)
            next_h = h * (SAFETY * ratio ** (-1 / method.order)).clamp(smallest).clamp(max=LARGEST)
        nfe = 2 + len(method.nodes) * steps
        if not method.first_same_as_last:
            nfe = nfe + accepted - 1
        counts = {"nfe": nfe, "accepted": accepted, "rejected": steps - accepted}
        counts = {what: count.to(x).expand(x.size(-1)) for what, count in counts.items()}
        return Solution(x, integral, counts)

    @torch.no_grad()
    def first_step(self, f, x, slope, sizes) -> Tensor:
        """By Hairer, Norsett and Wanner 1993 (Solving Ordinary Differential Equations I, II.4)."""
        scale = self.atol + x.abs() * self.rtol
        d0, d1 = rms(x / scale, sizes), rms(slope / scale, sizes)
        h0 = torch.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / d1)
        size = number(h0, x)
        change = f(size, add_products(x.clone(), [size], [slope])) - slope
        d2 = rms(change / scale, sizes) / h0
        largest = d1.maximum(d2)
        h1 = (0.01 / largest) ** (1 / ADAPTIVE[self.method].order)
        h1 = torch.where(largest <= 1e-15, (h0 * 1e-3).clamp(min=1e-6), h1)
        return h1.minimum(100 * h0)

    @torch.no_grad()
    def error_ratio(self, method: Tableau, step: Step, h: Time, sizes: Tensor) -> Tensor:
        """Root mean square of the error over the tolerance."""
        factors = [h * error for error in method.error_weights]
        error = add_products(torch.zeros_like(step.end), factors, step.slopes)
        largest = step.states[0].abs().maximum(step.end.abs())
        return rms(error / (self.atol + self.rtol * largest), sizes)

    def check(self, t, h, steps, running, name: str) -> None:
        """Stop a solve that does not come to its end, at times *t* before steps *h*."""
        stuck = running & ~(t + h > t)
        excessive = running & (steps >= self.max_steps)
        if not (stuck | excessive).any():
            return
        index = int((excessive if excessive.any() else stuck).nonzero()[0])
        where = f"{name}, step {int(steps[index]) + 1:,} at t = {float(t[index]):.6g}"
        if len(t) > 1:
            where = f"{where} of sequence {index}"
        if excessive.any():
            raise RuntimeError(
                f"{where} of {self.final_time:g}: a solve may take --ode-max-steps "
                f"{self.max_steps:,}; give more, a larger --ode-rtol and --ode-atol, a smaller "
                "learning rate or, to keep trajectories simple, an --arclength-weight"
            )
        raise RuntimeError(
            f"{where} of {self.final_time:g}: the state or its slope is not finite, or changes too "
            "fast for any step; give a smaller learning rate"
        )

    def by_adjoint(self, f, x, sizes, integrand, parameters, name) -> Solution:
        size = sizes.sum().clamp(min=1)
        watched = Watched(self, f, integrand, name)
        steps = 1 if self.method in ADAPTIVE else self.steps
        states, integrals = odeint_adjoint(
            watched,
            (x, x.new_zeros(x.size(-1))),
            torch.linspace(0, self.final_time, steps + 1, device=x.device),
            rtol=self.rtol,
            atol=self.atol,
            method=self.method,
            options={"norm": lambda state: (state[0].square().sum() / size).sqrt()},
            adjoint_params=parameters,
        )
        counts = {name: torch.full_like(integrals[-1], n) for name, n in watched.counts.items()}
        return Solution(states[-1], integrals[-1], counts)


class Watched:
    """X' and the integrand as one function for torchdiffeq, which tells it of each step.

    Attributes:
        counts: as the statistics of a :class:`Solution`.
    """

    def __init__(self, solver: OdeSolver, f: VectorField, integrand: Integrand, name: str):
        self.solver, self.f, self.integrand, self.name = solver, f, integrand, name
        self.counts = {"nfe": 0}
        self.steps = {"": 0, ", backwards": 0}
        if solver.method in ADAPTIVE:
            self.counts.update(accepted=0, rejected=0)
            self.callback_accept_step = lambda *step: self.count("accepted")
            self.callback_reject_step = lambda *step: self.count("rejected")
            self.callback_step = lambda *step: self.check("", *step)
            self.callback_step_adjoint = lambda *step: self.check(", backwards", *step)

    def __call__(self, t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        self.count("nfe")
        x, integral = state
        slope = self.f(t, x)
        if self.integrand:
            return slope, self.integrand(t, x, slope)
        return slope, torch.zeros_like(integral)

    def count(self, what: str) -> None:
        self.counts[what] += 1

    def check(self, direction: str, t: Tensor, state, h: Tensor) -> None:
        running, steps = torch.tensor([True]), torch.tensor([self.steps[direction]])
        name = self.name + direction
        self.solver.check(t.cpu().view(1), h.cpu().view(1), steps, running, name)
        self.steps[direction] += 1


def number(values: Tensor, x: Tensor) -> Time:
    """One number (1) as a float, and one a sequence (B) as a tensor for states like *x*."""
    return values.item() if len(values) == 1 else values.to(x)


def merge(choose: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """States *x* where *choose* is true, of all (1) or each sequence (B); *y* elsewhere."""
    return x if choose.all() else torch.where(choose.to(x.device), x, y)


def rms(x: Tensor, sizes: Tensor) -> Tensor:
    """Root mean square of entries, over all if their number is one (1), or over each sequence."""
    squares = x.square().sum((0, 1)) if len(sizes) > 1 else x.square().sum().view(1)
    return (squares.double().to(sizes.device) / sizes).sqrt()
