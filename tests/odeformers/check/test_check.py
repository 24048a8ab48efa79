"""Every architecture has every property, and a model with a fault lacks the one that names it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from forms import every_form
from script_helpers import module

from odeformers.check.command import check, judge, main, require
from odeformers.check.properties import PROPERTIES, Property, difference

FINITE = "forward and backward are finite"
STATELESS = "earlier batches change nothing"
REPEATABLE = "two evaluations of a batch give the same numbers"
ADDITIVE = "two batches have the gradient of their union"
CAUSAL = "no token sees a later one"
PADDING = "padding changes nothing"
BATCH = "the other texts of a batch change nothing"
INCREMENTAL = "incremental decoding equals full decoding"
BEAMS = "caches follow their beams"
EXPORTS = "the model can be exported"
ALL = {prop.name for prop in PROPERTIES}
FAULTS = {
    "sound": set(),
    "look_ahead": {CAUSAL},
    "padding": {PADDING},
    "mask": {PADDING},
    "batch": {BATCH},
    "cache": {INCREMENTAL},
    "not_a_number": {FINITE},
    "dropout": {REPEATABLE},
    "memory": {STATELESS},
    "beams": {BEAMS},
    "mistake": {FINITE},
    "shape": {FINITE},
}


@pytest.mark.parametrize("line", every_form())
def test_every_architecture_has_every_property(line):
    assert [str(verdict) for verdict in check(*line.split()) if verdict.fault] == []


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The output of the command for the plugin with faults, by architecture, and its status."""
    folder = tmp_path_factory.mktemp("plugin") / "faulty_plugin"
    folder.mkdir()
    shutil.copy(Path(__file__).parent / "faults.py", folder / "__init__.py")
    words = ["check", "--user-dir", folder, "--dropout", "0.1"]  # whose value is no architecture
    with pytest.raises(subprocess.CalledProcessError) as failed:
        module("odeformers", *words, cwd=folder.parent)
    blocks = re.split(r"^(?=\w)", failed.value.output, flags=re.M)
    return {block.splitlines()[0]: block for block in blocks if block}, failed.value.returncode


@pytest.mark.parametrize("arch", FAULTS)
def test_a_fault_fails_only_its_own_row(printed, arch):
    rows = re.findall(r"^  FAIL  (.*?)(?:  |$)", printed[0][arch], re.M)
    assert {*rows} == FAULTS[arch]


def test_all_architectures_of_a_plugin_are_checked_by_default(printed, capsys):
    assert printed[0].keys() == FAULTS.keys()
    with pytest.raises(SystemExit):
        main([])
    assert "error: name an ARCH before other options, or pass a" in capsys.readouterr().err


def test_a_plugin_without_architectures_is_refused(tmp_path, capsys):
    folder = tmp_path / "plugin_without_models"
    folder.mkdir()
    (folder / "__init__.py").touch()
    with pytest.raises(SystemExit):
        main(["--user-dir", str(folder)])
    assert f"error: --user-dir {folder} registers no architecture; " in capsys.readouterr().err


def test_the_status_is_1_if_there_is_a_fault(printed):
    assert printed[1] == 1


@pytest.mark.parametrize(
    "arch, code, pattern",
    [
        (
            "mistake",
            "return x + undefined_name",
            "FILE, line LINE: NameError: name 'undefined_name' is .*, in decoder.layers.0 .Mistake",
        ),
        ("shape", "x, *rest = super", "FILE, line LINE: .*, in decoder.layers.1.self_attn "),
        (
            "not_a_number",
            "def forward(self, x, *args, **kwargs):\n        x, *rest",
            "first from decoder.layers.0 .NotANumber., .*FILE, line LINE: look for",
        ),
        (
            "dropout",
            "def forward(self, x, *args, **kwargs):\n        x, *rest",
            "first from decoder.layers.0 .Dropout., .*FILE, line LINE: evaluation is",
        ),
        (
            "memory",
            "def forward(self, x, *args, **kwargs):\n        x, *rest",
            "first from decoder.layers.0 .Memory., .*FILE, line LINE: keep nothing",
        ),
        (
            "look_ahead",
            "def forward(self, x, *args, **kwargs):\n        x, *rest",
            "first from decoder.layers.0 .LookAhead., .*FILE, line LINE: mask",
        ),
        (
            "padding",
            "def forward(self, x, *args, **kwargs):\n        return super().forward(x + x.mean(0)",
            "first from encoder.layers.0 .Padding., .*FILE, line LINE: keep padding",
        ),
        (
            "mask",
            "def forward(self, x, encoder_padding_mask, attn_mask=None)",
            "first from encoder.layers.0.self_attn .*FILE, line LINE: keep padding",
        ),
        (
            "batch",
            "def forward(self, x, *args, **kwargs):\n        return super().forward(x - x.mean(1",
            "first from encoder.layers.0 .Batch., .*FILE, line LINE: normalise",
        ),
        (
            "cache",
            "def forward(self, x, *args, **kwargs):\n        x, *_ = super()",
            "first from decoder.layers.0.self_attn .*FILE, line LINE: each evaluation",
        ),
        (
            "beams",
            "def forward(self, x, encoder_out=None",
            "first from decoder.layers.0 .Beams., .*FILE, line LINE: reorder",
        ),
    ],
)
def test_a_fault_is_named_with_its_module_file_and_line(arch, code, pattern, printed):
    before, _ = (Path(__file__).parent / "faults.py").read_text().split(code, 1)
    line = before.count("\n") + 1
    pattern = pattern.replace("FILE", r"faulty_plugin/__init__\.py").replace("LINE", str(line))
    assert re.search(pattern, printed[0][arch])


