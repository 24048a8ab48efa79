"""Sizes, and another number of steps than the one of the training."""

import pytest
import torch
from fairseq.checkpoint_utils import load_model_ensemble
from fairseq.modules import FairseqDropout
from helpers import Task, call, count_parameters, make_any, source_batch
from make_checkpoints import training_config
from script_helpers import trainings

TWINS = {
    "diffeq_transformer": "transformer_prenorm",
    "diffeq_transformer_classifier": "transformer_classifier_prenorm",
    "diffeq_transformer_lm": "transformer_lm_prenorm",
}


@pytest.mark.parametrize("arch", TWINS)
def test_models_are_as_large_as_the_transformer(arch):
    """At the default E the sizes agree to a part in a thousand, where a step counts as a layer."""
    ours, theirs = (count(name) for name in (arch, TWINS[arch]))
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize(
    "size, options, width, parameters",
    [
        ("small", [], 768, 188_254_152),
        ("medium", [], 1024, 1_274_538_688),
        ("medium", ["--time-embed-dim", "48"], 1024, 669_803_872),
        ("large", [], 1280, 1_974_541_760),
    ],
)
def test_parameters_of_the_published_configurations(size, options, width, parameters):
    """Counts equal the authors' modules; fairseq has two more rows of learned positions."""
    arch = f"diffeq_transformer_lm_gpt2_{size}"
    ours = count(arch, "--tokens-per-sample", "1024", *options, symbols=50_257)
    assert ours - 2 * width == parameters


def count(arch, *options, symbols=1000):
    with torch.device("meta"):
        model = make_any(arch, *options, task=Task(symbols), sizes=[])
    return count_parameters(getattr(model, "encoder", model))


@pytest.mark.parametrize("arch", TWINS)
def test_each_dropout_has_its_own_option(arch):
    options = {"dropout": 0.1, "attention-dropout": 0.2, "activation-dropout": 0.3}
    model = make_any(arch, *(f"--{name}={p}" for name, p in options.items()))
    names = {name: m.p for name, m in model.named_modules() if isinstance(m, FairseqDropout)}
    branches = {name.split(".layers.")[1]: p for name, p in names.items() if ".layers." in name}
    for name, p in branches.items():
        assert p == options[name.rpartition(".")[2].removesuffix("_module").replace("_", "-")]
    assert {*branches.values()} == {*options.values()}


@pytest.mark.parametrize("arch", TWINS)
def test_evaluation_steps_change_no_parameters(arch):
    """Parameters load with any number of steps, and with the training's the output is the same."""
    model, tokens = make_any(arch).eval(), source_batch()[0]
    out = model(**call(model, tokens, tokens))[0]
    for steps, same in (("2", True), ("4", False)):
        other = make_any(arch, "--eval-steps", steps).eval()
        other.load_state_dict(model.state_dict())
        assert torch.equal(other(**call(other, tokens, tokens))[0], out) == same


def test_a_checkpoint_is_evaluated_and_fine_tuned_with_other_steps(training_data, monkeypatch):
    monkeypatch.chdir(training_data)
    arch, saved = "diffeq_transformer_lm", training_data / "trained"
    first = training_config(arch, checkpoint={"save_dir": str(saved)})
    start = str(saved / "checkpoint_last.pt")
    second = training_config(
        arch,
        model={"eval_steps": 4},
        checkpoint={"finetune_from_model": start, "save_dir": str(saved / "tuned")},
        lr_scheduler={"lr": [0.0]},
        optimization={"lr": [0.0]},
    )
    trainings([first], training_data)
    trainings([second], training_data)
    (tuned,), _ = load_model_ensemble([str(saved / "tuned/checkpoint_last.pt")])
    (overridden,), _ = load_model_ensemble([start], arg_overrides={"eval_steps": 4})
    (trained,), _ = load_model_ensemble([start])
    tokens = torch.randint(4, 24, (2, 7))
    outputs = [model.eval()(tokens)[0] for model in (tuned, overridden, trained)]
    assert torch.equal(outputs[0], outputs[1]) and not torch.allclose(outputs[1], outputs[2])
