"""The numbers of every tableau, and the order of its method."""

import pytest
import torch
from torchdiffeq._impl.odeint import SOLVERS

from fairseq_odeformers.models.node_transformer.step import take_step
from fairseq_odeformers.modules.tableaus import ADAPTIVE, FIXED_GRID


@pytest.mark.parametrize("name", ADAPTIVE)
def test_numbers_equal_torchdiffeqs(name):
    """The numbers are bit-identical to torchdiffeq's.

    An error may have the other sign, as it is only compared with a tolerance.
    """
    ours, theirs = ADAPTIVE[name], SOLVERS[name].tableau
    assert ours.order == SOLVERS[name].order
    assert list(ours.nodes) == theirs.alpha.tolist()
    assert [list(row) for row in ours.matrix] == [row.tolist() for row in theirs.beta]
    assert list(ours.weights) == theirs.c_sol.tolist()
    error = [b - other for b, other in zip(ours.weights, ours.embedded_weights, strict=True)]
    assert theirs.c_error.tolist() in (error, [-weight for weight in error])


@pytest.mark.parametrize("name", [*ADAPTIVE, *FIXED_GRID])
def test_errors_fall_with_the_order(float64, name):
    """Half the step divides the error by two to the power of the order plus one."""
    tableau = {**ADAPTIVE, **FIXED_GRID}[name]
    f = lambda t, x: -x * torch.cos(t)  # noqa: E731
    t, x = torch.linspace(0, 6, 50), torch.ones(50)
    errors = []
    for h in (0.4, 0.2):
        end = take_step(tableau, f, t, h, x, f(t, x)).end
        errors.append((end - torch.exp(torch.sin(t) - torch.sin(t + h))).norm())
    assert (errors[0] / errors[1]).log2() == pytest.approx(tableau.order + 1, abs=0.5)
