"""The benchmarks measure what they say on models of a few numbers; how fast is not tested."""

import importlib
import re
from argparse import Namespace

import pytest
import torch
from script_helpers import SCRIPTS, refusal

TINY = "--embed-dim 16 --ffn-embed-dim 32 --heads 2 --blocks 1 --batch 2 --vocabulary 50 --rounds 1"
ROW = re.compile(r"\| ([\w:]+) \| ([\d,]+) \| [\d.]+ \| [\d.]+ \([\d.]+-[\d.]+\) \|$", re.MULTILINE)


@pytest.fixture
def measured(monkeypatch, capsys):
    """The parameters of each model in the table that a script prints."""
    monkeypatch.syspath_prepend(SCRIPTS)
    threads = torch.get_num_threads()

    def measure(script, *options):
        monkeypatch.setattr("sys.argv", [script, *options])
        importlib.import_module(script).main()
        return dict(ROW.findall(capsys.readouterr().out))

    yield measure
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "what, models",
    [
        ("train", ["transformer", "transevolve_randomff_1", "macaron_transformer"]),
        ("generate", ["transformer", "transevolve_fullff_2:factored"]),
        ("encoder", ["transformer", "transevolve_fullff_1:literal"]),
        ("classify", ["transformer_classifier", "transevolve_classifier_fullff_1"]),
        ("infer", ["transformer_classifier:materialized", "transject:2", "macaron_classifier"]),
        ("orthogonal", ["blocks", "cayley", "matrix_exp"]),
    ],
)
def test_every_measurement(measured, what, models):
    rows = measured("benchmark", what, *TINY.split(), "--lengths", "8", "--models", *models)
    assert list(rows) == models


def test_the_ways_to_solve(measured):
    rows = measured("benchmark_ode", "--max-length", "2", "--rounds", "1")
    assert rows["plain"] == rows["torchdiffeq"] == rows["node_transformer"]
    assert rows["vanilla_transformer"] != rows["plain"]


def test_the_ways_to_solve_have_the_same_loss(monkeypatch):
    monkeypatch.syspath_prepend(SCRIPTS)
    script = importlib.import_module("benchmark_ode")
    args = Namespace(embed_dim=8, layers=2, max_length=4, seed=1)
    losses = {name: script.training_step(name, args)[0]().item() for name in script.MODELS}
    other = losses.pop("vanilla_transformer")
    assert all(loss == pytest.approx(losses["plain"], rel=1e-4) for loss in losses.values())
    assert other != pytest.approx(losses["plain"], rel=1e-3)


@pytest.mark.parametrize(
    "options, message",
    [
        (["train", "--models", "node_transformer_mt"], "choose from the families transformer, "),
        (["classify", "--models", "vanilla_transformer"], "choose from the families transevolve, "),
        (["orthogonal", "--models", "transject"], "choose from blocks, cayley, matrix_exp"),
        (["train", "--models", "transevolve:3"], "--models transevolve:3: no such form"),
        (["infer", "--models", "transevolve_classifier_fullff_1:literal"], "the encoder alone"),
    ],
)
def test_models_that_are_not_there(monkeypatch, capsys, options, message):
    monkeypatch.syspath_prepend(SCRIPTS)
    assert message in refusal(
        importlib.import_module("benchmark").main, options, monkeypatch, capsys
    )
