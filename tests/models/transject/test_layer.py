"""TransJect's layers against the formula, in float64, full and causal; padding; fast inference."""

import pytest
import torch

from fairseq_odeformers.models.transject import naive
from fairseq_odeformers.models.transject.layer import (
    ConcatenatedPositions,
    Eigenvalues,
    RandomEigenvalues,
    TransJectLayer,
)
from fairseq_odeformers.models.transject.token_statistics import CausalStatistics, FullStatistics
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding

DIM, EXPERTS, DEPTH = 16, 3, 4
FORMULAS = {FullStatistics: naive.layer_output, CausalStatistics: naive.causal_layer_output}

pytestmark = pytest.mark.usefixtures("float64")


def make_layer(experts=EXPERTS, gate="tanh", statistics=FullStatistics):
    torch.manual_seed(0)
    layer = TransJectLayer(DIM, experts, DEPTH, gate, statistics)
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


@pytest.mark.parametrize("gate", ["tanh", "sigmoid"])
@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("lengths", [[5, 9, 1], [30, 150]])
def test_formula(gate, experts, recorded, lengths):
    """Shorter and longer than the width, with padding."""
    layer = make_layer(experts, gate)
    x, sigma, padding_mask = make_input(lengths)
    with torch.set_grad_enabled(recorded):
        out = layer(x, sigma, padding_mask)
    for row, length in enumerate(lengths):
        expected = naive.layer_output(layer, x[row, :length], sigma[row, 0])
        assert (out[row, :length] - expected).abs().max() < 1e-12


@pytest.mark.parametrize("length", [5, 30])
def test_large_and_small_inputs_have_the_same_reconstruction(length):
    """It is a ratio; in float32, where the fourth power of such inputs is no number."""
    torch.manual_seed(0)
    module = Eigenvalues(DIM).float()
    x = torch.randn(2, length, DIM, dtype=torch.float32)
    values = []
    for scale in (1, 1e10, 1e-10):
        large = (scale * x).requires_grad_()
        _, regularizers = module(large)
        values.append(regularizers["reconstruction"])
        values[-1].sum().backward()
        assert large.grad.isfinite().all() and large.grad.any()
        assert module.rotation.weight.grad.isfinite().all()
    for value in values[1:]:
        assert torch.allclose(value, values[0], rtol=1e-4)


def test_formula_s_gate():
    """The paper's: a sigmoid or tanh of a learnt weight, over the number of layers."""
    for gate in ("tanh", "sigmoid"):
        layer = make_layer(gate=gate)
        assert torch.equal(layer.step(), getattr(torch, gate)(layer.residual_weight) / DEPTH)


@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_causal_formula(experts, recorded, shared):
    """Padding before a sequence is not seen; sigma is one for all, as if random, or a token's."""
    layer = make_layer(experts, statistics=CausalStatistics)
    x = torch.randn(2, 19, DIM)
    sigma = torch.rand(1, 1, DIM) if shared else torch.rand(2, 19, DIM)
    padding_mask = torch.arange(19) < torch.tensor([[0], [3]])
    with torch.set_grad_enabled(recorded):
        out = layer(x, sigma, padding_mask)
    assert out.isfinite().all()
    for row, start in enumerate((0, 3)):
        own = sigma.expand_as(x)[row, start:]
        expected = naive.causal_layer_output(layer, x[row, start:], own)
        assert (out[row, start:] - expected).abs().max() < 1e-12


def test_causal_layer_continues():
    """In generation, the first calls of padding alone, which is no state."""
    layer = make_layer(statistics=CausalStatistics)
    x, sigma, state = torch.randn(1, 7, DIM), torch.rand(1, 7, DIM), {}
    padding_mask = torch.arange(7).unsqueeze(0) < 3
    parts = [slice(0, 2), slice(2, 5), slice(5, 7)]
    out = [layer(x[:, p], sigma[:, p], padding_mask[:, p], state) for p in parts]
    expected = naive.causal_layer_output(layer, x[0, 3:], sigma[0, 3:])
    assert (torch.cat(out, 1)[0, 3:] - expected).abs().max() < 1e-12


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("statistics", FORMULAS)
def test_padding_alone(recorded, statistics):
    layer = make_layer(statistics=statistics)
    x, sigma, padding_mask = make_input([4, 4])
    padding_mask[1] = True
    with torch.set_grad_enabled(recorded):
        out = layer(x, sigma, padding_mask)
    assert out.isfinite().all()
    expected = FORMULAS[statistics](layer, x[0], sigma[0].expand(4, -1))
    assert (out[0] - expected).abs().max() < 1e-12
    if recorded:
        out.square().sum().backward()
        assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_starts_as_the_identity():
    """The residual weight starts at 0, and tanh(0) = 0."""
    x, sigma, _ = make_input([6])
    assert torch.equal(TransJectLayer(DIM, EXPERTS, DEPTH)(x, sigma), x)


