"""What goes wrong ends a preparing script with a message of one line."""

import os
import signal
import sys
from concurrent.futures.process import BrokenProcessPool

import pytest
import warm

from fairseq_odeformers.corpora import cli
from fairseq_odeformers.files import build


@pytest.mark.parametrize("error", [ValueError, OSError, BrokenProcessPool])
def test_an_error_ends_the_program_with_one_line(error, monkeypatch, tmp_path):
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    with pytest.raises(SystemExit, match="^prepare-corpus.sh: error: reason$"):
        with cli.reporting("prepare-corpus.sh", tmp_path):
            raise error("reason")


def test_a_library_that_is_missing_is_named_before_anything_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    monkeypatch.setitem(sys.modules, "subword_nmt", None)
    with pytest.raises(SystemExit, match="^prepare-glue.sh: error: subword-nmt is missing; pip"):
        with cli.reporting("prepare-glue.sh", tmp_path / "out", "sacremoses", "subword_nmt"):
            pytest.fail("it goes on")
    assert not (tmp_path / "out").exists()


def prepare(out, name, begun, go_on):
    """A preparation of two steps, the second of which reads what the first has made."""
    with cli.reporting(name, out):
        build(out / "text", {"of": name}, lambda folder: (folder / "words").write_text(name))
        begun.set()
        os.read(go_on, 1)
        words = (out / "text" / "words").read_text()
        build(out / "data-bin", {"of": words}, lambda folder: (folder / "ids").write_text(words))


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_preparation_waits_for_the_first(killed, tmp_path, capfd):
    """And says so once; if the first is killed, the second goes on."""
    begun, second_begun = warm.FORK.Event(), warm.FORK.Event()
    go_on, say = os.pipe()
    first = warm.FORK.Process(target=prepare, args=(tmp_path, "first", begun, go_on))
    first.start()
    assert begun.wait(60)
    second = warm.FORK.Process(target=prepare, args=(tmp_path, "second", second_begun, go_on))
    second.start()
    assert not second_begun.wait(1)
    (said,) = capfd.readouterr().out.splitlines()
    assert said.endswith(f"another process writes to {tmp_path}; waiting for its end")
    if killed:
        os.kill(first.pid, signal.SIGKILL)
        assert second_begun.wait(60)
    os.write(say, b"12")
    for process in (first, second):
        process.join()
    assert (first.exitcode, second.exitcode) == (-signal.SIGKILL if killed else 0, 0)
    assert (tmp_path / "text" / "words").read_text() == "second"
    assert (tmp_path / "data-bin" / "ids").read_text() == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data-bin", "text"]
