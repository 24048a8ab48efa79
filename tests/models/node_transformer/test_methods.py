"""The order of every tableau."""

import pytest
import torch

from fairseq_odeformers.models.node_transformer.methods import ADAPTIVE, FIXED_GRID


@pytest.mark.parametrize("name", [*ADAPTIVE, *FIXED_GRID])
def test_orders(float64, name):
    """With half the step, its error is smaller by two to the power of the order plus one."""
    tableau = {**ADAPTIVE, **FIXED_GRID}[name]
    f = lambda t, x: -x * torch.cos(t)  # noqa: E731
    t, x = torch.linspace(0, 6, 50), torch.ones(50)
    errors = []
    for h in (0.4, 0.2):
        end = tableau.step(f, t, h, x, f(t, x)).end
        errors.append((end - torch.exp(torch.sin(t) - torch.sin(t + h))).norm())
    assert (errors[0] / errors[1]).log2() == pytest.approx(tableau.order + 1, abs=0.5)
