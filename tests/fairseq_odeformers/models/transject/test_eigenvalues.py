"""TransJect's eigenvalues against the formula, in float64: full and causal, with padding."""

import pytest
import torch

from fairseq_odeformers.models.transject import naive
from fairseq_odeformers.models.transject.eigenvalues import Eigenvalues, RandomEigenvalues

DIM = 16

pytestmark = pytest.mark.usefixtures("float64")


@pytest.mark.parametrize("length", [5, 40])
def test_eigenvalues_equal_the_formula(length):
    """sigma and the reconstruction agree for sequences shorter and longer than the width."""
    torch.manual_seed(0)
    full, causal = Eigenvalues(DIM), Eigenvalues(DIM, causal=True)
    causal.load_state_dict(full.state_dict())
    u = full.rotation()[0]
    x = torch.randn(3, length, DIM)
    x[1, 2:] = 0  # padding
    (sigma, regularizers), (causal_sigma, causal_regularizers) = full(x), causal(x)
    for row in range(3):
        expected = naive.standardize(naive.eigenvalues(x[row], u))
        assert (sigma[row, 0] - expected).abs().max() < 1e-12
        assert (causal_sigma[row] - naive.causal_eigenvalues(x[row], u)).abs().max() < 1e-12
        expected = naive.reconstruction(x[row], u)
        for values in (regularizers, causal_regularizers):
            assert (values["reconstruction"][row] - expected).abs() < 1e-9
    assert full.eval()(x)[1] == {}


@pytest.mark.parametrize("length", [5, 30])
def test_reconstruction_does_not_depend_on_the_scale(length):
    """The reconstruction is a ratio, exact in float32 where the inputs' fourth power overflows."""
    torch.manual_seed(0)
    module = Eigenvalues(DIM).float()
    x = torch.randn(2, length, DIM, dtype=torch.float32)
    values = []
    for scale in (1, 1e10, 1e-10):
        scaled = (scale * x).requires_grad_()
        values.append(module(scaled)[1]["reconstruction"])
        values[-1].sum().backward()
        assert scaled.grad.isfinite().all() and scaled.grad.any()
        assert module.rotation.weight.grad.isfinite().all()
    for value in values[1:]:
        assert torch.allclose(value, values[0], rtol=1e-4)


def test_random_eigenvalues_are_learned_and_shared():
    """The largest eigenvalue is 1 in absolute value, and sequences do not differ in theirs."""
    module = RandomEigenvalues(DIM)
    module.weight.data[2] = -3
    sigma, regularizers = module(torch.randn(3, 4, DIM))
    assert torch.allclose(sigma.flatten(), module.weight / 3)
    assert sigma.shape == (1, 1, DIM)
    assert regularizers == {}
