"""Every architecture for language modelling: causality, incremental decoding, gradients."""

import pytest
import torch
from helpers import LanguageModelling, assert_causal, make_model

TRANSFORMER = "--decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2"
SIZES = {
    "macaron_transformer_lm": TRANSFORMER,
    "transformer_lm_rezero": TRANSFORMER,
    "transformer_lm_orthogonal": TRANSFORMER,
    "transject_lm": "--decoder-embed-dim 16 --decoder-experts 2",
    "transject_lm_random": "--decoder-embed-dim 16 --decoder-experts 2",
}


def make_lm(arch):
    sizes = SIZES[arch].split()
    return make_model(arch, "--task", "language_modeling", sizes=sizes, task=LanguageModelling())


@pytest.fixture(params=list(SIZES))
def model(request):
    model = make_lm(request.param)
    for name, parameter in model.named_parameters():
        if name.endswith("residual_weight"):  # without which a layer does nothing
            torch.nn.init.ones_(parameter)
    return model


def test_causal(model):
    model.eval()
    assert_causal(lambda tokens: model(tokens)[0])


def test_incremental_equals_full_decoding(model):
    model.eval()
    tokens, state = torch.randint(4, 50, (3, 7)), {}
    full, _ = model(tokens)
    for length in range(1, 8):
        step, _ = model(tokens[:, :length], incremental_state=state)
        assert (step[:, 0] - full[:, length - 1]).abs().max() < 1e-5


def test_incremental_state_follows_the_beam(model):
    """Reordered half-way, the rest is decoded as if the texts had changed places."""
    model.eval()
    tokens, state, order = torch.randint(4, 50, (3, 7)), {}, torch.tensor([2, 0, 0])
    for length in range(1, 5):
        model(tokens[:, :length], incremental_state=state)
    model.decoder.reorder_incremental_state_scripting(state, order)
    step, _ = model(tokens[order, :5], incremental_state=state)
    full, _ = model(tokens[order, :5])
    assert (step[:, 0] - full[:, 4]).abs().max() < 1e-5


@pytest.mark.parametrize("arch", ["transject_lm", "transject_lm_random"])
def test_state_of_transject_has_one_size(arch):
    """A sum, and a maximum a layer and expert, each of the width 16, whatever the length."""
    model, sizes = make_lm(arch).eval(), []
    tokens, state = torch.randint(4, 50, (3, 12)), {}
    for length in range(1, 13):
        model(tokens[:, :length], incremental_state=state)
        sizes.append(sum(v.numel() for saved in state.values() for v in saved.values()))
    maxima = 3 * 6 * 2 * 16
    assert set(sizes) == {maxima + (3 * 16 if arch == "transject_lm" else 0)}


def test_half_precision(model):
    model.eval().bfloat16()
    state, tokens = {}, torch.randint(4, 50, (3, 7))
    assert model(tokens)[0].isfinite().all()
    for length in (1, 2):
        assert model(tokens[:, :length], incremental_state=state)[0].isfinite().all()


def test_every_parameter_gets_a_gradient(model):
    model(torch.randint(4, 50, (2, 7)))[0].square().sum().backward()
    assert not [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()]


def test_baselines_differ_from_fairseq_s_model():
    """ReZero: no LayerNorm, a number a layer. Orthogonal: four matrices a layer."""
    rezero, orthogonal = map(make_lm, ("transformer_lm_rezero", "transformer_lm_orthogonal"))
    names = [name for name, _ in rezero.named_parameters()]
    assert not [name for name in names if "layer_norm" in name]
    assert sum(name.endswith("residual_weight") for name in names) == 6
    for layer in orthogonal.decoder.layers:
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            weight = getattr(layer.self_attn, name).weight
            assert torch.allclose(weight @ weight.T, torch.eye(16), atol=1e-5)