@pytest.mark.parametrize(
    "arch, prerequisite, skipped",
    [
        # A text's padding is later.
        ("look_ahead", CAUSAL, {PADDING, ADDITIVE, INCREMENTAL, EXPORTS}),
        ("batch", BATCH, {PADDING, ADDITIVE, EXPORTS}),
        ("mask", PADDING, {ADDITIVE, EXPORTS}),
        ("dropout", REPEATABLE, ALL - {FINITE, STATELESS, REPEATABLE}),
    ],
)
def test_rows_that_depend_on_a_failed_one_are_skipped(arch, prerequisite, skipped, printed):
    rows = re.findall(r"^  skip  (.*?)  +(.*)", printed[0][arch], re.M)
    assert dict(rows) == dict.fromkeys(skipped, f"not tested: {prerequisite!r} must pass first")


def test_a_model_that_cannot_be_built_fails_or_is_refused(monkeypatch):
    """A bad value on the command line is refused; otherwise the row of building fails."""
    with pytest.raises(ValueError, match="^transject --encoder-layers -1: give at least 1 and"):
        check("transject", "--encoder-layers", "-1")
    monkeypatch.setattr(ARCH_MODEL_REGISTRY["transject"], "build_model", None)
    verdicts = check("transject")
    assert next(verdicts).fault == "'NoneType' object is not callable"
    assert {str(verdict).split()[0] for verdict in verdicts} == {"skip"}
    with pytest.raises(ValueError, match="fails 1 of the checks, first 'the model can be built'"):
        require("transject")


@pytest.mark.parametrize("place", [0, 1])
def test_a_difference_that_is_not_a_number_fails(place):
    """A NaN in any text's output fails the property."""
    texts = [torch.zeros(2), torch.zeros(2)]
    broken = [text.clone() for text in texts]
    broken[place][1] = float("nan")
    assert difference(broken, texts) == float("inf")
    prop = Property(lambda _: float("nan"), "name", 0.1, "advice")
    assert judge(None, prop).fault == "advice"


@pytest.mark.parametrize(
    "name, remedy",
    [
        (
            "macaron",
            r"did you mean macaron_transformer or macaron_classifier or macaron_transformer_lm\?",
        ),
        ("transformer_classifer_prenorm", r"did you mean transformer_classifier_prenorm\?"),
        ("misspelt_name", "odeformers list shows all"),
        ("heun", r"did you mean heun_1 or own_heun_2\?"),
    ],
)
def test_an_unknown_architecture_is_refused_first(name, remedy, capsys, monkeypatch):
    """No earlier architecture is checked, and only similar or longer names are suggested."""
    for registered in ("heun_1", "own_heun_2"):
        monkeypatch.setitem(ARCH_MODEL_REGISTRY, registered, ARCH_MODEL_REGISTRY["transject"])
    with pytest.raises(ValueError, match=rf"{name}: .* architecture; {remedy}"):
        main(["transject", name])
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    "task, message",
    [
        (
            "translation",
            "transject: it is for .* parity, not for --task translation; odeformers list .*",
        ),
        ("translaton", r"--task translaton: no such task; did you mean translation.*\?"),
        ("words", "--task words: no such task; transject is for .* parity"),
    ],
)
def test_a_task_that_cannot_train_the_architecture_is_refused(task, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        check("transject", task=task)


@pytest.mark.parametrize(
    "arch, option, remedy",
    [
        ("transformer", "--droput", "did you mean --dropout"),
        ("transformer", "--layers", "fairseq calls it --encoder-layers or"),
        ("transformer", "--layer", "fairseq calls it --encoder-layers or"),
        ("transject", "--encoder_experts", "did you mean --encoder-experts"),
    ],
)
def test_an_unknown_option_is_refused(arch, option, remedy):
    with pytest.raises(ValueError, match=rf"{option} 1; {remedy}\b"):
        check(arch, option, "1")


def test_a_mistake_in_a_preset_is_named_with_its_file_and_line(monkeypatch):
    def preset(args):
        raise TypeError("no sizes")

    monkeypatch.setitem(ARCH_CONFIG_REGISTRY, "transject", preset)
    with pytest.raises(ValueError, match=r"test_check\.py, line \d+: TypeError: no sizes"):
        check("transject")
