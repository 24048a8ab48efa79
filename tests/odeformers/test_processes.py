"""Commands that are run from Python: their output, their end, and what their logs say."""

import io
import sys
import time
from pathlib import Path

import pytest

import odeformers
from odeformers.processes import RUN_MODULE, CommandFailed, fairseq_command, python_command, stream


def python(program):
    return [sys.executable, "-c", program]


def test_a_command_belongs_to_this_python_and_gets_the_plugin():
    program, *options, plugin = fairseq_command("fairseq-train", "data", "--lr", 0.5)
    assert Path(program).resolve().parent == Path(sys.executable).parent.resolve()
    assert Path(program).is_file() and Path(plugin, "models").is_dir()
    assert options == ["data", "--lr", "0.5", "--user-dir"]


def test_another_copy_in_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    """The current folder may be a clone, while the package is installed as a copy."""
    (tmp_path / "odeformers.py").write_text("raise SystemExit('the other copy')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(odeformers.__file__).parents[1]))
    *start, _, option = python_command(["odeformers", "--version"])
    (version,) = stream([*start, "odeformers", option], io.StringIO())
    assert version[0].isdigit()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no option -P")
@pytest.mark.parametrize("start", [["-P", "-m"], ["-c", RUN_MODULE]])
def test_both_ways_to_run_a_module_agree(start, tmp_path, monkeypatch):
    for folder, text in (("here", "the other copy"), ("there", "installed")):
        (tmp_path / folder).mkdir()
        program = f"import sys; print({text!r}, sys.argv[1:], __name__)"
        (tmp_path / folder / "copied.py").write_text(program)
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "there"))
    command = [sys.executable, "-u", *start, "copied", "-c", "--lr=1"]
    assert [*stream(command, io.StringIO())] == ["installed ['-c', '--lr=1'] __main__\n"]


def test_output_is_yielded_and_logged():
    """A failure has the status and the last lines of the output."""
    log = io.StringIO()
    program = "import sys; print(*range(100), sep='\\n', flush=True); sys.exit('no such thing')"
    lines = []
    with pytest.raises(CommandFailed, match="status 1") as failure:
        lines.extend(stream(python(program), log))
    printed = [*map(str, range(100)), "no such thing"]
    assert "".join(lines).splitlines() == log.getvalue().splitlines() == printed
    assert str(failure.value).splitlines()[1:] == printed[-20:]


def test_closing_ends_the_command():
    lines = stream(
        python("import time; print('begun', flush=True); time.sleep(600)"), io.StringIO()
    )
    assert next(lines) == "begun\n"
    start = time.monotonic()
    lines.close()
    assert time.monotonic() - start < 60
