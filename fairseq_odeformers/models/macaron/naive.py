"""Macaron Net as its paper writes it, for reading.

This module contains the equations of Lu et al. (2019) as functions of tensors, in the paper's
order, over the sub-layers in ``common.naive``: attention (Eqs. 3 and 4) and FFN (section 2.2). The
paper divides attention scores by sqrt(d); its code, like every Transformer, divides by the square
root of the width of a head. Tests compare the layers with these functions.

The paper's equations have no LayerNorm; its code has one in each sub-layer. A sub-layer here is a
pair (F, LN). LN precedes F or, with ``pre_norm=False``, follows the residual connection.
"""

from torch import Tensor

from fairseq_odeformers.models.common.naive import Function, SubLayer


def residual_step(x: Tensor, size: float, f: Function, norm: Function, pre_norm: bool) -> Tensor:
    """x + size F(LN(x)) or, post-norm, LN(x + size F(x)): (T, d)."""
    return x + size * f(norm(x)) if pre_norm else norm(x + size * f(x))


def encoder_layer(
    x: Tensor, ffn_down: SubLayer, attention: SubLayer, ffn_up: SubLayer, pre_norm: bool = True
) -> Tensor:
    """Half a step of an FFN, attention, and half a step of another FFN: (T, d)."""
    x = residual_step(x, 1 / 2, *ffn_down, pre_norm)  # Eq. 17
    x = residual_step(x, 1, *attention, pre_norm)  # Eq. 18
    return residual_step(x, 1 / 2, *ffn_up, pre_norm)  # Eq. 19


def decoder_layer(
    x: Tensor,
    ffn_down: SubLayer,
    self_attention: SubLayer,
    source_attention: SubLayer,
    ffn_up: SubLayer,
    pre_norm: bool = True,
) -> Tensor:
    """An encoder layer with causal attention, then cross-attention (sec. 4.1): (T, d)."""
    x = residual_step(x, 1 / 2, *ffn_down, pre_norm)
    x = residual_step(x, 1, *self_attention, pre_norm)
    x = residual_step(x, 1, *source_attention, pre_norm)
    return residual_step(x, 1 / 2, *ffn_up, pre_norm)
