"""OT-Transformer as its paper writes it, for reading.

This module contains the equations of Kan et al. (2025) as functions of tensors, over the layers in
the ODE Transformer's ``naive`` file or any others. Tests compare the block with these functions. A
state is one sequence (T, C), without padding.
"""

from collections.abc import Sequence

from torch import Tensor

from fairseq_odeformers.models.common.naive import Function


def stack(x: Tensor, layers: Sequence[Function]) -> Tensor:
    """layer_L(... layer_1(x)), a Transformer without its last LayerNorm: (T, C)."""
    for layer in layers:
        x = layer(x)
    return x


def released_field(x: Tensor, layers: Sequence[Function], norm: Function) -> Tensor:
    """F(x) in the authors' code, with the layers' residual connections inside of F: (T, C)."""
    return norm(stack(x, layers))


def textbook_field(x: Tensor, layers: Sequence[Function], norm: Function) -> Tensor:
    """F(x) with the residual connection outside F: (T, C).

    One step is the Transformer if *norm* is the identity and a LayerNorm follows the last state.
    """
    return norm(stack(x, layers) - x)


def flow(x: Tensor, f: Function, steps: int) -> list[Tensor]:
    """x_0, ..., x_M by Euler's method from t = 0 to 1, each (T, C)."""
    states = [x]
    for _ in range(steps):
        states.append(states[-1] + f(states[-1]) / steps)
    return states


def regulariser(x: Tensor, f: Function, steps: int) -> Tensor:
    """The sum over m of dt times the mean over the entries of F(x_m)^2, as in the code: ()."""
    return sum((f(state).square().mean() for state in flow(x, f, steps)[:-1]), 0 * x.sum()) / steps
