"""Faults in a user's code end a comparison before the first training, with file and line."""

import pytest

from tests.odeformers.compare.outside.commands import refuse

PLUGIN = """
from fairseq.models import register_model
from fairseq_odeformers.models.baselines.models import *
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
    config = type(f"Config_{name}", (TransformerClassifierConfig,), {})
    model = type(f"Model_{name}", (TransformerClassifier,), {"encoder_class": encoder})
    register_model(name, dataclass=config)(model)
"""
PLACE = "{plugin}/__init__.py, line 9: NameError: name 'undefined_name' is not defined"


@pytest.mark.parametrize(
    "options, parts",
    [
        (["mistake[--layers 2 --width 32]"], [PLACE]),
        (["mistake", "--no-check"], [PLACE]),
        (["not_a_number"], ["{plugin}/__init__.py, line 12", "NotANumber"]),
    ],
)
def test_a_fault_is_reported_in_one_line(options, parts, data, tmp_path):
    plugin = tmp_path / "faulty_layers"
    plugin.mkdir()
    (plugin / "__init__.py").write_text(PLUGIN)
    out = tmp_path / "runs"
    words = ["--size", "small", "--user-dir", plugin, "--out", out, "--archs", *options]
    message = refuse("compare", data, *words)
    for text in parts:
        assert text.format(plugin=plugin) in message
    assert not out.exists()
