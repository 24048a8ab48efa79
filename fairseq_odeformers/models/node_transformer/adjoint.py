"""The adjoint method (Chen et al. 2018, Neural Ordinary Differential Equations), by torchdiffeq."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torchdiffeq import odeint_adjoint

from .problem import Problem, Solution, VectorField, check_finite
from .solver import Adaptive, FixedGrid


@dataclass(frozen=True)
class Adjoint:
    """Solver with gradients from a second solve, backwards in time, instead of through the steps.

    Its memory does not grow with the number of adaptive steps.

    Args:
        solver: solver that computes the steps in both directions.

    Raises:
        ValueError: the solver takes separate steps for each sequence; the backward solve needs
            common steps for the whole batch.
    """

    solver: FixedGrid | Adaptive

    def __post_init__(self) -> None:
        if isinstance(self.solver, Adaptive) and self.solver.per_sequence:
            raise ValueError(
                "the adjoint method needs common steps for the batch, not per sequence; pass "
                "per_sequence=False (--adaptivity batch)"
            )

    def __call__(self, problem: Problem) -> Solution:
        """Solve the problem.

        Raises:
            RuntimeError: see the solver; the message says whether the backward solve failed.
            TypeError: f depends on tensors that are hidden in a function.
        """
        solver, x = self.solver, problem.x
        entries = problem.entries.sum().clamp(min=1)
        augmented = AugmentedField(problem, solver)
        if isinstance(solver, Adaptive):
            intervals, tolerances = 1, {"rtol": solver.rtol, "atol": solver.atol}
        else:
            intervals, tolerances = solver.steps, {}
        states, integrals = odeint_adjoint(
            augmented,
            (x, x.new_zeros(x.size(-1))),
            torch.linspace(0, problem.final_time, intervals + 1, device=x.device),
            method=solver.method,
            options={"norm": lambda state: (state[0].square().sum() / entries).sqrt()},
            adjoint_params=differentiable_tensors(problem.f),
            **tolerances,
        )
        check_finite(problem, states[-1])
        counts = {name: torch.full_like(integrals[-1], n) for name, n in augmented.counts.items()}
        return Solution(states[-1], integrals[-1], counts)


class AugmentedField:
    """dX/dt and the integrand as torchdiffeq's vector field of the augmented state.

    torchdiffeq calls the attributes ``callback_*`` at each adaptive step.

    Attributes:
        counts: statistics of a :class:`Solution`.
    """

    def __init__(self, problem: Problem, solver: FixedGrid | Adaptive):
        self.problem, self.counts = problem, {"nfe": 0}
        if isinstance(solver, Adaptive):
            backwards = problem._replace(name=f"{problem.name}, backwards")
            self.counts.update(accepted=0, rejected=0)
            self.callback_accept_step = lambda *step: self.count("accepted")
            self.callback_reject_step = lambda *step: self.count("rejected")
            self.callback_step = limit(solver, problem)
            self.callback_step_adjoint = limit(solver, backwards)

    def __call__(self, t: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        self.count("nfe")
        x, integral = state
        slope = self.problem.f(t, x)
        if self.problem.integrand:
            return slope, self.problem.integrand(t, x, slope)
        return slope, torch.zeros_like(integral)

    def count(self, name: str) -> None:
        self.counts[name] += 1


def limit(solver: Adaptive, problem: Problem) -> Callable:
    """Make a callback for torchdiffeq that checks each step and stops an endless solve."""
    steps = count()

    def callback(t: Tensor, state: tuple[Tensor, ...], h: Tensor) -> None:
        earlier, running = torch.tensor([next(steps)]), torch.tensor([True])
        t, h = t.cpu().view(1), h.cpu().view(1)
        solver.check_step(problem, t, h, earlier, running)

    return callback


def differentiable_tensors(f: VectorField) -> list[Tensor]:
    """Find the tensors with gradients in *f*, a module or a NamedTuple of tensors and modules.

    Raises:
        TypeError: *f* contains a function, so that its tensors cannot be found.
    """
    tensors = []
    for leaf in tree_leaves(f):
        if isinstance(leaf, nn.Module):
            tensors += leaf.parameters()
        elif callable(leaf):
            raise TypeError(
                f"the adjoint method: gradients do not reach the tensors inside of {leaf!r}; make "
                "the vector field a NamedTuple of all tensors that dX/dt depends on"
            )
        elif isinstance(leaf, Tensor):
            tensors.append(leaf)
    return [tensor for tensor in tensors if tensor.requires_grad]
