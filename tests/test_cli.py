"""The command ``odeformers``: its listings, and errors in one line."""

import re

import pytest
from helpers import resolved
from omegaconf import OmegaConf
from script_helpers import USER_DIR

from fairseq_odeformers.cli import COMMANDS, main, option_rows, registered


def test_a_script_gets_the_folder_alone(capsys):
    main([])
    assert capsys.readouterr().out == USER_DIR + "\n"


def test_a_terminal_gets_the_help(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    with pytest.raises(SystemExit, match="^0$"):
        main([])
    assert set(COMMANDS) <= set(capsys.readouterr().out.split())


def test_list(capsys):
    main(["list"])
    words = capsys.readouterr().out.split()
    for name in ("transevolve_fullff_2", "transject_lra", "parity", "sequence_classification"):
        assert words.count(name) == 1
    assert "transformer_iwslt_de_en" not in words  # fairseq's own


def test_options_of_an_architecture(capsys):
    """The defaults are the preset's; another option is named where it is the default."""
    main(["options", "transevolve_randomff_1"])
    out = capsys.readouterr().out
    assert re.search(r"^--encoder-depth +6 +depth of an encoder block$", out, re.M)
    assert re.search(r"^--decoder-depth +--encoder-depth +depth", out, re.M)


@pytest.mark.parametrize("arch", registered()["architectures"])
def test_options_are_those_of_the_command_line(arch):
    """All have a help, and each option that is named as a default is among them."""
    _, *rows = option_rows(arch)
    names = {name.split(",")[0] for name, _, _ in rows}
    config = OmegaConf.to_container(resolved(arch), enum_to_str=True)
    assert {name[2:].replace("-", "_") for name in names} <= set(config)
    assert len(names) == len(rows) >= 4
    for name, default, _ in rows:
        assert not default.startswith("--") or default in names, name


def fail(error):
    def main(arguments):
        raise error

    return main


@pytest.mark.parametrize(
    "error, message",
    [
        (ValueError("bad"), "bad$"),
        (FileNotFoundError(2, "No such file", "a"), ".*No such file.*'a'$"),
        (MemoryError(), "there is not enough memory$"),
        (ModuleNotFoundError(name="PIL.Image"), r"pillow is missing; .* extra \[corpora\]$"),
    ],
)
def test_errors_are_one_line(error, message, monkeypatch, capsys):
    """And the status is argparse's for a wrong option."""
    monkeypatch.setattr("fairseq_odeformers.cli.list_names", fail(error))
    with pytest.raises(SystemExit, match="^2$"):
        main(["list"])
    assert re.match(f"odeformers list: error: {message}", capsys.readouterr().err)


@pytest.mark.parametrize("error", [TypeError("a fault"), ModuleNotFoundError(name="unheard_of")])
def test_faults_of_the_program_are_raised(error, monkeypatch):
    monkeypatch.setattr("fairseq_odeformers.cli.list_names", fail(error))
    with pytest.raises(type(error)):
        main(["list"])


def test_unknown_architecture(capsys):
    with pytest.raises(SystemExit):
        main(["options", "transevolve_fulff_2"])
    assert "did you mean transevolve_fullff_2" in capsys.readouterr().err
