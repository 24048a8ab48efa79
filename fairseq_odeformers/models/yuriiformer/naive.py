"""YuriiFormer and TMMFormer as equations, for reading.

This module contains the step of Zimin et al. (2026) and Gai et al. (2026) as a function of tensors,
over the sub-layers in ``common.naive``, following the second paper's code. Tests compare the layers
with it. A state is one sequence (T, d), without padding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_odeformers.models.common.naive import Function


class Step(NamedTuple):
    """The parts of a step.

    Attributes:
        oracle: O, attention or an FFN; in an optimizer, the negative gradient.
        norm: LN for the input of the oracle.
        velocity_norm: LN_v.
        mu, beta, gamma, nu: scalars.
    """

    oracle: Function
    norm: Function
    velocity_norm: Function
    mu: Tensor | float
    beta: Tensor | float
    gamma: Tensor | float
    nu: Tensor | float = 1.0


def take(step: Step, x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """x' = x + nu v' and v' = LN_v(beta v + gamma O(LN(x + mu v))): (T, d)."""
    g = step.oracle(step.norm(x + step.mu * v))
    v = step.velocity_norm(step.beta * v + step.gamma * g)
    return x + step.nu * v, v


def stack(steps: Sequence[Step], x: Tensor, v: Tensor, norm: Function) -> Tensor:
    """All layers of a model, then the final LayerNorm: (T, d).

    A layer of an encoder or a language model has two steps: attention and FFN. A layer of a
    translator's decoder has three: causal self-attention, cross-attention and FFN. The velocity
    passes through all steps and ends with the stack.

    Args:
        v: initial velocity: zero, or a separate embedding of tokens and positions.
    """
    for step in steps:
        x, v = take(step, x, v)
    return norm(x)


def nesterov(gradient: Function, y: Tensor, momentum: float, size: float, steps: int) -> Tensor:
    """The iterates of Nesterov's method in textbook form, from y at rest: (steps + 1, ...).

    x_k = y_k + momentum (y_k - y_(k-1)); y_(k+1) = x_k - size grad f(x_k).
    """
    iterates = [y, y]
    for _ in range(steps):
        x = iterates[-1] + momentum * (iterates[-1] - iterates[-2])
        iterates.append(x - size * gradient(x))
    return torch.stack(iterates[1:])
