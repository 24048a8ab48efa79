"""The fast CPU dropout is dropout."""

import pytest
import torch

from fairseq_odeformers.modules.dropout import Dropout, dropout


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_zeroes_with_probability_p_and_keeps_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 1001)
    y = dropout(x, p)
    deviation = (p * (1 - p) / x.numel()) ** 0.5
    assert abs((y == 0).float().mean().item() - p) < 5 * deviation
    assert abs(y.mean().item() - 1) < 5 * deviation / (1 - p)
    assert y.unique().numel() == 2


def test_elements_are_independent():
    """Neither neighbours (the four that share a draw) nor rows correlate."""
    torch.manual_seed(0)
    y = (dropout(torch.ones(4000, 64), 0.5) > 0).float()
    correlation = torch.corrcoef(y.T).fill_diagonal_(0).abs().max()
    assert correlation < 6 / 4000**0.5


def test_gradient_is_the_mask_of_the_forward_pass():
    x = torch.rand(7, 3, requires_grad=True)
    y = dropout(x, 0.4)
    y.sum().backward()
    assert torch.allclose(x.grad * x.detach(), y.detach())


def test_same_seed_same_mask():
    x = torch.ones(50)
    torch.manual_seed(3)
    first = dropout(x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5), first)


@pytest.mark.parametrize("p", [0.0, 1.0])
def test_limits(p):
    x = torch.rand(9)
    assert torch.equal(dropout(x, p), x * (1 - p))


def test_module_acts_in_training_only():
    module, x = Dropout(0.5), torch.ones(100)
    assert (module(x) == 0).any()
    assert torch.equal(module.eval()(x), x)


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match="probability"):
        dropout(torch.ones(4), p)
