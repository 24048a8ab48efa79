"""Commands that are run from Python: their output, their end, and what their logs say."""

import io
import sys
import time
from pathlib import Path

import pytest

from fairseq_odeformers.lab.commands import CommandFailed, fairseq_command, stream


def python(program):
    return [sys.executable, "-c", program]


def test_a_command_is_that_of_this_python_with_the_plugin():
    program, *options, plugin = fairseq_command("fairseq-train", "data", "--lr", 0.5)
    assert Path(program).resolve().parent == Path(sys.executable).parent.resolve()
    assert Path(program).is_file() and Path(plugin, "models").is_dir()
    assert options == ["data", "--lr", "0.5", "--user-dir"]


def test_output_is_yielded_and_logged():
    """A failure has the status and the end of the output."""
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
