"""Vector fields and blocks of the N-ODE Transformer against the paper's formulas."""

from functools import partial

import pytest
import torch
from helpers import assert_same_gradients, layer_norm

from fairseq_odeformers.models.node_transformer import layout, naive
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.field import TransformerField
from fairseq_odeformers.models.node_transformer.layout import (
    Affine,
    TimeDependentLinear,
    features_first,
    tokens_first,
)
from fairseq_odeformers.models.node_transformer.solver import Adaptive
from fairseq_odeformers.models.node_transformer.spec import BlockSpec

C, H, INNER = 6, 3, 5
PRECISE = dict(rtol=1e-7, atol=1e-7)
VARIANTS = [
    dict(),
    dict(skip_connection=True),
    dict(time_dependent_attention=True),
    dict(vector_field="residual", time_dependent_attention=True),
]
NORMALIZED = [
    dict(skip_connection=True, normalize_before=True),
    dict(vector_field="residual", normalize_before=True, time_dependent_attention=True),
]


def make_field(decoder=False, **options):
    torch.manual_seed(0)
    field = TransformerField(BlockSpec(C, H, INNER, **options), decoder)
    for parameter in field.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return field


def affine(*maps):
    return [naive.Affine(linear.weight, linear.bias, linear.time) for linear in maps]


def formula(field, mask=None, source=None, source_mask=None):
    """dX/dt as a function of t and X (B, T, C).

    The paper has neither LayerNorm nor a decoder, which is a field whose FFN is preceded by
    cross-attention.
    """
    if field.spec.residual:
        form = naive.residual
    else:
        form = naive.composed_with_skip if field.spec.skip_connection else naive.composed
    norms = [partial(layer_norm, norm) for norm in field.layer_norms]

    def attention(module, t, x, source, mask):
        maps = affine(module.q, module.k, module.v, module.out)
        return naive.attention(maps, H, t, x, source, mask)

    def mhsa(t, x):
        return attention(field.self_attn, t, x, x, mask)

    def cross(t, x):
        return attention(field.encoder_attn, t, x, source, source_mask)

    def ffn(t, x):
        return naive.feed_forward(affine(field.fc1, field.fc2), t, x)

    if norms and field.spec.residual and source is None:
        return partial(naive.normalised_residual, ffn, mhsa, norms)
    if norms:
        mhsa, ffn = normalised(mhsa, norms[0]), normalised(ffn, norms[-1])
        cross = normalised(cross, norms[1])
    return partial(form, ffn if source is None else partial(form, ffn, cross), mhsa)


def normalised(part, norm):
    return lambda t, x: part(t, norm(x))


def padded(*lengths):
    """States (B, T, C) and the mask of their padding (B, T)."""
    padding = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    return torch.randn(*padding.shape, C).requires_grad_(), padding


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("options", VARIANTS + NORMALIZED)
@pytest.mark.parametrize("decoder", [False, True])
def test_field_equals_the_formula(float64, monkeypatch, decoder, options, few):
    """Outputs and gradients agree at all tokens but padding, by both ways to compute attention."""
    monkeypatch.setattr(layout, "FEW_KEY_ELEMENTS", few)
    field = make_field(decoder=decoder, **options)
    x, padding = padded(4, 3, 1)
    inputs, mask, batch = [x, *field.parameters()], padding[:, None, None], {}
    if decoder:
        source, source_padding = padded(2, 5, 4)
        inputs.append(source)
        batch = dict(source=source.transpose(0, 1), source_padding_mask=source_padding, causal=True)
        mask = mask | torch.ones(4, 4, dtype=bool).triu(1)
        expected = formula(field, mask, source, source_padding[:, None, None])(0.3, x)
    else:
        expected = formula(field, mask)(0.3, x)
    state = features_first(x.transpose(0, 1))
    out = tokens_first(field.bind(state, padding, **batch)(0.3, state)).transpose(0, 1)
    assert not out[padding].any()
    assert_same_gradients(out[~padding], expected[~padding], inputs)


@pytest.mark.parametrize("options", VARIANTS[1::2])
def test_block_solves_the_formula(float64, options):
    """Each sequence of a batch has the formula's state at T_F and arclength until then.

    It holds for the steps of the batch and of each sequence.
    """
    field = make_field(**options)
    torch.nn.init.constant_(field.fc1.bias, 9)  # ReLUs change no sign, so that dX/dt is smooth
    lengths = (5, 2)
    states, padding = padded(*lengths)
    states = states.detach() / 2 * ~padding.unsqueeze(-1)
    results = [
        NodeBlock(field, Adaptive(**PRECISE, per_sequence=per_sequence), final_time=0.5)(
            states.transpose(0, 1), padding
        )
        for per_sequence in (False, True)
    ]
    for index, length in enumerate(lengths):
        x = states[index, :length]
        end = naive.solve(formula(field), x, 0.5, **PRECISE)
        arclength = naive.arclength(formula(field), x, 0.5, **PRECISE).item()
        for out, solution in results:
            assert (out[:length, index] - end).abs().max() < 1e-5
            assert solution.integral[index].item() == pytest.approx(arclength, rel=1e-4)


@pytest.mark.parametrize("time_dependent", [False, True])
def test_joined_affine_maps_equal_single_ones(float64, time_dependent):
    """One map or several are applied to the same states at once, with a time for each sequence."""
    maps = [TimeDependentLinear(C, INNER, time_dependent) for _ in range(2)]
    x, t = torch.randn(4, 3, C), torch.tensor([0.0, 0.4, 1.0])
    expected = torch.cat([linear(t.unsqueeze(1), x) for linear in affine(*maps)], -1)
    apart = torch.cat([linear(t, features_first(x)) for linear in maps])
    for out in (Affine.join(*maps)(t, features_first(x)), apart):
        assert (tokens_first(out) - expected).abs().max() < 1e-12
