"""Runge-Kutta blocks against the paper's equations, and against a flow that is known."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from helpers import assert_same_gradients, sub_layers

from fairseq_odeformers.models.common.runge_kutta import hand_over
from fairseq_odeformers.models.ode_transformer import naive
from fairseq_odeformers.models.ode_transformer.layer import (
    RungeKuttaDecoderLayer,
    RungeKuttaEncoderLayer,
)
from fairseq_odeformers.models.ode_transformer.spec import BlockSpec
from fairseq_odeformers.modules.coefficients import make_coefficients
from fairseq_odeformers.modules.transformer_layer import EncoderLayer

C, H, INNER = 8, 2, 12
FORMS = [(1, "fixed"), (2, "fixed"), (2, "learned"), (2, "gated"), (3, "fixed"), (4, "fixed")]


def make_layer(cls, order, form="fixed", field="textbook"):
    torch.manual_seed(0)
    sizes = dict(embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=True)
    cfg = TransformerConfig(
        encoder=EncDecBaseConfig(**sizes), decoder=DecoderConfig(**sizes), dropout=0.0
    )
    spec = BlockSpec(C, rk_order=order, rk_field=field)
    layer = cls(cfg, spec, *[True] * (cls is RungeKuttaDecoderLayer))  # without an encoder
    layer.coefficients = make_coefficients(order, form, C)
    hand_over(layer, ["coefficients"], [layer])
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return layer


def formula(layer, x, form, causal):
    """The block by the paper's equations, from and to (T, C)."""
    ffn, attention = sub_layers(H)
    parts = (
        attention(layer.self_attn, layer.self_attn_layer_norm, causal=causal),
        ffn(layer.fc1, layer.fc2, layer.final_layer_norm),
    )
    field = naive.released_vector_field if layer.released else naive.vector_field
    f = lambda y: field(y, *parts)  # noqa: E731
    if form == "learned":
        return naive.rk2_block_learned(x, f, layer.coefficients.gamma)
    if form == "gated":
        gate = layer.coefficients.gate
        return naive.rk2_block_gated(x, f, gate.weight.T, gate.bias)
    blocks = [naive.rk1_block, naive.rk2_block, naive.rk3_block, naive.rk4_block]
    return blocks[len(layer.matrix)](x, f)


@pytest.mark.parametrize("field", ["textbook", "released"])
@pytest.mark.parametrize("order, form", FORMS)
@pytest.mark.parametrize("cls", [RungeKuttaEncoderLayer, RungeKuttaDecoderLayer])
def test_block_equals_the_formula(float64, cls, order, form, field):
    """The output and the gradients of the input, parameters and coefficients equal the formula's.

    fairseq's causal attention computes its softmax in float32, whatever the input.
    """
    layer = make_layer(cls, order, form, field)
    x = torch.randn(5, 1, C, requires_grad=True)
    causal = cls is RungeKuttaDecoderLayer
    if causal:
        ours, _, _ = layer(x, self_attn_mask=torch.full((5, 5), -math.inf).triu(1))
    else:
        ours = layer(x, None)
    inputs = [x, *layer.parameters()]
    theirs = formula(layer, x[:, 0], form, causal)
    assert_same_gradients(ours[:, 0], theirs, inputs, 1e-6 if causal else 1e-9)


class KnownFlow(EncoderLayer):
    """An Euler step of a known field, in the place of the layer."""

    def forward(self, y, *args):
        return y + self.size * (1 + y**2).sqrt() * (y.arcsinh() @ self.flow)


class KnownBlock(RungeKuttaEncoderLayer, KnownFlow):
    pass


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_error_falls_with_the_order(float64, order):
    """The error over a unit of time is of size h^order for a smooth field whose flow is known.

    If z' = A z, then y = sinh z has the field sqrt(1 + y^2) A arcsinh(y), which is not linear.
    """
    layer, flow = make_layer(KnownBlock, order), torch.randn(C, C) / C
    layer.flow, start = flow, torch.randn(3, 1, C)
    end = (start.arcsinh() @ torch.linalg.matrix_exp(flow)).sinh()
    errors = []
    for steps in (32, 64):
        y, layer.size = start, 1 / steps
        for _ in range(steps):
            y = layer(y, None)
        errors.append((y - end).norm().item())
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


@pytest.mark.parametrize("order, form", FORMS)
def test_released_slopes_multiply_the_state(float64, order, form):
    """If the layers add nothing, a block multiplies by e's Taylor polynomial, except for gamma."""
    layer = make_layer(RungeKuttaEncoderLayer, order, form, field="released")
    for parameter in layer.parameters():
        parameter.data.zero_()
    if form == "learned":
        layer.coefficients.gamma.data.fill_(1 / 2)
    factor = sum(1 / math.factorial(n) for n in range(order + 1))
    x = torch.randn(5, 2, C)
    assert torch.allclose(layer(x, None), factor * x)
