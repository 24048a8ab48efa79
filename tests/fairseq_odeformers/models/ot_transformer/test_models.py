"""The models: one step is a Transformer, other steps after training, states, caches, options."""

import gzip

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble_and_task
from helpers import PAD, Task, call, count_parameters, make_any, make_model, source_batch
from make_checkpoints import PATHS, write_data

from fairseq_odeformers.criterions.arclength import with_arclength
from fairseq_odeformers.models.common.answers import ask
from fairseq_odeformers.models.common.recording import record_calls

TWINS = {
    "ot_transformer": "transformer_prenorm",
    "ot_transformer_classifier": "transformer_classifier_prenorm",
    "ot_transformer_lm": "transformer_lm_prenorm",
}
every = pytest.mark.parametrize("arch", TWINS)


def batch():
    source, _ = source_batch()
    return source, torch.randint(4, 50, (3, 7))


@every
def test_one_textbook_euler_step_is_the_transformer(arch):
    """With ``--ode-field textbook`` and the last LayerNorm on the state, a step is the Transformer.

    Outputs agree up to the rounding of x + (stack(x) - x); only names of parameters differ.
    """
    line = "--ode-steps 1 --ode-field textbook --final-norm state".split()
    ours, theirs = make_any(arch, *line).eval(), make_any(TWINS[arch]).eval()
    state = ours.state_dict()
    inner = {name.replace("layers.0.layers.", "layers."): value for name, value in state.items()}
    theirs.load_state_dict(inner)
    actual, expected = (model(**call(model, *batch()))[0] for model in (ours, theirs))
    assert torch.allclose(actual, expected, atol=1e-5)
    other = make_any(arch, *line[:2], *line[4:]).eval()
    other.load_state_dict(state)
    assert not torch.allclose(other(**call(other, *batch()))[0], expected, atol=1e-2)


@every
def test_parameters_equal_a_transformers_for_any_steps(arch):
    ours = (make_any(arch, "--ode-steps", steps) for steps in ("1", "7"))
    expected = count_parameters(make_any(TWINS[arch]))
    assert [count_parameters(model) for model in ours] == [expected] * 2


def test_the_published_small_model_has_6_164_800_parameters():
    """The count is for 65 characters, without positions and the biases that the authors omit.

    A layer has 4 C of these in its attention and 5 C in its FFN.
    """
    with torch.device("meta"):
        model = make_any("ot_transformer_lm_shakespeare", task=Task(65), sizes=[])
    positions = model.decoder.embed_positions.weight.numel()
    assert count_parameters(model) - positions - 5 * (4 + 5) * 320 == 6_164_800


@pytest.mark.parametrize("steps", [2, 3])
@every
def test_arclength_follows_the_states_between_steps(arch, steps):
    """The states are x_0, ..., x_M and not the layers', also where activations are recomputed."""
    results = []
    for extra in ([], ["--checkpoint-activations"]):
        model = make_any(arch, "--ode-steps", str(steps), *extra).eval()
        inputs = call(model, *batch())
        with torch.no_grad():
            states = [output[side] for side, output in hidden_states(model, *batch()).items()]
        assert [len(of_side) for of_side in states] == [steps + 1] * len(states)
        regularizers = with_arclength(model, inputs)[1]["regularizers"]
        results.append(regularizers["arclength"])
    assert (results[0] > 0).all() and torch.allclose(*results)
    results[1].sum().backward()
    assert any(p.grad is not None and p.grad.any() for p in model.parameters())


def hidden_states(model, source, target):
    """The outputs of the stacks, by the names of their states."""
    if not hasattr(model, "encoder"):
        return {"inner_states": model.decoder(target, return_all_hiddens=True)[1]}
    out = model.encoder(source, return_all_hiddens=True)
    stacks = {"encoder_states": out}
    if hasattr(model, "decoder"):
        decoded = model.decoder(target, encoder_out=out, return_all_hiddens=True)
        stacks["inner_states"] = decoded[1]
    return stacks


@pytest.mark.parametrize("method", ["euler", "midpoint", "rk4"])
@pytest.mark.parametrize("arch", ["ot_transformer", "ot_transformer_lm"])
def test_incremental_decoding_is_exact(arch, method):
    """A token attends to earlier tokens' states in the same layer and the same evaluation."""
    model = make_any(arch, "--ode-method", method, "--ode-steps", "2").eval()
    source, target = batch()
    inputs = {}
    if hasattr(model, "encoder"):
        inputs["encoder_out"] = model.encoder(source, source.ne(PAD).sum(1))
    full, _ = model.decoder(target, **inputs)
    state: dict = {}
    for length in range(1, target.size(1) + 1):
        newest, _ = model.decoder(target[:, :length], incremental_state=state, **inputs)
        assert torch.allclose(newest[:, 0], full[:, length - 1], atol=1e-5)


def test_a_translator_aligns_by_the_last_layer_of_the_last_step():
    model = make_any("ot_transformer", "--ode-steps", "2").eval()
    source, target = batch()
    _, extra = model(source, source.ne(PAD).sum(1), target)
    (attention,) = extra["attn"]
    assert attention.shape == (3, 7, 9)
    assert torch.allclose(attention.sum(-1), torch.ones(3, 7))


def test_a_trained_model_accepts_another_number_of_steps(tmp_path):
    """fairseq's overrides, the commands' ``--model-overrides``, set the number."""
    write_data(tmp_path)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(gzip.decompress(PATHS["ot_transformer_lm"].read_bytes()))
    tokens, results = torch.randint(4, 24, (2, 6)), []
    for steps in (5, 40, 80):
        overrides = {"data": str(tmp_path / "words"), "ode_steps": steps}
        (model,), *_ = load_model_ensemble_and_task([str(path)], overrides)
        assert len(model.decoder.layers[0].depths) == steps
        results.append(model.eval()(tokens)[0])
    fine = (results[2] - results[1]).norm()
    assert 0 < 4 * fine < (results[2] - results[0]).norm()


def test_attention_maps_cover_every_layer_in_every_step():
    model, (source, _) = make_any("ot_transformer_classifier", "--ode-steps", "3").eval(), batch()
    (block,) = model.encoder.layers
    x = torch.randn(9, 3, 16)
    ((_, answer),) = ask(model.encoder, "attention_maps").items()
    (maps,) = answer(x, source.eq(PAD))
    assert len(maps.weights) == 3 * len(block.layers) == 6
    assert torch.allclose(maps.weights.sum(-1), torch.ones(()))
    assert not torch.allclose(maps.weights[0], maps.weights[2], atol=1e-4)


def test_only_the_last_layer_in_the_last_evaluation_computes_attention_weights():
    """The weights of other evaluations would take memory in training, and are not returned."""
    model, tokens = make_model("ot_transformer", "--ode-method", "midpoint"), source_batch()[0]
    attentions = [layer.encoder_attn for layer in model.decoder.layers[0].layers]
    with record_calls(attentions) as calls:
        _, extra = model(**call(model, tokens, tokens))
    computed = [call.module for call in calls if call.output[1] is not None]
    assert len(calls) > len(attentions) and computed == attentions[-1:]
    assert extra["attn"][0].shape == (3, tokens.size(1), tokens.size(1))
