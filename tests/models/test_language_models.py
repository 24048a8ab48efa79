"""Every architecture for language modelling: causality, incremental decoding, gradients."""

import pytest
import torch
from helpers import Task, assert_causal, make_model

SIZES = "--decoder-embed-dim 16 --decoder-ffn-embed-dim 32 --decoder-attention-heads 2".split()
ARCHITECTURES = ["macaron_transformer_lm", "transformer_lm_rezero", "transformer_lm_orthogonal"]


class LanguageModelling(Task):
    class cfg:
        tokens_per_sample = 64


def make_lm(arch):
    return make_model(arch, "--task", "language_modeling", sizes=SIZES, task=LanguageModelling())


@pytest.fixture(params=ARCHITECTURES)
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
