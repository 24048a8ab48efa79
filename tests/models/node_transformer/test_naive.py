"""Blocks of the N-ODE Transformer against the paper's formulas, solved by torchdiffeq."""

from functools import partial

import pytest
import torch

from fairseq_odeformers.models.node_transformer import naive
from fairseq_odeformers.models.node_transformer.block import NodeBlock
from fairseq_odeformers.models.node_transformer.field import TransformerField
from fairseq_odeformers.models.node_transformer.layout import features_first
from fairseq_odeformers.models.node_transformer.solver import Adaptive

PRECISE = dict(rtol=1e-10, atol=1e-10)
VARIANTS = [
    dict(),
    dict(skip_connection=True),
    dict(time_dependent_attention=True),
    dict(residual=True, time_dependent_attention=True),
]


def make_field(**options):
    torch.manual_seed(0)
    return TransformerField(8, 2, 12, **options)


def formula(field):
    return partial(naive.residual_vector_field if field.residual else naive.vector_field, field)


@pytest.mark.parametrize("options", VARIANTS)
def test_block_solves_the_formula(float64, options):
    """The state at T_F, and the arclength on the way to it."""
    field = make_field(**options)
    torch.nn.init.constant_(field.fc1.bias, 3)  # ReLUs change no sign, so that X' is smooth
    block = NodeBlock(field, Adaptive(**PRECISE), final_time=2.0)
    x = torch.randn(5, 8) / 2
    out, solution = block(x.unsqueeze(1))
    assert (out[:, 0] - naive.solve(formula(field), x, 2.0, **PRECISE)).abs().max() < 1e-6
    length = naive.arclength(formula(field), x, 2.0, **PRECISE)
    assert solution.integral.item() == pytest.approx(length.item(), rel=1e-5)


def test_padding_is_hidden_from_the_tokens(float64):
    field = make_field()
    x, padding = torch.randn(3, 5, 8), torch.arange(5) >= torch.tensor([[5], [4], [2]])
    found = field.of_batch(features_first(x.transpose(0, 1)), padding)
    slopes = found(0.3, features_first(x.transpose(0, 1))).permute(2, 1, 0)
    expected = naive.vector_field(field, 0.3, x, padding[:, None, None])
    assert (slopes - expected)[~padding].abs().max() < 1e-10
