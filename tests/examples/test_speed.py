"""The scripts of speed compare several ways to do the same computation."""

import importlib
import sys
from argparse import Namespace

import pytest
import torch
from script_helpers import ROOT

sys.path.insert(0, str(ROOT / "examples/speed"))
ode, orthogonal = map(importlib.import_module, ("ode", "orthogonal"))
ARGS = Namespace(embed_dim=8, layers=1, length=3, device="cpu")


def test_all_ways_to_solve_compute_the_same_model():
    models, steps = zip(*(ode.build(name, ARGS) for name in ode.MODELS))
    sizes = [sum(p.numel() for p in model.parameters()) for model in models]
    losses = [step().item() for step in steps]
    for values, tolerance in ((sizes, 0), (losses, 1e-4)):
        *same, vanilla_transformer = values
        assert same == pytest.approx([same[0]] * 3, rel=tolerance)
        assert vanilla_transformer != pytest.approx(same[0], rel=1e-3)


def test_all_ways_make_equally_many_orthogonal_matrices():
    for way in orthogonal.WAYS:
        parts = orthogonal.build(way, width=6, layers=2)
        matrices = torch.cat([m.reshape(-1, 6, 6) for m in orthogonal.make(parts)])
        assert len(matrices) == 1 + 2 * (2 * 4 + 2)
        assert torch.allclose(matrices @ matrices.mT, torch.eye(6), atol=1e-5)


@pytest.mark.parametrize(
    "script, models, options",
    [
        (ode, ["node_transformer", "torchdiffeq"], "--layers 1 --length 3"),
        (orthogonal, ["blocks", "cayley"], "--layers 1"),
    ],
)
def test_a_script_prints_a_row_per_model(script, models, options, monkeypatch, capsys):
    words = ["script", "--models", *models, *options.split(), "--embed-dim", "8", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", [*words, "--threads", str(torch.get_num_threads())])
    script.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "|" in line]
    assert [row[2] for row in rows[2:]] == models
    assert f"x {models[0]} (min-max)" in rows[0][-1]
