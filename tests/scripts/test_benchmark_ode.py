"""The ways to solve are the same model; how fast they are is not tested."""

import importlib
import re
from argparse import Namespace

import pytest
import torch
from script_helpers import SCRIPTS

ROW = re.compile(r"\| ([\w:]+) \| ([\d,]+) \| [\d.]+ \| [\d.]+ \([\d.]+-[\d.]+\) \|$", re.MULTILINE)


def test_the_ways_to_solve(monkeypatch, capsys):
    monkeypatch.syspath_prepend(SCRIPTS)
    threads = torch.get_num_threads()
    monkeypatch.setattr("sys.argv", ["benchmark_ode", "--max-length", "2", "--rounds", "1"])
    importlib.import_module("benchmark_ode").main()
    torch.set_num_threads(threads)
    rows = dict(ROW.findall(capsys.readouterr().out))
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
