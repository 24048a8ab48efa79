"""TransJect's parts against their literal formulas, in float64; padding; the fast inference."""

import pytest
import torch
import torch.nn.functional as F

from fairseq_odeformers.models.transject.layer import (
    ConcatenatedPositions,
    Eigenvalues,
    RandomEigenvalues,
    TransJectLayer,
    in_parts,
)
from fairseq_odeformers.modules.orthogonal import OrthonormalEmbedding

DIM, EXPERTS, DEPTH = 16, 3, 4


pytestmark = pytest.mark.usefixtures("float64")


def make_layer(experts=EXPERTS, gate="tanh"):
    torch.manual_seed(0)
    layer = TransJectLayer(DIM, experts, DEPTH, gate)
    for parameter in (layer.residual_weight, layer.ffn.bias):
        torch.nn.init.normal_(parameter)
    if experts > 1:
        torch.nn.init.normal_(layer.experts.gate.weight, std=2.0)
    return layer


def literal_layer(layer, x, sigma):
    """Of one sequence (T, C), expert by expert (paper, Eqs. 2 to 4)."""
    step = {"tanh": torch.tanh, "sigmoid": torch.sigmoid}[layer.gate](layer.residual_weight) / DEPTH
    matrices = layer.experts.orthogonal()
    experts = len(matrices) // 2
    states = [
        x + step * F.elu(x @ matrices[e] @ torch.diag(sigma) @ matrices[experts + e])
        for e in range(experts)
    ]
    if experts > 1:
        scores = [state.max(0).values @ layer.experts.gate.weight[0] for state in states]
        weights = torch.stack(scores).exp() / torch.stack(scores).exp().sum()
        x = sum(weight * state for weight, state in zip(weights, states))
    else:
        (x,) = states
    (w1, w2), (b1, b2) = layer.ffn.orthogonal(), layer.ffn.bias
    return x + step * F.elu(F.elu(x @ w1 + b1) @ w2 + b2)


def run(layer, x, sigma, padding_mask=None):
    return torch.cat(layer(in_parts(x), sigma, padding_mask), dim=1)


def make_input(lengths):
    """States, eigenvalues and where padding is, of sequences padded at the end."""
    torch.manual_seed(1)
    x = torch.randn(len(lengths), max(lengths), DIM)
    padding_mask = torch.arange(max(lengths)) >= torch.tensor(lengths).unsqueeze(1)
    return x, torch.rand(len(lengths), 1, DIM), padding_mask


@pytest.mark.parametrize("gate", ["tanh", "sigmoid"])
@pytest.mark.parametrize("experts", [1, 3])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("lengths", [[5, 9, 1], [12, 150], [30, 600]])
def test_literal_formula(gate, experts, recorded, lengths):
    """Shorter and longer than the width and than what is computed at once, with padding."""
    layer = make_layer(experts, gate)
    x, sigma, padding_mask = make_input(lengths)
    with torch.set_grad_enabled(recorded):
        out = run(layer, x, sigma, padding_mask)
    for row, length in enumerate(lengths):
        expected = literal_layer(layer, x[row, :length], sigma[row, 0])
        assert (out[row, :length] - expected).abs().max() < 1e-12


@pytest.mark.parametrize("recorded", [True, False])
def test_padding_alone(recorded):
    layer = make_layer()
    x, sigma, padding_mask = make_input([4, 4])
    padding_mask[1] = True
    with torch.set_grad_enabled(recorded):
        out = run(layer, x, sigma, padding_mask)
    assert out.isfinite().all()
    assert (out[0] - literal_layer(layer, x[0], sigma[0, 0])).abs().max() < 1e-12


def test_starts_as_the_identity():
    """The residual weight starts at 0, and tanh(0) = 0."""
    x, sigma, _ = make_input([6])
    assert torch.equal(run(TransJectLayer(DIM, EXPERTS, DEPTH), x, sigma), x)


def test_parts():
    """One in training; in inference of about so many tokens over the batch, but not too short."""
    x = torch.randn(2, 300, DIM)
    assert [part.size(1) for part in in_parts(x)] == [300]
    with torch.no_grad():
        assert [part.size(1) for part in in_parts(x)] == [256, 44]
        assert [part.size(1) for part in in_parts(x, tokens=8)] == [64] * 4 + [44]
        assert torch.equal(torch.cat(in_parts(x), 1), x)


def test_input_is_left_as_it_was():
    layer = make_layer()
    x, sigma, padding_mask = make_input([70, 3])
    before = x.clone()
    with torch.no_grad():
        run(layer, x, sigma, padding_mask)
    assert torch.equal(x, before)


def test_eigenvalues():
    """sigma and the reconstruction, with the matrices of the formula written out."""
    torch.manual_seed(0)
    module = Eigenvalues(DIM)
    u = module.rotation()[0].detach()
    for length in (5, 40):
        x = torch.randn(3, length, DIM)
        x[1, 2:] = 0  # padding
        sigma, regularizers = module(x)
        for row in range(3):
            gram = x[row].T @ x[row]
            g = torch.diag(u.T @ gram @ u)
            error = torch.linalg.matrix_norm(gram - u @ torch.diag(g) @ u.T) ** 2 / g.max() ** 2
            assert (sigma[row, 0] - g / g.max()).abs().max() < 1e-12
            assert (regularizers["reconstruction"][row] - error).abs() < 1e-9


def test_reconstruction_vanishes_at_the_eigenvectors():
    """And sigma then has the eigenvalues of X_0^T X_0."""
    x = torch.randn(1, 40, DIM)
    eigenvalues, vectors = torch.linalg.eigh(x[0].T @ x[0])
    module = Eigenvalues(DIM)
    module.rotation.base = vectors.unsqueeze(0)
    sigma, regularizers = module(x)
    assert regularizers["reconstruction"] < 1e-9
    assert (sigma[0, 0] - eigenvalues / eigenvalues.max()).abs().max() < 1e-9


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
