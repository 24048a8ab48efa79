"""TransJect's layers against the formula, in float64: full and causal, with padding."""

import pytest
import torch

from fairseq_odeformers.models.transject import naive
from fairseq_odeformers.models.transject.layer import TransJectLayer
from fairseq_odeformers.models.transject.spec import LayerSpec

DIM, EXPERTS, DEPTH = 16, 3, 4

pytestmark = pytest.mark.usefixtures("float64")


def make_layer(experts=EXPERTS, gate="tanh", causal=False):
    torch.manual_seed(0)
    layer = TransJectLayer(LayerSpec(DIM, DEPTH, experts, gate), causal)
    for parameter in (layer.residual_weight, layer.ffn.bias):
        torch.nn.init.normal_(parameter)
    if experts > 1:
        torch.nn.init.normal_(layer.experts.gate.weight, std=2.0)
    return layer


def make_input(lengths):
    """States, eigenvalues and where padding is, of sequences padded at the end."""
    torch.manual_seed(1)
    x = torch.randn(len(lengths), max(lengths), DIM)
    padding_mask = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    return x, torch.rand(len(lengths), 1, DIM), padding_mask


def layer_output(layer, x, sigma):
    """The output (T, C) of a layer for one sequence, by the formula."""
    alpha = getattr(torch, layer.spec.residual_gate)(layer.residual_weight)
    us, vs = layer.experts.orthogonal().chunk(2)
    w = torch.zeros(DIM) if layer.experts.gate is None else layer.experts.gate.weight[0]
    (w1, w2), (b1, b2) = layer.ffn.orthogonal(), layer.ffn.bias
    return naive.layer(x, sigma, (us, vs, w), (w1, b1, w2, b2), alpha, DEPTH)


def causal_layer_output(layer, x, sigma):
    """The output of each token (T, C) as the last one of its prefix, with sigma (T, C)."""
    prefixes = ((x[: t + 1], sigma[: t + 1]) for t in range(len(x)))
    return torch.stack([layer_output(layer, *prefix)[-1] for prefix in prefixes])


@pytest.mark.parametrize("gate", ["tanh", "sigmoid"])
@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("lengths", [[5, 9, 1], [30, 150]])
def test_layer_equals_the_formula(gate, experts, recorded, lengths):
    """Sequences are shorter and longer than the width, with padding.

    The input is left unchanged.
    """
    layer = make_layer(experts, gate)
    x, sigma, padding_mask = make_input(lengths)
    before = x.clone()
    with torch.set_grad_enabled(recorded):
        out = layer(x, sigma, padding_mask)
    assert torch.equal(x, before)
    for row, length in enumerate(lengths):
        expected = layer_output(layer, x[row, :length], sigma[row, 0])
        assert (out[row, :length] - expected).abs().max() < 1e-12


@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_causal_layer_equals_the_formula(experts, recorded, shared):
    """Padding before a sequence has no effect.

    sigma is shared, as if random, or differs by token.
    """
    layer = make_layer(experts, causal=True)
    x = torch.randn(2, 19, DIM)
    sigma = torch.rand(1, 1, DIM) if shared else torch.rand(2, 19, DIM)
    padding_mask = torch.arange(19) < torch.tensor([[0], [3]])
    with torch.set_grad_enabled(recorded):
        out = layer(x, sigma, padding_mask)
    assert out.isfinite().all()
    for row, start in enumerate((0, 3)):
        own = sigma.expand_as(x)[row, start:]
        expected = causal_layer_output(layer, x[row, start:], own)
        assert (out[row, start:] - expected).abs().max() < 1e-12


def test_causal_layer_decodes_incrementally():
    """Incremental calls equal the formula; a first call with only padding leaves no state."""
    layer = make_layer(causal=True)
    x, sigma, state = torch.randn(1, 7, DIM), torch.rand(1, 7, DIM), {}
    padding_mask = torch.arange(7).unsqueeze(0) < 3
    parts = [slice(0, 2), slice(2, 5), slice(5, 7)]
    out = [layer(x[:, p], sigma[:, p], padding_mask[:, p], state) for p in parts]
    expected = causal_layer_output(layer, x[0, 3:], sigma[0, 3:])
    assert (torch.cat(out, 1)[0, 3:] - expected).abs().max() < 1e-12


def test_step_size_is_bounded():
    """The size alpha / L is zero at the start, where a layer is the identity, and at most 1 / L."""
    layer = TransJectLayer(LayerSpec(DIM, DEPTH, EXPERTS))
    x, sigma, _ = make_input([6])
    assert torch.equal(layer(x, sigma), x)
    torch.nn.init.constant_(layer.residual_weight, 100.0)
    assert 0.24 < layer.step() <= 1 / DEPTH
