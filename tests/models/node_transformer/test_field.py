"""The vector fields of the N-ODE Transformer: the paper's equations, padding, dropout."""

import math

import pytest
import torch
from helpers import assert_same_gradients, layer_norm

from fairseq_odeformers.models.node_transformer import layout
from fairseq_odeformers.models.node_transformer.field import (
    TransformerDecoderField,
    TransformerField,
)
from fairseq_odeformers.models.node_transformer.layout import Affine, features_first, tokens_first
from fairseq_odeformers.models.node_transformer.linear import TimeDependentLinear

D, HEADS, INNER = 6, 3, 5
VARIANTS = [
    dict(),
    dict(skip_connection=True),
    dict(time_dependent_attention=True),
    dict(residual=True),
    dict(residual=True, layer_norm=True, time_dependent_attention=True),
    dict(skip_connection=True, layer_norm=True),
]


def make_field(cls=TransformerField, **options):
    torch.manual_seed(0)
    field = cls(D, HEADS, INNER, **options)
    for parameter in field.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return field


def affine(linear, t, x):
    """A x + b + c t of one token (Eq. 5)."""
    out = linear.weight @ x + linear.bias
    return out if linear.time is None else out + linear.time * t


def literal_attention(maps, t, xs, keys, causal):
    """Multi-head attention of tokens xs to keys, one head and one token at a time."""
    size = D // HEADS
    out = []
    for i, x in enumerate(xs):
        seen = keys[: i + 1] if causal else keys
        heads = []
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            q = affine(maps.q, t, x)[part]
            scores = [q @ affine(maps.k, t, key)[part] / math.sqrt(size) for key in seen]
            weights = torch.stack(scores).softmax(0)
            heads.append(sum(w * affine(maps.v, t, key)[part] for w, key in zip(weights, seen)))
        out.append(affine(maps.out, t, torch.cat(heads)))
    return torch.stack(out)


def literal(field, t, x, source=None):
    """X' of one sequence (T, C), as Eqs. 2, 3 and 9 write it; the decoder's attends twice."""
    norms = field.layer_norms or [None] * 3
    causal = source is not None

    def normalized(index, x):
        return x if norms[index] is None else layer_norm(norms[index], x)

    def ffn(x):
        return torch.stack(
            [affine(field.fc2, t, torch.relu(affine(field.fc1, t, token))) for token in x]
        )

    alpha = 1 if field.skip_connection or field.residual else 0
    y = normalized(0, x)
    attended = literal_attention(field.self_attn, t, y, y, causal)
    inner = alpha * x + attended
    change = attended
    if source is not None:
        y = normalized(1, inner)
        attended = literal_attention(field.encoder_attn, t, y, source, causal=False)
        inner = alpha * inner + attended
        change = change + attended
    out = ffn(normalized(2 if source is not None else 1, inner))
    return out + change if field.residual else out


@pytest.mark.parametrize("few", [0, 1000])
@pytest.mark.parametrize("options", VARIANTS)
@pytest.mark.parametrize("cls", [TransformerField, TransformerDecoderField])
def test_field_equals_the_literal_formula(float64, monkeypatch, cls, options, few):
    """Both forms of attention; output and gradients."""
    monkeypatch.setattr(layout, "FEW", few)
    field = make_field(cls, **options)
    x = torch.randn(4, 1, D, requires_grad=True)
    inputs = [x, *field.parameters()]
    state = features_first(x)
    if cls is TransformerField:
        out = field.of_batch(state)(0.3, state)
        expected = literal(field, 0.3, x[:, 0])
    else:
        source = torch.randn(5, 1, D, requires_grad=True)
        inputs.append(source)
        out = field.of_batch(state, None, field.encoder_attn.source(source), None)(0.3, state)
        expected = literal(field, 0.3, x[:, 0], source[:, 0])
    inputs = [tensor for tensor in inputs if tensor.requires_grad]
    assert_same_gradients(out[:, :, 0].T, expected, inputs)


@pytest.mark.parametrize("few", [0, 1000])
def test_padding_has_no_slope_and_no_effect(float64, monkeypatch, few):
    monkeypatch.setattr(layout, "FEW", few)
    field = make_field(residual=True, layer_norm=True)
    x = torch.randn(D, 7, 3)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 4:] = padding[2] = True
    x = x * ~padding.T
    out = field.of_batch(x, padding)(0.5, x)
    assert not out[:, 4:, 1].any() and not out[:, :, 2].any()
    alone = x[:, :4, 1:2].contiguous()
    assert (field.of_batch(alone)(0.5, alone) - out[:, :4, 1:2]).abs().max() < 1e-12


def test_a_time_for_each_sequence(float64):
    field = make_field(time_dependent_attention=True)
    x = torch.randn(D, 4, 3)
    f = field.of_batch(x)
    times = torch.tensor([0.0, 0.4, 1.0])
    together = f(times, x)
    for index, t in enumerate(times.tolist()):
        assert (together[:, :, index] - f(t, x)[:, :, index]).abs().max() < 1e-12
        assert (f(times[index], x) - f(t, x)).abs().max() < 1e-12


def test_dropout_is_one_function_a_batch():
    """It has one mask a batch, for a field that is evaluated several times."""
    field = make_field(dropout=0.5)
    x = torch.randn(D, 4, 3)
    f, other = field.of_batch(x), field.of_batch(x)
    assert torch.equal(f(0.3, x), f(0.3, x))
    assert not torch.equal(f(0.3, x), other(0.3, x))
    assert (f(0.3, x) == 0).any()
    field.eval()
    assert not (field.of_batch(x)(0.3, x) == 0).any()


@pytest.mark.parametrize("time_dependent_attention", [False, True])
def test_parameters(time_dependent_attention):
    """Those of a Transformer layer, and c of each map that depends on time."""
    field = make_field(time_dependent_attention=time_dependent_attention)
    layer = 4 * D * (D + 1) + (D + 1) * INNER + (INNER + 1) * D
    time = INNER + D + (4 * D if time_dependent_attention else 0)
    assert sum(p.numel() for p in field.parameters()) == layer + time


@pytest.mark.parametrize("time_dependent", [False, True])
def test_affine_maps(float64, time_dependent):
    """A x + b + c t (Eqs. 4 and 5), and several such maps of states features first."""
    maps = [TimeDependentLinear(D, INNER, time_dependent) for _ in range(2)]
    x, t = torch.randn(4, 3, D), torch.tensor([0.0, 0.4, 1.0])
    found = tokens_first(Affine.of(*maps)(t, features_first(x)))
    for i in range(4):
        for j in range(3):
            expected = torch.cat([affine(linear, t[j], x[i, j]) for linear in maps])
            assert (found[i, j] - expected).abs().max() < 1e-12
    for linear, half in zip(maps, found.chunk(2, -1)):
        assert (linear(t.unsqueeze(1), x) - half).abs().max() < 1e-12


def test_heads_that_do_not_divide_the_width_are_refused():
    with pytest.raises(ValueError, match="embed_dim 30 is not divisible by 4 heads"):
        TransformerField(30, 4, INNER)
