"""The example of an architecture of one's own trains, and is predicted with."""

import sys

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from fairseq_odeformers.checkpoints.load import load_model
from script_helpers import ROOT, USER_DIR, command, lines, module

from fairseq_odeformers.options import import_plugins

PLUGIN = ROOT / "examples" / "extending"
SIZES = ["--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 32, "--encoder-attention-heads", 2]
SIZES += ["--encoder-layers", 2]


@pytest.fixture(scope="module")
def words(training_data):
    return training_data / "words"


@pytest.fixture(scope="module")
def checkpoint(words, tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkpoints")
    command(
        *["train", words, "--user-dir", PLUGIN, "--arch", "ode_transformer_rk2", *SIZES],
        *["--task", "long_range_arena", "--criterion", "sequence_classification"],
        *["--optimizer", "adam", "--lr", 0.003, "--batch-size", 8, "--max-update", 2],
        *["--save-dir", folder, "--no-progress-bar", "--disable-validation"],
    )
    return folder / "checkpoint_last.pt"


def test_every_program_takes_the_folder(words, checkpoint, tmp_path):
    """Or several."""

    def run(*line):
        return module("fairseq_odeformers", *line, "--user-dir", PLUGIN)

    table, text = tmp_path / "test.tsv", tmp_path / "text"
    predict = ["predict", words, "--path", checkpoint, "--cpu"]
    assert "valid: accuracy" in run(*predict, "--split", "valid", "--output", table)
    assert len(lines(table)) == 1 + 8
    text.write_text("1 1 2\n")
    assert "\t1 1 2\t" in run(*predict, "--text", text, "--user-dir", USER_DIR)
    run("export", checkpoint, tmp_path / "model.pt2", "--data", words)
    assert (tmp_path / "model.pt2").exists()
    for what in ("attention", "states"):
        out = ["--data", words, "--out", tmp_path / what, "--split", "valid", "--cpu"]
        run("analyse", what, checkpoint, *out)
        assert (tmp_path / what / "index.md").exists()
    sizes = "--lengths 8 --batch 1 --rounds 1 --vocabulary 20 --layers 1 --embed-dim 16"
    sizes += " --ffn-embed-dim 32 --heads 2 --models transformer_classifier ode_transformer_rk2"
    assert "| ode_transformer_rk2 |" in run("benchmark", "encoder", *sizes.split())


@pytest.fixture(scope="module")
def plugin():
    import_plugins([str(PLUGIN)])
    return sys.modules["extending"]


def test_the_option_reaches_the_layers(plugin, checkpoint):
    """fairseq's layers take fairseq's config, which has it."""
    model, *_ = load_model(str(checkpoint))
    assert [layer.method for layer in model.encoder.layers] == [plugin.METHODS[2]] * 2


@pytest.mark.parametrize("order", [1, 2, 4])
def test_order_of_the_method(plugin, monkeypatch, order):
    """On y' = y a layer multiplies by the Taylor polynomial of exp(1) of this order."""

    config = TransformerConfig()
    config.encoder.embed_dim = config.encoder.ffn_embed_dim = 8
    config.encoder.attention_heads = 2
    config.runge_kutta_order = order
    layer = plugin.RungeKuttaLayer(config)
    monkeypatch.setattr(plugin.EncoderLayer, "forward", lambda self, y, *args: 2 * y)
    y = layer(torch.ones(3, 2, 8), None)
    expected = {1: 2.0, 2: 2.5, 4: 1 + 1 + 1 / 2 + 1 / 6 + 1 / 24}[order]
    assert torch.allclose(y, torch.full((3, 2, 8), expected))
