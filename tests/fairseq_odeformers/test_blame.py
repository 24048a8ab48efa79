"""An error in a plugin is one line with the file and line where it occurs."""

from argparse import Namespace

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_odeformers.errors import describe, place_of
from fairseq_odeformers.registry import import_plugins

TWICE = """
import fairseq_odeformers
from fairseq.models import register_model
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier

@register_model("transject")
class Another(SequenceClassifier):
    pass
"""


@pytest.mark.parametrize(
    "text, message",
    [
        ("import os\nimport does_not_exist\n", "line 2: ModuleNotFoundError: No module named"),
        ("x = = 1\n", "line 1: SyntaxError: invalid syntax: x = = 1$"),
        ("x = 1\nprint(y)\n", "line 2: NameError: name 'y' is not defined"),
        (TWICE, r"line 6: ValueError: @register_model\('transject'\): .*choose another"),
    ],
)
def test_a_plugin_that_cannot_be_imported(tmp_path, text, message):
    folder = tmp_path / f"{tmp_path.name}_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    with pytest.raises(ValueError, match=rf"{folder}/__init__\.py, {message}"):
        import_plugins([str(folder)])


def test_a_folder_without_a_module(tmp_path):
    absent = tmp_path / "absent"
    with pytest.raises(ValueError, match=f"--user-dir {absent}: no such folder; give one with an"):
        import_plugins([str(absent)])
    with pytest.raises(ValueError, match=f"--user-dir {tmp_path}: no __init__.py there; give"):
        import_plugins([str(tmp_path)])


def test_want_of_memory_is_told_in_words():
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")
    assert describe(error) == "RuntimeError: out of memory; give smaller sizes or batches"
    assert place_of(error) is None


@pytest.mark.parametrize(
    "owner, name, meant",
    [
        (Namespace(rk_order=2), "rk_ordr", "rk_order"),
        (OmegaConf.structured(TransformerConfig), "quant_nois", "quant_noise"),
        (nn.Linear(2, 2), "in_feature", "in_features"),
        (torch, "sofmax", "softmax"),
    ],
)
def test_a_misspelt_attribute_is_asked_for(owner, name, meant):
    with pytest.raises(AttributeError, match=name) as raised:
        getattr(owner, name)
    assert f"; did you mean {meant}" in describe(raised.value)
