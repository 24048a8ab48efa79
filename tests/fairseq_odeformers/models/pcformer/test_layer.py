"""Layers that predict and correct against the paper's equations."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from helpers import assert_same_gradients, sub_layers
from torch import nn

from fairseq_odeformers.models.common.runge_kutta import hand_over
from fairseq_odeformers.models.ode_transformer import naive as ode
from fairseq_odeformers.models.pcformer import naive
from fairseq_odeformers.models.pcformer.layer import (
    PredictorCorrectorDecoderLayer,
    PredictorCorrectorEncoderLayer,
    PredictorCorrectorHistory,
    StageNorms,
)
from fairseq_odeformers.models.pcformer.spec import LayerSpec
from fairseq_odeformers.modules.coefficients import ExponentialCoefficients

C, H, INNER, L = 8, 2, 12, 3


def make_history(cls, order, field, norms):
    torch.manual_seed(0)
    sizes = dict(embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=True)
    cfg = TransformerConfig(
        encoder=EncDecBaseConfig(**sizes), decoder=DecoderConfig(**sizes), dropout=0.0
    )
    spec = LayerSpec(C, rk_order=order, rk_field=field, **dict.fromkeys(norms.split(), True))
    without_encoder = [True] * (cls is PredictorCorrectorDecoderLayer)
    history = PredictorCorrectorHistory(
        nn.ModuleList(cls(cfg, spec, *without_encoder) for _ in range(L)), C
    )
    history.norms, history.coefficients = StageNorms(spec), ExponentialCoefficients()
    hand_over(history, ["norms", "coefficients"], history.depths)
    for parameter in history.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return history


def formula(history, x, order, field, causal):
    """The layers by the paper's equations, from and to (T, C)."""
    make_ffn, make_attention = sub_layers(H)
    states, y, norms = [x], x, history.norms
    stages = naive.rk2_stages if order == 2 else naive.rk4_stages
    rk_norms = (norms.residual, norms.stages)
    if norms.early:
        normalised = naive.normalised_rk2_stages if order == 2 else naive.normalised_rk4_stages
        stages = lambda y, base, f: normalised(y, f, norms.stages)  # noqa: E731
        rk_norms = (nn.Identity(), [nn.Identity()] * order)
    for index, layer in enumerate(history.depths):
        parts = (
            make_attention(layer.self_attn, layer.self_attn_layer_norm, causal=causal),
            make_ffn(layer.fc1, layer.fc2, layer.final_layer_norm),
        )
        slope = ode.released_vector_field if field == "released" else ode.vector_field
        y, states = naive.layer(
            y,
            states,
            lambda y, parts=parts, slope=slope: slope(y, *parts),
            stages,
            history.coefficients.alpha,
            (history.correctors[index].weight, history.combinations[index].weight),
            (layer.prediction_layer_norm, history.output_layer_norms[index]),
            rk_norms,
        )
    return y


@pytest.mark.parametrize("norms", ["", "rk_norm", "rk_norm_slopes"])
@pytest.mark.parametrize("field", ["textbook", "released"])
@pytest.mark.parametrize("order", [2, 4])
@pytest.mark.parametrize("cls", [PredictorCorrectorEncoderLayer, PredictorCorrectorDecoderLayer])
def test_layers_equal_the_formula(float64, cls, order, field, norms):
    """The output and the gradients of the input, parameters, alpha and both w equal the formula's.

    fairseq's causal attention computes its softmax in float32, whatever the input.
    """
    history = make_history(cls, order, field, norms)
    x = torch.randn(5, 1, C, requires_grad=True)
    causal = cls is PredictorCorrectorDecoderLayer
    if causal:
        ours, _, _ = history(x, self_attn_mask=torch.full((5, 5), -math.inf).triu(1))
    else:
        ours = history(x, encoder_padding_mask=None)
    theirs = formula(history, x[:, 0], order, field, causal)
    inputs = [x, *history.parameters()]
    assert_same_gradients(ours[:, 0], theirs, inputs, 1e-6 if causal else 1e-9)


@pytest.mark.parametrize("order", [2, 4])
def test_initial_weights_of_a_prediction_are_powers_of_a_half(order):
    """From the last slope they are 1/2, 1/4, ... for the initial alpha, and sum to 1 - 2^-s."""
    slopes = torch.eye(order)
    weights = ExponentialCoefficients()(slopes)
    assert weights.tolist() == [2.0 ** (n - order) for n in range(order)]
    assert weights.sum() == 1 - 0.5**order
