"""Other settings need another folder, and preparations into one folder wait for each other."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from argparse import Namespace

import pytest
from script_helpers import contents

from fairseq_odeformers.files import build
from odeformers.prepare.common import command
from odeformers.prepare.common.command import preparing
from odeformers.processes import FORK, name_differences

LISTOPS = "listops --train 20 --valid 2 --test 2 --min-length 3 --max-length 60"


def test_unset_settings_do_not_differ():
    """An option that an earlier version lacked is unset there."""
    changes = {"--keep-case": (None, False), "--seed": (None, 0), "--vocab": ("a", None)}
    assert name_differences(changes) == ("--seed unset → 0", "--vocab a → unset")


def test_other_settings_need_another_folder(prepare):
    """The error names the differences.

    Files and workers are no settings, and a failure records none.
    """
    with pytest.raises(Exception, match="found only"):
        prepare(f"{LISTOPS} --seed 2 --max-depth 1")
    prepare(f"{LISTOPS} --seed 1")
    prepare(f"{LISTOPS} --seed 1", workers=2)
    with pytest.raises(Exception, match=f"{prepare.out} was prepared with other settings") as error:
        prepare(f"{LISTOPS} --seed 2")
    assert "(--seed 1 → 2); remove it, or give another --out" in str(error.value)
    assert "is up to date" in prepare(f"{LISTOPS} --seed 1")


def test_another_corpus_needs_another_folder(prepare, tmp_path):
    """Equal options do not suffice. Folders of version 0.1 do not record their corpus."""
    (text := tmp_path / "own.txt").write_text("the wind\nthe sea\n" * 10)
    prepare("lm", text)
    before = contents(prepare.out)
    message = (
        "was prepared with other settings .--corpus lm → ptb.; remove it, or give another --out"
    )
    with pytest.raises(Exception, match=message):
        prepare("ptb", tmp_path)
    assert contents(prepare.out) == before
    settings = prepare.out / "settings.json"
    old = {
        key: value for key, value in json.loads(settings.read_text()).items() if "corpus" not in key
    }
    settings.write_text(json.dumps(old))
    assert "is up to date" in prepare("lm", text)
    assert contents(prepare.out) == before


def prepare_slowly(out, name, begun, go_on):
    """A preparation of two steps; the second step reads the result of the first.

    If it is killed, a process of it survives.
    """
    with preparing(Namespace(out=out, source=None)):
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
    """The second logs once that it waits, and continues if the first is killed."""
    begun, second_begun = FORK.Event(), FORK.Event()
    go_on, say = os.pipe()
    first = FORK.Process(target=prepare_slowly, args=(tmp_path, "first", begun, go_on))
    first.start()
    request.addfinalizer(first.kill)
    assert begun.wait(60)
    second = FORK.Process(target=prepare_slowly, args=(tmp_path, "second", second_begun, go_on))
    second.start()
    request.addfinalizer(second.kill)
    assert not second_begun.wait(1)
    (output,) = capfd.readouterr().out.splitlines()
    assert output.endswith(f"another process is writing to {tmp_path}; waiting for it")
    if killed:
        os.kill(first.pid, signal.SIGKILL)
        assert second_begun.wait(3)
    os.write(say, b"12")
    for process in (first, second):
        process.join()
    assert (first.exitcode, second.exitcode) == (-signal.SIGKILL if killed else 0, 0)
    assert (tmp_path / "text" / "words").read_text() == "second"
    assert (tmp_path / "data-bin" / "ids").read_text() == "second"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "data-bin",
        "settings.json",
        "text",
    ]


def terminate(out):
    """Run a preparation that is terminated in the middle of a step."""

    def make(folder):
        (folder / "ids").touch()
        os.kill(os.getpid(), signal.SIGTERM)

    with preparing(Namespace(out=out, source=None)):
        build(out / "data-bin", {}, make)


def test_a_terminated_preparation_leaves_no_files(tmp_path):
    process = FORK.Process(target=terminate, args=(tmp_path / "out",))
    process.start()
    process.join()
    assert process.exitcode == 128 + signal.SIGTERM
    assert not list(tmp_path.iterdir())


def test_progress_is_logged_without_a_terminal(prepare, monkeypatch):
    """Progress is logged every half minute, or after each item if there is no interval."""
    assert "train: 19 texts" not in prepare(LISTOPS)
    monkeypatch.setattr(command, "PROGRESS_INTERVAL", 0)
    log = prepare(LISTOPS, out=prepare.out / "again")
    assert "| train: 19 texts" in log and "| drawing: 0 lines" in log


TABLE = "text-classification tsv --vocab-size 60"
OWN = {
    TABLE: ("own.tsv", "good\tthe sun {}\nbad\tthe rain {}\n"),
    "parallel -s de -t en": ("own.tsv", "der Tag {}\tthe day {}\n"),
    "lm": ("own.txt", "the wind {}\nthe sea {}\n"),
}


def write_own(path, text, first=0):
    path.write_text("".join(text.replace("{}", str(first + n)) for n in range(40)))
    return path


@pytest.mark.parametrize("line", OWN)
def test_other_files_take_another_folder(line, prepare, tmp_path):
    """So do files of the same name with other content; unchanged files do not."""
    name, text = OWN[line]
    source = write_own(tmp_path / name, text)
    prepare(line, source)
    before = contents(prepare.out)
    assert "is up to date" in prepare(line, source)
    assert contents(prepare.out) == before
    other = write_own(tmp_path / f"other-{name}", text, first=1)
    refused = f"{prepare.out} was prepared from other content .--from {source}.; .* {prepare.out}-2"
    with pytest.raises(Exception, match=refused):
        prepare(line, other)
    write_own(source, text, first=1)
    with pytest.raises(Exception, match=refused):
        prepare(line, source)
    assert contents(prepare.out) == before


def test_another_vocabulary_takes_another_folder(prepare, tmp_path):
    """Also a file that has changed, or a vocabulary to learn; settings need not be recorded."""
    name, text = OWN[TABLE]
    line = "text-classification tsv"
    source, vocab = write_own(tmp_path / name, text), tmp_path / "vocab.txt"
    pieces = ["[PAD]", "[UNK]", "the", "sun", "rain", *"0123456789", *(f"##{n}" for n in range(10))]
    vocab.write_text("".join(f"{piece}\n" for piece in pieces))
    (other := tmp_path / "other.txt").write_text(f"{vocab.read_text()}day\n")
    prepare(line, source, "--vocab", vocab)
    before = contents(prepare.out)
    assert "is up to date" in prepare(line, source, "--vocab", shutil.copy(vocab, tmp_path / "v"))
    vocab.write_text(other.read_text())
    refused = f"{prepare.out} was prepared with another --vocab; .* {prepare.out}-2"
    for options in (["--vocab", other], ["--vocab", vocab], []):
        with pytest.raises(Exception, match=refused):
            prepare(line, source, *options)
        assert contents(prepare.out) == before
    (prepare.out / "settings.json").unlink()
    with pytest.raises(Exception, match=refused):
        prepare(line, source, "--vocab", other)


def test_files_of_one_name_are_told_apart(prepare, tmp_path):
    sources = [tmp_path / side / "text.txt" for side in ("a", "b")]
    for path in sources:
        path.parent.mkdir()
        write_own(path, f"{path.parent.name} day {{}}\n")
    line = "parallel -s de -t en"
    prepare(line, None, "--from", *sources)
    write_own(sources[0], "a day {}\n", first=1)
    with pytest.raises(Exception, match="was prepared from other content"):
        prepare(line, None, "--from", *sources)


def test_an_archive_with_other_files_is_refused_before_it_is_copied(prepare, tmp_path):
    name, text = OWN["lm"]
    texts = tmp_path / "texts"
    texts.mkdir()
    archives = []
    for first in range(2):
        for split in ("train", "valid", "test"):
            write_own(texts / f"{split}.txt", text, first)
        archives.append(shutil.make_archive(str(tmp_path / f"own{first}"), "zip", texts))
    prepare("lm", archives[0])
    before = contents(prepare.out)
    with pytest.raises(Exception, match="was prepared from other content .--from .*own0.zip"):
        prepare("lm", archives[1])
    assert contents(prepare.out) == before


@pytest.mark.parametrize("known", ["nothing", "no files"])
def test_data_without_a_record_of_their_files_are_kept(known, prepare, tmp_path):
    """Data may have been copied without settings, or their version recorded no files."""
    name, text = OWN[TABLE]
    source = write_own(tmp_path / name, text)
    prepare(TABLE, source)
    settings = prepare.out / "settings.json"
    recorded = json.loads(settings.read_text())
    del recorded["--from"]
    settings.unlink() if known == "nothing" else settings.write_text(json.dumps(recorded))
    assert "is up to date" in prepare(TABLE, source)
    settings.unlink() if known == "nothing" else settings.write_text(json.dumps(recorded))
    before = contents(prepare.out)
    write_own(source, text, first=1)
    with pytest.raises(Exception, match=f"{prepare.out} was prepared from other content; remove"):
        prepare(TABLE, source)
    assert contents(prepare.out) == before
