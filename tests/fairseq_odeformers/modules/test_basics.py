"""The fast CPU dropout is dropout."""

import pytest
import torch

from fairseq_odeformers.modules.basics import Dropout, dropout


@pytest.mark.parametrize("p", [0.0, 0.1, 0.3, 0.5, 1.0])
def test_zeroes_with_probability_p_and_keeps_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 1001)
    y = dropout(x, p)
    deviation = (p * (1 - p) / x.numel()) ** 0.5
    assert abs((y == 0).float().mean().item() - p) <= 5 * deviation
    assert p == 1 or abs(y.mean().item() - 1) <= 5 * deviation / (1 - p)
    assert y.unique().numel() == (2 if 0 < p < 1 else 1)


def test_elements_are_independent():
    """Neither neighbouring elements, four of which share a draw, nor rows correlate."""
    torch.manual_seed(0)
    y = (dropout(torch.ones(4000, 64), 0.5) > 0).float()
    correlation = torch.corrcoef(y.T).fill_diagonal_(0).abs().max()
    assert correlation < 6 / 4000**0.5


def test_gradient_is_the_mask_of_the_forward_pass():
    """The forward and the backward pass use the same mask, which follows the seed."""
    x, results = torch.rand(7, 3, requires_grad=True), []
    for _ in range(2):
        torch.manual_seed(3)
        results.append(dropout(x, 0.4))
    results[0].sum().backward()
    assert torch.equal(*results)
    assert torch.allclose(x.grad * x.detach(), results[0].detach())


def test_dropout_acts_only_in_training():
    module, x = Dropout(0.5), torch.ones(100)
    assert (module(x) == 0).any()
    assert torch.equal(module.eval()(x), x)
