"""Faults in a plugin's layers are found before the first training, in one line."""

import subprocess
import sys

import pytest
from script_helpers import parallel_data

PLUGIN = """
import fairseq_odeformers
from fairseq.models import register_model
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer import Encoder
from fairseq_odeformers.modules.transformer_layer import EncoderLayer

class Mistake(EncoderLayer):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) + undefined_name

class NotANumber(EncoderLayer):
    def forward(self, *args, **kwargs):
        return super().forward(*args, **kwargs) * float("nan")

for name, layer in {"mistake": Mistake, "not_a_number": NotANumber}.items():
    encoder = type("FaultyEncoder", (Encoder,), {"layer_class": layer})
    config = type(f"Config_{name}", (PreNormTransformerConfig,), {})
    model = type(f"Model_{name}", (PreNormTransformer,), {"encoder_class": encoder})
    register_model(name, dataclass=config)(model)
"""
PLACE = "{plugin}/__init__.py, line 13: NameError: name 'undefined_name' is not defined"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    parallel_data(folder, "de", "en", train=40, valid=8, test=8)
    (folder / "faulty_layers").mkdir()
    (folder / "faulty_layers" / "__init__.py").write_text(PLUGIN)
    return folder


@pytest.mark.parametrize(
    "arch, option, messages",
    [
        ("mistake", [], [f"'forward and backward are finite': {PLACE}"]),
        (
            "mistake[--layers 2 --width 32 --dropout 0]",
            [],
            [f"'forward and backward are finite': {PLACE}"],
        ),
        ("mistake", ["--no-check"], [f"mistake cannot be trained ({PLACE})"]),
        (
            "not_a_number",
            [],
            ["from mul in encoder.layers.0 (NotANumber), {plugin}/__init__.py, line 17: look for"],
        ),
        ("not_a_number", ["--no-check"], ["(the loss or a gradient is not finite)"]),
    ],
)
def test_a_fault_is_told_in_one_line(folder, arch, option, messages):
    plugin = folder / "faulty_layers"
    line = ["compare", folder / "data-bin", "--archs", "transformer_prenorm", arch, "--dry-run"]
    line += ["--size", "small", "--user-dir", plugin, *option]
    command = [sys.executable, "-W", "ignore", "-m", "fairseq_odeformers", *line]
    run = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    last = run.stderr.splitlines()[-1]
    assert last.startswith("odeformers compare: error: ")
    for message in messages:
        assert message.format(plugin=plugin) in last
    assert not (folder / "checkpoints").exists()
