"""The ODE Transformer as its paper writes it, for reading.

This module contains the equations of Li et al. (2022) as functions of tensors, over the sub-layers
in ``common.naive``. Tests compare the layers with these functions. A state is one sequence (T, d),
without padding; each block maps it to a state of the same shape.

A vector field is a function F from states to slopes. In the paper, F is the change that a
Transformer layer adds to its input; in the authors' code, F is the output of the layer.
"""

import torch
from torch import Tensor

from fairseq_odeformers.models.common.naive import Function, SubLayer

# --- blocks (section 3) ----------------------------------------------------


def rk1_block(y: Tensor, f: Function) -> Tensor:
    """y + F(y): Euler's method, a Transformer layer."""
    return y + f(y)


def rk2_block(y: Tensor, f: Function) -> Tensor:
    """y + (F_1 + F_2) / 2: Heun's method, called the improved Euler method."""
    f1 = f(y)
    f2 = f(y + f1)
    return y + (f1 + f2) / 2


def rk2_block_learned(y: Tensor, f: Function, b: Tensor) -> Tensor:
    """y + b_1 F_1 + b_2 F_2 with two learned numbers b that start at 1."""
    f1 = f(y)
    f2 = f(y + f1)
    return y + b[0] * f1 + b[1] * f2


def rk2_block_gated(y: Tensor, f: Function, w: Tensor, c: Tensor) -> Tensor:
    """y + g F_1 + (1 - g) F_2 with g = sigmoid([F_1 | F_2] W + c): W is (2d, 1), g is (T, 1)."""
    f1 = f(y)
    f2 = f(y + f1)
    g = torch.sigmoid(torch.cat([f1, f2], -1) @ w + c)
    return y + g * f1 + (1 - g) * f2


def rk3_block(y: Tensor, f: Function) -> Tensor:
    """y + (F_1 + 4 F_2 + F_3) / 6: Kutta's method of order 3."""
    f1 = f(y)
    f2 = f(y + f1 / 2)
    f3 = f(y - f1 + 2 * f2)
    return y + (f1 + 4 * f2 + f3) / 6


def rk4_block(y: Tensor, f: Function) -> Tensor:
    """y + (F_1 + 2 F_2 + 2 F_3 + F_4) / 6: the classical method of Runge and Kutta."""
    f1 = f(y)
    f2 = f(y + f1 / 2)
    f3 = f(y + f2 / 2)
    f4 = f(y + f3)
    return y + (f1 + 2 * f2 + 2 * f3 + f4) / 6


# --- vector fields ---------------------------------------------------------


def layer(y: Tensor, attention: SubLayer, ffn: SubLayer) -> Tensor:
    """A Transformer layer: x + F(LN(x)) for attention and then FFN, both as pairs (F, LN)."""
    for f, norm in (attention, ffn):
        y = y + f(norm(y))
    return y


def vector_field(y: Tensor, attention: SubLayer, ffn: SubLayer) -> Tensor:
    """F in the paper: the change that a layer adds to its input."""
    return layer(y, attention, ffn) - y


def released_vector_field(y: Tensor, attention: SubLayer, ffn: SubLayer) -> Tensor:
    """F in the authors' code: the output of a layer, including its input."""
    return layer(y, attention, ffn)
