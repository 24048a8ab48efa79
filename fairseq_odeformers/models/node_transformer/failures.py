"""Stops a solve that cannot reach its end, with a message that names an option that helps."""

import torch
from torch import Tensor

from .problem import Problem

SMALLER_RATE = "give a smaller learning rate"
MORE_STEPS = (
    "give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a smaller learning rate "
    "or, to keep trajectories simple, an --arclength-weight"
)


def check_step(
    problem: Problem,
    t: Tensor,
    h: Tensor,
    steps: Tensor,
    running: Tensor,
    max_steps: int,
    per_sequence: bool,
) -> None:
    """Check an adaptive step from t to t + h before it is taken.

    Args:
        t, h: its time and size, of the batch (1) or of each sequence (B), on the CPU.
        steps: the numbers of steps before it.
        running: where a step is to be taken.
        max_steps: the most steps of a solve.
        per_sequence: whether each sequence has its own steps.

    Raises:
        RuntimeError: *max_steps* are taken already, or h is too small for a float.
    """
    stuck = running & ~(t + h > t)
    excessive = running & (steps >= max_steps)
    if not (stuck | excessive).any():
        return
    index = int((excessive if excessive.any() else stuck).nonzero()[0])
    where = f"{problem.name}, step {int(steps[index]) + 1:,} at t = {float(t[index]):.6g}"
    if per_sequence:
        where = f"{where} of sequence {index}"
    where = f"{where} of {problem.final_time:g}"
    if excessive.any():
        raise RuntimeError(f"{where}: a solve may take {max_steps:,} steps; {MORE_STEPS}")
    raise RuntimeError(
        f"{where}: the state or its slope is not finite, or changes too fast for any step; "
        f"{SMALLER_RATE}"
    )


def check_finite(problem: Problem, end: Tensor) -> None:
    """Raise a RuntimeError if X(T_F) is not finite; compiled code has no such branch."""
    compiled = end.device.type == "xla" or torch.compiler.is_compiling()
    if not compiled and not end.isfinite().all():
        raise RuntimeError(
            f"{problem.name}, at t = {problem.final_time:g}: the state is not finite; "
            f"{SMALLER_RATE}"
        )
