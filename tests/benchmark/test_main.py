"""The benchmark measures what it says on models of a few numbers; how fast is not tested."""

import json
import re

import pytest
import torch

from fairseq_odeformers.benchmark import __main__ as benchmark
from fairseq_odeformers.benchmark.timing import compare, measure

TINY = "--embed-dim 16 --ffn-embed-dim 32 --heads 2 --batch 2 --vocabulary 50 --rounds 1"
ROW = re.compile(r"\| 8 \| ([\w:]+) \| ([\d,]+) \| [\d.]+ \| [\d.]+ \([\d.]+-[\d.]+\) \|$", re.M)


@pytest.fixture
def measured(capsys):
    """The parameters of each model in the table that a command prints."""
    threads = torch.get_num_threads()

    def run(*options):
        benchmark.main([*options[:1], *TINY.split(), "--lengths", "8", *options[1:]])
        return dict(ROW.findall(capsys.readouterr().out))

    yield run
    torch.set_num_threads(threads)


@pytest.mark.parametrize(
    "what, models",
    [
        ("train", ["transformer", "transevolve_randomff_1", "macaron_transformer"]),
        ("train", ["transformer_lm", "transject_lm"]),
        ("train", ["transformer_classifier:matrix", "transject:2", "node_transformer"]),
        ("generate", ["transformer", "transevolve_fullff_2:factored"]),
        ("encoder", ["transformer", "transevolve_fullff_1:naive"]),
        ("infer", ["transformer_classifier:matrix", "transject:2", "macaron_classifier"]),
        ("ode", ["node_transformer", "vanilla_transformer"]),
        ("orthogonal", ["blocks", "cayley", "matrix_exp"]),
    ],
)
def test_every_measurement(measured, what, models):
    assert list(measured(what, "--models", *models)) == models


@pytest.mark.parametrize("what", ["train", "encoder", "infer"])
def test_half_precision(measured, what):
    assert measured(what, "--precision", "bf16", "--models", "transevolve_classifier_fullff_2")


def test_json(measured, tmp_path):
    """The file has the rows of the table, the settings, and what the figures depend on."""
    path = tmp_path / "table.json"
    printed = measured("infer", "--models", "macaron_classifier", "--json", str(path))
    found = json.loads(path.read_text())
    assert {row["model"]: f"{row['parameters']:,}" for row in found["rows"]} == printed
    assert found["settings"]["embed_dim"] == 16
    assert {"machine", "threads", "torch", "date"} <= set(found["environment"])


def test_steps_take_turns_and_ratios_are_of_one_round():
    """The first round does not count; each ratio has both times from the same round."""
    calls = []
    seconds = measure({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=2)
    assert "".join(calls) == "ababab"
    assert [len(times) for times in seconds.values()] == [2, 2]
    rows = compare({"a": [1.0, 8.0, 3.0], "b": [2.0, 2.0, 2.0]}, {"a": 5, "b": 6}, 7)
    assert rows[1].ratio == 1.5 and (rows[1].lowest_ratio, rows[1].highest_ratio) == (0.5, 4.0)
    assert rows[1].milliseconds == 2000 and rows[1].parameters == 6 and rows[1].length == 7


@pytest.mark.parametrize(
    "options, message",
    [
        ("train --models transevolv", "fairseq knows no architecture transevolv"),
        ("train --models transevolve:3", "--models transevolve:3: transevolve has no form 3"),
        ("infer --models transformer_classifier:fused", "transformer_classifier has no form fused"),
        ("train --models transevolve_fullff_1:naive", "is for the encoder alone"),
        ("ode --models rk4", "choose from plain, torchdiffeq, node_transformer"),
        ("ode --lengths 6 1", "--lengths 1: give 2 or more, or there is no padding"),
        ("orthogonal --models transject", "choose from cayley, blocks, matrix_exp"),
    ],
)
def test_what_is_not_measured(options, message):
    with pytest.raises(SystemExit) as error:
        benchmark.main([*options.split(), *TINY.split()])
    assert message in str(error.value)
