"""Bad options end a preparation before it starts; one of two preparations waits for the other."""

import multiprocessing
import os
import signal
import time

import pytest
import warm

from fairseq_odeformers import cli
from fairseq_odeformers.corpora.cli import preparing
from fairseq_odeformers.files import build

PAIR = ["-s", "de", "-t", "en"]
BOTH = ["--bpe-codes", "file", "--dict", "file"]


@pytest.mark.parametrize(
    "line, options, message",
    [
        ("glue", ["wnli"], "TASK wnli: choose from CoLA, SST-2, MRPC"),
        ("glue", ["--dict", "absent"], "--dict: absent: no such file"),
        ("glue", ["--dict", "file"], "--bpe-codes and --dict belong together"),
        ("glue", [*BOTH, "--bpe-operations", "5"], "--bpe-operations is for learning codes"),
        ("lra", ["imdb"], "TASK imdb: choose from listops, text"),
        ("text-classification", ["sst"], "argument DATA: invalid choice: 'sst'"),
        ("text-classification", ["tsv"], "tsv needs --from"),
        ("text-classification", ["imdb", "--vocab", "absent"], "--vocab: absent: no such file"),
        (
            "text-classification",
            ["imdb", "--vocab", "file", "--vocab-size", "9"],
            "--vocab-size is",
        ),
        ("text-classification", ["tsv", "--valid-fraction", "1"], "--valid-fraction: invalid"),
        ("listops", ["--max-args", "1"], "--max-args: 1: give"),
        ("wmt14", [], "arguments are required: pair"),
        ("wmt14", ["de-en"], "argument pair: invalid choice: 'de-en'"),
        ("multi30k", ["--bpe-operations", "x"], "--bpe-operations: x: give"),
        ("parallel", ["-s", "de"], "the following arguments are required: -t"),
        ("parallel", PAIR, "the following arguments are required: --from"),
        ("parallel", ["-s", "de", "-t", "de", "--from", "."], "-s and -t are both de"),
        ("parallel", [*PAIR, "--from", ".", "--valid", "9"], "--valid and --test divide one file"),
        ("parallel", [*PAIR, "--max-ratio", "0.5"], "--max-ratio: invalid"),
        *((corpus, ["--workers", "0"], "--workers: 0: give") for corpus in cli.CORPORA),
        *(
            (corpus, ["--from", "absent"], "--from: absent: no such file or folder")
            for corpus in cli.CORPORA
            if corpus != "listops"
        ),
    ],
)
def test_bad_options(line, options, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "raw" / "corpus").mkdir(parents=True)
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stopped:
        cli.main(["prepare", line, *options])
    assert stopped.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith(f"odeformers prepare {line}: error: ") and message in last
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["corpus", "file", "raw"]


def prepare(out, name, begun, go_on):
    """A preparation of two steps; the second reads the result of the first.

    It has a process that outlives it if it is killed.
    """
    with preparing(out):
        build(out / "text", {"of": name}, lambda folder: (folder / "words").write_text(name))
        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(5,))
        child.start()
        begun.set()
        os.read(go_on, 1)
        words = (out / "text" / "words").read_text()
        build(out / "data-bin", {"of": words}, lambda folder: (folder / "ids").write_text(words))
        child.kill()
        child.join()


@pytest.mark.parametrize("killed", [False, True])
def test_a_second_preparation_waits_for_the_first(killed, tmp_path, capfd, request):
    """And says so once; if the first is killed, the second goes on."""
    begun, second_begun = warm.FORK.Event(), warm.FORK.Event()
    go_on, say = os.pipe()
    first = warm.FORK.Process(target=prepare, args=(tmp_path, "first", begun, go_on))
    first.start()
    request.addfinalizer(first.kill)
    assert begun.wait(60)
    second = warm.FORK.Process(target=prepare, args=(tmp_path, "second", second_begun, go_on))
    second.start()
    request.addfinalizer(second.kill)
    assert not second_begun.wait(1)
    (said,) = capfd.readouterr().out.splitlines()
    assert said.endswith(f"another process writes to {tmp_path}; waiting for its end")
    if killed:
        os.kill(first.pid, signal.SIGKILL)
        assert second_begun.wait(3)
    os.write(say, b"12")
    for process in (first, second):
        process.join()
    assert (first.exitcode, second.exitcode) == (-signal.SIGKILL if killed else 0, 0)
    assert (tmp_path / "text" / "words").read_text() == "second"
    assert (tmp_path / "data-bin" / "ids").read_text() == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "data-bin", "text"]
