"""The causal form: each token as the layers without it would see the tokens up to it."""

import pytest
import torch

from fairseq_odeformers.models.transject.causal_layer import (
    CausalEigenvalues,
    CausalRandomEigenvalues,
    CausalTransJectLayer,
)
from fairseq_odeformers.models.transject.layer import Eigenvalues, RandomEigenvalues, TransJectLayer

DIM = 16
pytestmark = pytest.mark.usefixtures("float64")


def make_layer(experts=3):
    """A causal layer, and one that is not, with the same parameters."""
    torch.manual_seed(0)
    causal, plain = (cls(DIM, experts, 4) for cls in (CausalTransJectLayer, TransJectLayer))
    for parameter in (plain.residual_weight, plain.ffn.bias):
        torch.nn.init.normal_(parameter)
    causal.load_state_dict(plain.state_dict())
    return causal, plain


@pytest.mark.parametrize("experts", [1, 3])
def test_a_token_sees_the_layer_of_its_prefix(experts):
    """At position t: the last output of the layer that reads the first t tokens alone."""
    causal, plain = make_layer(experts)
    x, sigma = torch.randn(2, 7, DIM), torch.rand(2, 1, DIM)
    out, _ = causal(x, sigma)
    for t in range(7):
        (prefix,) = plain([x[:, : t + 1]], sigma)
        assert (out[:, t] - prefix[:, -1]).abs().max() < 1e-12


def test_eigenvalues_are_those_of_the_prefix():
    causal, plain = CausalEigenvalues(DIM), Eigenvalues(DIM)
    causal.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, DIM)
    sigma, total, regularizers = causal(x)
    for t in range(7):
        expected, reconstruction = plain(x[:, : t + 1])
        assert (sigma[:, t] - expected[:, 0]).abs().max() < 1e-12
    assert torch.allclose(regularizers["reconstruction"], reconstruction["reconstruction"])
    first, so_far, _ = causal(x[:, :3])
    rest, both, regularizers = causal.eval()(x[:, 3:], so_far)
    assert torch.allclose(torch.cat([first, rest], 1), sigma)
    assert torch.allclose(both, total)
    assert regularizers == {}


def test_random_eigenvalues_keep_nothing():
    causal, plain = CausalRandomEigenvalues(DIM), RandomEigenvalues(DIM)
    causal.load_state_dict(plain.state_dict())
    x = torch.randn(2, 7, DIM)
    assert causal(x)[1:] == (None, {})
    assert torch.equal(causal(x)[0], plain(x)[0])


def test_padding_before_a_sequence():
    causal, _ = make_layer()
    x, sigma = torch.randn(2, 7, DIM), torch.rand(2, 7, DIM)
    padding_mask = torch.zeros(2, 7, dtype=torch.bool)
    padding_mask[0, :3] = True
    out, so_far = causal(x, sigma, padding_mask)
    alone, alone_so_far = causal(x[:1, 3:], sigma[:1, 3:])
    assert out.isfinite().all()
    assert (out[0, 3:] - alone[0]).abs().max() < 1e-12
    assert torch.equal(so_far[:1], alone_so_far)


def test_padding_alone_then_a_sequence():
    """What is kept of padding alone is no state."""
    causal, _ = make_layer()
    x, sigma = torch.randn(1, 7, DIM), torch.rand(1, 7, DIM)
    padding_mask = torch.arange(7).unsqueeze(0) < 3
    _, so_far = causal(x[:, :3], sigma[:, :3], padding_mask[:, :3])
    out, _ = causal(x[:, 3:], sigma[:, 3:], padding_mask[:, 3:], so_far)
    assert (out - causal(x[:, 3:], sigma[:, 3:])[0]).abs().max() < 1e-12
