"""PCformer as its paper writes it, for reading.

This module contains the equations of Li et al. (2024) as functions of tensors. Tests compare the
layers with these functions. A state is one sequence (T, d), without padding. F is a function from
states to slopes: the change that a Transformer layer adds to its input or, in the authors' code,
the output of the layer.
"""

from collections.abc import Callable, Sequence

from torch import Tensor

Function = Callable[[Tensor], Tensor]


def rk2_stages(y: Tensor, base: Tensor, f: Function) -> list[Tensor]:
    """F_1 = F(y), F_2 = F(base + F_1); base is y, or LN(y)."""
    f1 = f(y)
    return [f1, f(base + f1)]


def rk4_stages(y: Tensor, base: Tensor, f: Function) -> list[Tensor]:
    """F_1 = F(y), F_2 = F(base + F_1 / 2), F_3 = F(base + F_2 / 2), F_4 = F(base + F_3)."""
    f1 = f(y)
    f2 = f(base + f1 / 2)
    f3 = f(base + f2 / 2)
    return [f1, f2, f3, f(base + f3)]


def normalised_rk2_stages(y: Tensor, f: Function, norms: Sequence[Function]) -> list[Tensor]:
    """G_1 = LN_1(F(y)), G_2 = LN_2(F(y + G_1)), in the authors' language model."""
    g1 = norms[0](f(y))
    return [g1, norms[1](f(y + g1))]


def normalised_rk4_stages(y: Tensor, f: Function, norms: Sequence[Function]) -> list[Tensor]:
    """G_1, ..., G_4 of order 4: each stage reads the normalised slope of the previous stage."""
    g1 = norms[0](f(y))
    g2 = norms[1](f(y + g1 / 2))
    g3 = norms[2](f(y + g2 / 2))
    return [g1, g2, g3, norms[3](f(y + g3))]


def predict(base: Tensor, stages: Sequence[Tensor], alpha: Tensor) -> Tensor:
    """P = base + sum_j alpha (1 - alpha)^(s-j) F_j, for j = 1, ..., s."""
    s = len(stages)
    for j, stage in enumerate(stages, start=1):
        base = base + alpha * (1 - alpha) ** (s - j) * stage
    return base


def combine(weights: Sequence[Tensor], states: Sequence[Tensor]) -> Tensor:
    """w_0 h_0 + w_1 h_1 + ..."""
    return sum((w * h for w, h in zip(weights, states)), 0 * states[0])


def layer(
    y: Tensor,
    history: list[Tensor],
    f: Function,
    stages: Callable[[Tensor, Tensor, Function], list[Tensor]],
    alpha: Tensor,
    weights: tuple[Sequence[Tensor], Sequence[Tensor]],
    norms: tuple[Function, Function],
    rk_norms: tuple[Function, Sequence[Function]],
) -> tuple[Tensor, list[Tensor]]:
    """y_(k+1), and the history with h_k.

    Args:
        history: h_0, ..., h_(k-1); h_0 is the embedding and equals y_1.
        stages: :func:`rk2_stages` or :func:`rk4_stages`.
        weights: rows k of w and w', each of k + 1 numbers.
        norms: LN_k of the prediction, and LN'_k of the correction.
        rk_norms: optional LayerNorms of the residual term and of each stage, for all layers.
    """
    residual_norm, stage_norms = rk_norms
    base = residual_norm(y)
    slopes = stages(y, base, f)
    prediction = predict(base, [norm(s) for norm, s in zip(stage_norms, slopes)], alpha)
    z = combine(weights[0], [*history, norms[0](prediction)])
    history = [*history, norms[1](f(z))]
    return combine(weights[1], history), history
