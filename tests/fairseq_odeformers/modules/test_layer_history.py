"""A dense history of layers, against its formula, and in an encoder and decoder."""

import pytest
import torch
from helpers import call, make_any, source_batch
from torch import nn

from fairseq_odeformers.modules.layer_history import LayerHistory


def test_each_layer_reads_a_combination_of_all_earlier_ones():
    torch.manual_seed(0)
    history = LayerHistory(nn.ModuleList(nn.Linear(4, 4) for _ in range(3)), 4)
    for parameter in history.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(5, 2, 4)
    states, y = [x], x
    for n, layer in enumerate(history.depths):
        states.append(history.output_layer_norms[n](layer(y)))
        weight = history.combinations[n].weight
        y = torch.einsum("k,ktbc->tbc", weight, torch.stack(states))
    assert torch.allclose(history(x), y, atol=1e-6)


@pytest.mark.parametrize("arch", ["ode_transformer", "ode_transformer_lm"])
def test_a_history_of_only_the_last_layer_changes_nothing(arch):
    """If each row of weights selects the newest state, the model equals one without a history."""
    model, tokens = make_any(arch, "--dense-history").eval(), source_batch()[0]
    plain = make_any(arch).eval()
    state = {}
    for name, tensor in model.state_dict().items():
        if "combinations" in name:
            tensor.zero_()[-1] = 1
        elif "output_layer_norms" not in name:
            state[name.replace("layers.0.depths.", "layers.")] = tensor
    plain.load_state_dict(state)
    actual, expected = (m(**call(m, tokens, tokens))[0] for m in (model, plain))
    assert actual.shape == expected.shape and not torch.allclose(actual, expected)
    for stack in filter(None, (getattr(model, side, None) for side in ("encoder", "decoder"))):
        norms = stack.layers[0].output_layer_norms
        for n in range(len(norms)):
            norms[n] = nn.Identity()
    assert torch.allclose(model(**call(model, tokens, tokens))[0], expected, atol=1e-5)
