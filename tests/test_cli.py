"""What ``python -m fairseq_odeformers`` prints."""

import re

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import resolved
from omegaconf import OmegaConf
from script_helpers import USER_DIR

from fairseq_odeformers.cli import main, option_rows, registered


def run(monkeypatch, capsys, *arguments, terminal=False):
    monkeypatch.setattr("sys.argv", ["fairseq_odeformers", *arguments])
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    main()
    return capsys.readouterr().out


def test_a_script_gets_the_folder_alone(monkeypatch, capsys):
    assert run(monkeypatch, capsys) == USER_DIR + "\n"


@pytest.mark.parametrize("arguments, terminal", [([], True), (["list"], False)])
def test_lists_what_is_registered(monkeypatch, capsys, arguments, terminal):
    words = run(monkeypatch, capsys, *arguments, terminal=terminal).split()
    for name in ("transevolve_fullff_2", "transject_lra", "parity", "sequence_classification"):
        assert words.count(name) == 1
    assert "transformer_iwslt_de_en" not in words  # fairseq's own


def test_options_of_an_architecture(monkeypatch, capsys):
    """The defaults are those of the preset; other options are named where they are the default."""
    out = run(monkeypatch, capsys, "options", "transevolve_randomff_1")
    assert re.search(r"^--encoder-depth +6 +depth of an encoder block$", out, re.M)
    assert re.search(r"^--decoder-depth +--encoder-depth +depth", out, re.M)


@pytest.mark.parametrize("arch", registered()["architectures"])
def test_options_are_those_of_the_command_line(arch):
    """Of each architecture, all with a help, and no default that another option does not have."""
    _, *rows = option_rows(arch)
    names = {name.split(",")[0] for name, _, _ in rows}
    config = OmegaConf.to_container(resolved(arch), enum_to_str=True)
    assert {name[2:].replace("-", "_") for name in names} <= set(config)
    assert len(names) == len(rows) >= 4
    for name, default, _ in rows:
        assert not default.startswith("--") or default in names, name


def test_unknown_architecture(monkeypatch, capsys):
    with pytest.raises(SystemExit) as stopped:
        run(monkeypatch, capsys, "options", "transevolve_fulff_2")
    assert "did you mean transevolve_fullff_2" in str(stopped.value)
    assert "transevolve_fulff_2" not in ARCH_MODEL_REGISTRY
