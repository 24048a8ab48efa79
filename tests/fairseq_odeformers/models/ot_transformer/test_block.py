"""The flow against the paper's equations, and its steps against the solution of the ODE."""

import math

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer.transformer_config import DecoderConfig, EncDecBaseConfig
from helpers import assert_same_gradients, sub_layers
from torch import nn

from fairseq_odeformers.criterions.arclength import discrete_arclength
from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.ode_transformer.naive import layer as transformer_layer
from fairseq_odeformers.models.ot_transformer import naive
from fairseq_odeformers.models.ot_transformer.block import FlowBlock, FlowDecoderBlock
from fairseq_odeformers.models.ot_transformer.layer import FieldDecoderLayer, FieldEncoderLayer
from fairseq_odeformers.models.ot_transformer.spec import FlowSpec
from fairseq_odeformers.modules.tableaus import FIXED_GRID

C, H, INNER, L, T, M = 8, 2, 12, 3, 5, 4
FIELDS = {"released": naive.released_field, "textbook": naive.textbook_field}


def make_block(cls=FlowBlock, **options):
    torch.manual_seed(0)
    sizes = dict(embed_dim=C, ffn_embed_dim=INNER, attention_heads=H, normalize_before=True)
    cfg = TransformerConfig(
        encoder=EncDecBaseConfig(**sizes), decoder=DecoderConfig(**sizes), dropout=0.0
    )
    spec = FlowSpec(C, **{"ode_steps": M, **options})
    decoder = cls is FlowDecoderBlock
    layer_class, without_encoder = (
        (FieldDecoderLayer, [True]) if decoder else (FieldEncoderLayer, [])
    )
    layers = nn.ModuleList(layer_class(cfg, spec, *without_encoder) for _ in range(L))
    block = cls(layers, spec)
    for parameter in block.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.2)
    return block


def run(block, x):
    """x_M (T, 1, C) of x_0, with a decoder's mask."""
    if isinstance(block, FlowDecoderBlock):
        return block(x, self_attn_mask=torch.full((T, T), -math.inf).triu(1))[0]
    return block(x, encoder_padding_mask=None)


def formula(block, field):
    """f as a function of a state (T, C), by the paper's equations."""
    make_ffn, make_attention = sub_layers(H)
    causal = isinstance(block, FlowDecoderBlock)

    def plain(part, norm):
        return (part[0], nn.Identity()) if isinstance(norm, nn.Identity) else part

    layers = []
    for layer in block.layers:
        norms = layer.self_attn_layer_norm, layer.final_layer_norm
        real = [nn.LayerNorm(C) if isinstance(norm, nn.Identity) else norm for norm in norms]
        attention = plain(make_attention(layer.self_attn, real[0], causal=causal), norms[0])
        ffn = plain(make_ffn(layer.fc1, layer.fc2, real[1]), norms[1])
        layers.append(lambda x, attention=attention, ffn=ffn: transformer_layer(x, attention, ffn))
    return lambda x: FIELDS[field](x, layers, block.field_layer_norm)


@pytest.mark.parametrize("layer_norm", [True, False])
@pytest.mark.parametrize("final_norm", ["field", "none"])
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("cls", [FlowBlock, FlowDecoderBlock])
def test_block_equals_the_formula(float64, cls, field, final_norm, layer_norm):
    """The output and the gradients of the input and all parameters equal the formula's.

    fairseq's causal attention computes its softmax in float32, whatever the input.
    """
    block = make_block(cls, ode_field=field, final_norm=final_norm, layer_norm=layer_norm)
    assert any(isinstance(m, nn.LayerNorm) for m in block.layers.modules()) == layer_norm
    x = torch.randn(T, 1, C, requires_grad=True)
    theirs = naive.flow(x[:, 0], formula(block, field), M)[-1]
    tolerance = 1e-5 if cls is FlowDecoderBlock else 1e-9
    assert_same_gradients(run(block, x)[:, 0], theirs, [x, *block.parameters()], tolerance)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("steps", [1, 4])
def test_arclength_is_the_papers_regulariser_times_half_the_width(float64, field, steps):
    """Per token, the paper takes a mean over the features and this package half the sum."""
    block = make_block(ode_field=field, ode_steps=steps, final_norm="none")
    x = torch.randn(T, 1, C)
    with record_calls(block.state_modules()) as calls:
        run(block, x)
    states = [x, *(call.output for call in calls)]
    assert len(states) == steps + 1
    ours = discrete_arclength(states, torch.ones(1, T).bool())
    theirs = naive.regulariser(x[:, 0], formula(block, field), steps)
    assert torch.allclose(ours, C / 2 * theirs, rtol=1e-9)


def test_a_norm_of_the_field_makes_the_regulariser_constant(float64):
    """Until its gain has learned, a step costs C/2 whatever the layers compute."""
    for scale in (0.1, 1, 10):
        block = make_block()
        nn.init.ones_(block.field_layer_norm.weight)
        nn.init.zeros_(block.field_layer_norm.bias)
        x = scale * torch.randn(T, 1, C)
        with record_calls(block.state_modules()) as calls:
            run(block, x)
        states = [x, *(call.output for call in calls)]
        arclength = discrete_arclength(states, torch.ones(1, T).bool())
        assert arclength.item() == pytest.approx(C / 2, rel=1e-2)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("method", FIXED_GRID)
def test_steps_converge_with_the_order_of_their_method(float64, method, field):
    """Half the step size divides the error by 2 to the power of the order."""
    order, x = FIXED_GRID[method].order, 3 * torch.randn(T, 1, C)

    def end(steps, method=method):
        block = make_block(ode_method=method, ode_steps=steps, ode_field=field, final_norm="none")
        for layer in block.layers:  # whose relu would cost the higher orders
            layer.activation_fn = torch.tanh
        return run(block, x)

    with torch.no_grad():
        exact = end(200, "rk4")
        errors = [(end(steps) - exact).norm() for steps in (16, 32, 64)]
    for coarse, fine in zip(errors, errors[1:]):
        assert math.log2(coarse / fine) == pytest.approx(order, abs=0.3)


def test_a_stack_that_adds_nothing_grows_only_in_the_released_form():
    """The authors' code gives x_M = (1 + 1/M)^M x_0, and the paper's equations give x_M = x_0."""
    x = torch.randn(T, 1, C)
    for field, factor in (("released", (1 + 1 / M) ** M), ("textbook", 1)):
        block = make_block(ode_field=field, final_norm="none")
        for layer in block.layers:
            for linear in (layer.self_attn.out_proj, layer.fc2):
                nn.init.zeros_(linear.weight)
                nn.init.zeros_(linear.bias)
        assert torch.allclose(run(block, x), factor * x, atol=1e-6)
