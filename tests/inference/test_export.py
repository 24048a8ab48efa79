"""The command ``odeformers export``, whose files stand for the checkpoint."""

import json
import subprocess
import sys

import pytest

from fairseq_odeformers import load_classifier
from fairseq_odeformers.cli import main


@pytest.fixture
def path(data, checkpoint, monkeypatch):
    """Of the checkpoint of a classifier; the current folder has its data set, ``words``."""
    monkeypatch.chdir(data)
    return str(checkpoint("transject"))


def test_weights(path, tmp_path, capsys):
    pytest.importorskip("safetensors")
    out = str(tmp_path / "folder")
    main(["export", path, out])
    assert f"wrote {out}" in capsys.readouterr().out
    loaded, original = (load_classifier(name, "words") for name in (out, path))
    assert loaded.classify("1 2 3") == original.classify("1 2 3")


USE = """
import json, sys
sys.modules.update(dict.fromkeys(("fairseq", "fairseq_odeformers", "omegaconf"), None))
import torch
extra = {"description.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra).module()
found = json.loads(extra["description.json"])
words = [found["vocabulary"].index(word) for word in sys.argv[2].split()]
tokens = torch.tensor([found["start"] + words + found["end"]])
print(json.dumps(dict(zip(found["classes"], program(tokens)[0].tolist()))))
"""


def test_program(path, tmp_path, capsys):
    """It classifies a text in a process that cannot import fairseq."""
    out = tmp_path / "model.pt2"
    main(["export", path, str(out), "--data", "words"])
    assert f"wrote {out}" in capsys.readouterr().out
    line = [sys.executable, "-c", USE, str(out), "3 1 2"]
    found = json.loads(subprocess.run(line, check=True, capture_output=True, text=True).stdout)
    assert found == pytest.approx(load_classifier(path, "words").classify("3 1 2").probabilities)
