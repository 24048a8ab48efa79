"""The coefficients that the blocks of a model share, and the options of a model."""

import copy

import pytest
import torch
from helpers import call, make_any, source_batch

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.common.runge_kutta import RungeKuttaLayer

ARCHS = {"ode_transformer": "encoder", "ode_transformer_classifier": "encoder"}
ARCHS["ode_transformer_lm"] = "decoder"
every = pytest.mark.parametrize("arch, side", ARCHS.items())


@every
def test_all_blocks_share_one_gate(arch, side):
    """A gate has one name, 2 d weights and a bias, and a copy of the model has its own gate."""
    model = make_any(arch)
    names = [name for name, _ in model.named_parameters() if "coefficients" in name]
    assert names == [f"{side}.coefficients.gate.{kind}" for kind in ("weight", "bias")]
    assert {name for name in model.state_dict() if "coefficients" in name} == set(names)
    assert sum(model.state_dict()[name].numel() for name in names) == 2 * 16 + 1
    for each in (model, copy.deepcopy(model)):
        blocks = [module for module in each.modules() if isinstance(module, RungeKuttaLayer)]
        stack = getattr(each, side)
        assert len(blocks) == len(stack.layers)
        with record_calls(blocks) as calls:
            each(**call(each, *source_batch()[:1] * 2))
        assert len(calls) == len(blocks)
        assert all(each.kwargs["coefficients"] is stack.coefficients for each in calls)


@every
def test_learned_coefficients_start_at_one(arch, side):
    stack = getattr(make_any(arch, "--rk-coefficients", "learned"), side)
    assert stack.coefficients.gamma.tolist() == [1, 1]


@pytest.mark.parametrize("order", [1, 3, 4])
@every
def test_other_orders_have_fixed_coefficients(arch, side, order):
    """Models of other orders have as many parameters as the Transformer."""
    model = make_any(arch, "--rk-order", str(order))
    assert not list(getattr(model, side).coefficients.parameters())


def test_order_one_is_the_transformer():
    """A model of equal parameters gives the same output."""
    ours, theirs = make_any("ode_transformer", "--rk-order", "1"), make_any("transformer_prenorm")
    theirs.load_state_dict(ours.state_dict())
    tokens, lengths = source_batch()
    out, expected = (model.eval()(tokens, lengths, tokens)[0] for model in (ours, theirs))
    assert torch.allclose(out, expected, atol=1e-5)


def test_blocks_are_dropped_only_in_training():
    """``--encoder-layerdrop`` drops whole blocks, including those that share the coefficients."""
    model = make_any("ode_transformer", "--encoder-layerdrop", "1")
    for training, blocks in ((True, 0), (False, 2)):
        out = model.train(training).encoder(*source_batch(), return_all_hiddens=True)
        assert len(out["encoder_states"]) == 1 + blocks
