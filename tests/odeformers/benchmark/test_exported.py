"""An exported folder is measured beside its checkpoint."""

import json

import pytest

from odeformers.benchmark.command import main as benchmark
from odeformers.export import main as export


@pytest.mark.slow
def test_an_export_generates_beside_its_checkpoint(checkpoint, data, tmp_path, monkeypatch):
    monkeypatch.chdir(data)
    names = [str(checkpoint("macaron_transformer")), str(tmp_path / "out")]
    export([*names, "--to", "torch"])
    table = tmp_path / "table.json"
    sizes = "--batch 2 --lengths 4 --layers 1 --beam 2 --rounds 1 --json".split()
    benchmark(["generate", "--models", *names, *sizes, str(table)])
    rows = json.loads(table.read_text())["rows"]
    assert [row["model"] for row in rows] == names
    assert len({row["parameters"] for row in rows}) == 1
    assert all(row["value"] > 0 for row in rows)