def test_input_is_left_as_it_was():
    layer = make_layer()
    x, sigma, padding_mask = make_input([70, 3])
    before = x.clone()
    with torch.no_grad():
        layer(x, sigma, padding_mask)
    assert torch.equal(x, before)


@pytest.mark.parametrize("length", [5, 40])
def test_eigenvalues(length):
    """sigma and the reconstruction, of sequences shorter and longer than the width."""
    torch.manual_seed(0)
    full, causal = Eigenvalues(DIM), Eigenvalues(DIM, CausalStatistics)
    causal.load_state_dict(full.state_dict())
    u = full.rotation()[0]
    x = torch.randn(3, length, DIM)
    x[1, 2:] = 0  # padding
    (sigma, regularizers), (causal_sigma, causal_regularizers) = full(x), causal(x)
    for row in range(3):
        expected = naive.standardized(naive.eigenvalues(x[row], u))
        assert (sigma[row, 0] - expected).abs().max() < 1e-12
        assert (causal_sigma[row] - naive.causal_eigenvalues(x[row], u)).abs().max() < 1e-12
        expected = naive.reconstruction(x[row], u)
        for values in (regularizers, causal_regularizers):
            assert (values["reconstruction"][row] - expected).abs() < 1e-9
    assert full.eval()(x)[1] == {}


def test_eigenvalues_continue():
    module, state = Eigenvalues(DIM, CausalStatistics).eval(), {}
    x = torch.randn(2, 7, DIM)
    parts = [module(part, state)[0] for part in x.split(3, 1)]
    assert torch.allclose(torch.cat(parts, 1), module(x)[0])


@pytest.mark.parametrize("length", [0, 1])
def test_eigenvalues_of_one_token_and_of_none(length):
    """Defined, and so are their gradients; a sequence of padding alone counts as zeros."""
    x = torch.zeros(1, 4, DIM)
    x[0, :length] = torch.randn(DIM)
    x.requires_grad_()
    sigma, regularizers = Eigenvalues(DIM)(x)
    assert sigma.amax() == length
    (sigma.square().sum() + regularizers["reconstruction"].sum()).backward()
    assert x.grad.isfinite().all()


def test_random_eigenvalues():
    """Learnt, the largest is 1, and the same for all sequences."""
    module = RandomEigenvalues(DIM)
    sigma, regularizers = module(torch.randn(3, 4, DIM))
    assert torch.allclose(sigma.flatten(), module.weight / module.weight.max())
    assert sigma.shape == (1, 1, DIM)
    assert regularizers == {}


def test_concatenated_positions():
    """Scaled embedding, then sines and cosines; zero where padding is; no two tokens are equal."""
    embedding = ConcatenatedPositions(OrthonormalEmbedding(10, DIM // 2, padding_idx=1), 3.0, 32)
    tokens = torch.tensor([[4, 5, 4, 1]])
    x = embedding(tokens)
    assert torch.allclose(x[0, :3, : DIM // 2], 3 * embedding.embed_tokens(tokens)[0, :3])
    position = torch.tensor([2.0, 3.0, 4.0]).unsqueeze(1)  # fairseq counts from padding_idx + 1
    angles = position * 10000 ** -(torch.arange(4) / 3)
    expected = torch.cat([angles.sin(), angles.cos()], dim=1)
    assert (x[0, :3, DIM // 2 :] - expected).abs().max() < 1e-5
    assert not x[0, 3].any()
    assert torch.pdist(x[0, :3]).min() > 0.1
    assert torch.equal(embedding(tokens[:, :3], incremental_state={}), x[:, 2:3])
