"""An error about an input is one line that names it, and the place in a plugin's code."""

from argparse import Namespace

import pytest
import torch
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf
from torch import nn

from fairseq_odeformers.errors import InputError, did_you_mean, explain, naming_faults, place_of
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
        ("x = = 1\n", "line 1: SyntaxError: invalid syntax: x = = 1\\)$"),
        ("x = 1\nprint(y)\n", "line 2: NameError: name 'y' is not defined"),
        (TWICE, r"line 6: ValueError: @register_model\('transject'\): .*choose a different one"),
    ],
)
def test_a_plugin_that_cannot_be_imported_is_named(tmp_path, text, message):
    folder = tmp_path / f"{tmp_path.name}_plugin"
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    fault = rf"--user-dir {folder} cannot be imported \({folder}/__init__\.py, {message}"
    with pytest.raises(InputError, match=fault):
        import_plugins([str(folder)])


def test_a_plugin_folder_without_a_module_is_refused(tmp_path):
    absent = tmp_path / "absent"
    with pytest.raises(ValueError, match=f"--user-dir {absent}: no such folder; pass one with an"):
        import_plugins(str(absent))
    with pytest.raises(ValueError, match=f"--user-dir {tmp_path}: no __init__.py there; pass"):
        import_plugins(tmp_path)


def test_lack_of_memory_is_explained():
    error = RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried")
    assert explain(error) == "out of memory; use smaller sizes or batches"
    assert place_of(error) is None


@pytest.mark.parametrize(
    "owner, name, suggestion",
    [
        (Namespace(rk_order=2), "rk_ordr", "rk_order"),
        (OmegaConf.structured(TransformerConfig), "quant_nois", "quant_noise"),
        (nn.Linear(2, 2), "in_feature", "in_features"),
        (torch, "sofmax", "softmax"),
    ],
)
def test_a_misspelt_attribute_gets_a_suggestion(owner, name, suggestion):
    with pytest.raises(AttributeError, match=name) as raised:
        getattr(owner, name)
    assert f"; did you mean {suggestion}" in explain(raised.value)


@pytest.mark.parametrize(
    "error, reason",
    [
        (KeyError("a"), "KeyError: 'a'"),
        (MemoryError(), "MemoryError"),
        (RuntimeError("In x:\n\tno key y\n\tnor z"), "no key y"),
        (SystemExit("error: no task"), "error: no task"),
        (OSError("bad magic"), "bad magic"),
        (ValueError("file has no rows"), "file has no rows"),
        (SyntaxError("x y", ("a", 1, 1, "")), "a, line 1: SyntaxError: x y"),
    ],
)
def test_an_error_of_a_library_becomes_a_line_with_the_input(error, reason):
    with pytest.raises(InputError) as raised, naming_faults("file", "is damaged"):
        raise error
    assert str(raised.value) == f"file is damaged ({reason})"


def test_a_full_disk_that_causes_an_error_of_a_library_is_named():
    with pytest.raises(InputError, match="^file cannot be read .*28.* no space"):
        with naming_faults("file"):
            try:
                raise OSError(28, "no space")
            except OSError as error:
                raise RuntimeError("unexpected position in it") from error


@pytest.mark.parametrize(
    "error",
    [
        InputError("another: line 3"),
        FileNotFoundError("none"),
        OSError(28, "full", "a"),
        ImportError("x"),
        SystemExit(143),
        KeyboardInterrupt(),
    ],
)
def test_a_complete_error_is_not_wrapped(error):
    with pytest.raises(type(error)) as raised, naming_faults("file"):
        raise error
    assert raised.value is error


@pytest.mark.parametrize(
    "name, names, remedy",
    [
        ("droput", ["drop", "dropout"], "did you mean dropout?"),
        ("--metric", ["--lr", "--best-metric"], "did you mean --best-metric?"),
        ("heun", ["own_heun_2", "heun_1"], "did you mean heun_1 or own_heun_2?"),
        ("-l", ["--lr", "--layers"], "look"),
    ],
)
def test_suggestions_prefer_similar_names_to_longer_ones(name, names, remedy):
    assert did_you_mean(name, names, "look") == remedy
