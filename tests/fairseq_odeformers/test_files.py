"""Steps are computed once per recipe, and their results are complete or absent."""

import bz2
import gzip
import hashlib
import lzma
import os
import re
import secrets
import subprocess
from collections import deque
from pathlib import Path

import pytest
from published import write_folder

from fairseq_odeformers.files import (
    build,
    check_joined,
    check_regular,
    fingerprints,
    read_lines,
    reading,
    replacing,
    sha256,
    sha256_once,
    write_csv,
)


def write_value(folder):
    (folder / "value").write_text("1")


def never(folder):
    raise AssertionError("the step was repeated")


def test_a_finished_step_is_not_repeated(tmp_path):
    """A step is skipped if its recipe is unchanged; a result of another recipe is replaced."""
    build(tmp_path / "step", {"langs": ("de", "en")}, write_value)
    build(tmp_path / "step", {"langs": ("de", "en")}, never)
    assert (tmp_path / "step" / "value").read_text() == "1"
    build(tmp_path / "step", {"n": 2}, lambda folder: (folder / "other").touch())
    assert sorted(path.name for path in (tmp_path / "step").iterdir()) == ["other", "recipe.json"]


@pytest.mark.parametrize("recipe", [None, b"\xff"])
def test_a_folder_of_the_user_is_not_replaced(recipe, tmp_path):
    """A folder without a recipe, or with a damaged one, is left unchanged."""
    write_folder(tmp_path, {"step/mine": b""} | ({"step/recipe.json": recipe} if recipe else {}))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match="step"):
        build(tmp_path / "step", {}, never)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failed_step_keeps_the_earlier_result(tmp_path, error):
    def fail(folder):
        write_value(folder)
        raise error

    for there in (False, True):
        if there:
            build(tmp_path / "step", {"n": 1}, write_value)
        with pytest.raises(error):
            build(tmp_path / "step", {"n": 2}, fail)
        assert [path.name for path in tmp_path.iterdir()] == ["step"] * there
    build(tmp_path / "step", {"n": 1}, never)


LEFT = "0123abcd.odeformers-tmp"


def test_files_of_killed_processes_are_removed(tmp_path):
    """The temporary folders of other results stay."""
    write_folder(tmp_path, {f"step.{LEFT}/half": b"", f"table.{LEFT}": b"", f"step.v2.{LEFT}": b""})
    build(tmp_path / "step", {}, write_value)
    write_csv(tmp_path / "table", [{"a": 1}])
    assert {path.name for path in tmp_path.iterdir()} == {"step", "table", f"step.v2.{LEFT}"}
    assert sorted(path.name for path in (tmp_path / "step").iterdir()) == ["recipe.json", "value"]


def write_one(path, text="1"):
    with replacing(path) as temporary:
        temporary.write_text(text)


def build_one(path, text="1"):
    build(path, {"text": text}, lambda folder: (folder / "value").write_text(text))


@pytest.mark.parametrize("make, value", [(build_one, "value"), (write_one, "")])
@pytest.mark.parametrize("there", [False, True])
def test_a_link_stays_and_its_target_is_written(make, value, there, tmp_path):
    """A result is written to the target of a link, which may not exist yet."""
    link, target = tmp_path / "link", tmp_path / "disk" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    if there:
        make(target, "0")
    make(link)
    assert link.is_symlink() and (target / value).read_text() == "1"
    assert [*target.parent.iterdir()] == [target]


def test_files_of_the_user_are_kept(tmp_path):
    """Files with names like temporary ones are neither removed nor, if links, written through."""
    (tmp_path / "other").write_text("mine")
    for name in ("o.tmp", "step.tmp", "step.1.tmp", "step.old"):
        (tmp_path / name).symlink_to("other")
    write_one(tmp_path / "o")
    build(tmp_path / "step", {"n": 1}, write_value)
    build(tmp_path / "step", {"n": 2}, write_value)
    links = [path for path in tmp_path.iterdir() if path.is_symlink()]
    assert len(links) == 4 and {path.read_text() for path in links} == {"mine"}


def test_an_existing_temporary_file_is_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.setattr(secrets, "token_hex", lambda _: "not hex")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "o.not hex.odeformers-tmp").symlink_to("other")
    with pytest.raises(FileExistsError):
        write_one(tmp_path / "o")
    assert (tmp_path / "other").read_text() == "mine"


