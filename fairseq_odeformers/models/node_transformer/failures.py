"""Stops a solve that cannot reach its end, with a message that names an option that helps."""

import torch
from torch import Tensor

from .problem import Problem

SMALLER_RATE = "give a smaller learning rate"
MORE_STEPS = (
    "give more with --ode-max-steps, a larger --ode-rtol and --ode-atol, a smaller learning rate "
    "or, to keep trajectories simple, an --arclength-weight"
)


def check_finite(problem: Problem, end: Tensor) -> None:
    """Raise a RuntimeError if X(T_F) is not finite; compiled code has no such branch."""
    compiled = end.device.type == "xla" or torch.compiler.is_compiling()
    if not compiled and not end.isfinite().all():
        raise RuntimeError(
            f"{problem.name}, at t = {problem.final_time:g}: the state is not finite; "
            f"{SMALLER_RATE}"
        )
