"""Weights as safetensors: tied embeddings, classes, and damaged files."""

import dataclasses
import json

import pytest
from fairseq import checkpoint_utils

from fairseq_odeformers import load_translator
from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.checkpoints.state import read_state
from fairseq_odeformers.checkpoints.weights import OWN_SUM
from odeformers.__main__ import main

pytest.importorskip("safetensors")


@pytest.fixture
def exported(checkpoint, tmp_path):
    """A checkpoint, and the folder that it is exported to."""

    def export(name):
        path = checkpoint(name)
        main(["export", str(path), str(tmp_path / "out")])
        return path, tmp_path / "out"

    return export


def test_tied_embeddings_are_written_once_and_stay_tied(data, exported):
    _, folder = exported("transevolve_randomff_1")
    config = json.loads((folder / "config.json").read_text())
    assert "decoder.embed_tokens.weight" in config["shared"]
    translator = load_translator(folder, data / "words")
    model = translator.models[0]
    assert model.decoder.embed_tokens.weight is model.encoder.embed_tokens.weight


def test_an_export_keeps_the_classes(exported, tmp_path):
    """An export contains its classes, so the loaders refuse a data set with other classes."""
    path, _ = exported("transject")
    renamed = dataclasses.replace(Checkpoint.read(str(path)), task_state={"classes": ["b", "a"]})
    renamed.export(tmp_path / "named")
    assert Checkpoint.read(str(tmp_path / "named")).classes == ["b", "a"]


def test_options_of_an_export_can_be_changed(data, exported):
    """Options are overridden as in a checkpoint, also by fairseq's own loading function."""
    for path in map(str, exported("transject")):
        assert read_state(path, {"data": "other"})["cfg"].task.data == "other"
        overrides = {"data": str(data / "words")}
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task([path], overrides)
        assert task.cfg.data == overrides["data"]


def test_a_damaged_file_of_an_export_is_named(exported):
    _, folder = exported("transject")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(ValueError, match="model.safetensors is damaged .its SHA-256"):
        Checkpoint.read(str(folder))
    config = (folder / "config.json").read_text()
    flipped = config.replace('"seed": ', '"seed": 1')
    parts = json.loads(config)
    without = [json.dumps({**parts, name: None}) for name in ("sha256", OWN_SUM)]
    without += [json.dumps({k: v for k, v in parts.items() if k != OWN_SUM})]
    for damaged in ("{}", flipped, *without):
        assert damaged != config
        (folder / "config.json").write_text(damaged)
        with pytest.raises(ValueError, match="config.json is damaged, or not part of an export"):
            Checkpoint.read(str(folder))