def test_devices_and_pipes_are_written_directly(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    (tmp_path / "link").symlink_to("fifo")
    for name in ("fifo", "link"):
        write_one(tmp_path / name)
        assert os.read(reader, 9) == b"1"
    os.close(reader)
    write_one(Path("/dev/null"))
    assert Path("/dev/null").is_char_device() and (tmp_path / "fifo").is_fifo()


def test_a_path_with_a_colon_is_refused(tmp_path, monkeypatch):
    """An existing file or folder with a colon in its name is refused where a colon joins paths."""
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    for name in ("a", "b", "c", "c:d:e"):
        Path(name).touch() if name != "c" else Path(name).mkdir()
    for paths in ("a", "a:b2", "b:a", "c:b", "c/x:a", "absent:x"):
        check_joined(paths)
    for paths, refused in (
        ("a:b", "a:b"),
        ("a:b/x", "a:b"),
        ("b:a:b/x.pt:c", "a:b"),
        (f"c:{tmp_path}/a:b", f"{tmp_path}/a:b"),
        ("a:c:d:e", "c:d:e"),
    ):
        with pytest.raises(ValueError, match=f"^{refused}: .*':'"):
            check_joined(paths)


def test_fingerprints_depend_on_names_and_contents(tmp_path):
    content = b"x" * 3_000_000
    (tmp_path / "file").write_bytes(content)
    assert fingerprints([tmp_path / "file"]) == [("file", hashlib.sha256(content).hexdigest())]
    digests = []
    for number, files in enumerate(
        [{"a": b"1", "b/c": b"2"}, {"b/c": b"2", "a": b"1"}, {"a": b"2", "b/c": b"1"}]
        + [{"a": b"1", "b/d": b"2"}, {"a": b"1", "b/c": b"2", "e": b""}]
    ):
        digests.append(sha256(write_folder(tmp_path / str(number), files)))
    assert digests[0] == digests[1] and len(set(digests)) == 4


def test_a_folder_is_hashed_again_after_a_change(tmp_path):
    """A change is detected by a file's size and modification time."""
    file = tmp_path / "file"
    file.write_bytes(b"1")
    digest, before = sha256_once(tmp_path), file.stat()
    assert digest == sha256(tmp_path)
    file.write_bytes(b"2")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert sha256_once(tmp_path) == digest
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert sha256_once(tmp_path) == sha256(tmp_path) != digest
    (tmp_path / "other").touch()
    assert sha256_once(tmp_path) == sha256(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    path = tmp_path / "text"
    path.write_text("a", encoding="utf-16")
    with pytest.raises(ValueError, match="line 1: not UTF-8 .* iconv -f utf-16 -t utf-8"):
        list(read_lines(path))
    path.write_text("\ufeffa\nb\r\n\ufeffc", encoding="utf-8")
    assert list(read_lines(path)) == ["a", "b\r", "c"]


@pytest.mark.parametrize(
    "content, message",
    [
        ("ab\nc\n".encode("utf-16-le"), "line 1: not UTF-8 .* iconv -f utf-16le"),
        ("äb\nc\n".encode("utf-16-le"), "line 1: not UTF-8 .* iconv -f utf-16le"),
        ("ab\n".encode("utf-32"), "line 1: not UTF-8 .* iconv -f utf-32 "),
        ("ä\n".encode("latin1"), "line 1: not UTF-8 .* iconv -f windows-1252 "),
        (b"a\rb", "lines end with carriage returns"),
    ],
)
def test_another_encoding_is_detected_and_named(content, message, tmp_path):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        list(read_lines(tmp_path / "text"))


@pytest.mark.parametrize("text", ["déjà\n", "5 €\n", "déjà\n“5 €” – it’s…\n"])
def test_the_suggested_iconv_command_restores_windows_text(text, tmp_path):
    """The command is right even if euro signs and curly quotes occur after the reported line."""
    (tmp_path / "text").write_bytes(text.encode("cp1252"))
    with pytest.raises(ValueError, match="not UTF-8") as refused:
        list(read_lines(tmp_path / "text"))
    command = re.search("iconv .* utf-8", str(refused.value))[0].split()
    converted = subprocess.run([*command, tmp_path / "text"], capture_output=True, check=True)
    assert converted.stdout.decode() == text


def test_a_table_is_written_completely_or_not_at_all(tmp_path):
    """The header has the keys of the first row, and a row with other keys is an error."""
    path = tmp_path / "table.csv"
    write_csv(path, [{"a": 1, "b": "x, y"}, {"a": 2, "b": ""}])
    before = path.read_text()
    assert before.splitlines() == ["a,b", '1,"x, y"', "2,"]
    with pytest.raises(ValueError, match="'c'"):
        write_csv(path, [{"a": 1}, {"c": 2}])
    assert path.read_text() == before and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["pipe", "null", "dangling"])
def test_pipes_devices_and_broken_links_are_refused(name, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "dangling").symlink_to("nowhere")
    with pytest.raises(ValueError, match=f"{name} is a pipe, a device or a broken link"):
        with reading(tmp_path / name):
            raise AssertionError
    with pytest.raises(ValueError, match=f"{tmp_path}/.* is a pipe"):
        check_regular(tmp_path)


@pytest.mark.parametrize(
    "name, pack",
    [("t.gz", gzip.compress), ("t.xz", lzma.compress), ("t.bz2", bz2.compress), ("t.txt", bytes)],
)
def test_compressed_lines_are_read(name, pack, tmp_path):
    path = tmp_path / name
    path.write_bytes(pack("grün\r\n\nrot".encode()))
    assert [*read_lines(path)] == ["grün\r", "", "rot"]


@pytest.mark.parametrize(
    "content, message",
    [
        (
            gzip.compress(b"text", mtime=0),
            r"is compressed \(.gz\); decompress it, or name it \*.gz",
        ),
        (lzma.compress(b"text"), r"is compressed \(.xz\); decompress it, or name it \*.xz"),
        (bz2.compress(b"text"), r"is compressed \(.bz2\); decompress it, or name it \*.bz2"),
        ("grün".encode("latin1"), "line 1: not UTF-8"),
    ],
    ids=["gzip", "xz", "bzip2", "latin1"],
)
def test_bytes_that_are_not_text_are_refused(content, message, tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}.* {message}"):
        deque(read_lines(path))


def test_a_truncated_compressed_file_is_named(tmp_path):
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"text")[:-9])
    with pytest.raises(ValueError, match=f"^{tmp_path}/t.gz is damaged, truncated"):
        deque(read_lines(tmp_path / "t.gz"))
