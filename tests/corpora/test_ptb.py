"""The texts are found in folders and archives or downloaded; bad ones are named."""

import gzip
import tarfile

import pytest
from script_helpers import contents, refusal, times

from fairseq_odeformers.corpora import ptb
from fairseq_odeformers.corpora.ptb import Text, prepare
from fairseq_odeformers.files import sha256

TEXTS = {
    "ptb.train.txt": " the <unk> rose \n the N \n",
    "ptb.valid.txt": " the N rose \n",
    "ptb.test.txt": " the end \n",
}
PLAIN = {name.removeprefix("ptb."): text for name, text in TEXTS.items()}


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def write_archive(path, texts):
    folder = write(path.with_suffix(".files"), texts)
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder, "./simple-examples/data")
    return path


@pytest.fixture
def expected(tmp_path):
    """What the texts become."""
    return contents(prepare(write(tmp_path / "texts", TEXTS), tmp_path / "expected", 1))


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder for what is published: the archive, and the texts of the mirror."""
    folder = write(tmp_path / "published", TEXTS)
    sizes = {"train": (2, 5), "valid": (1, 3), "test": (1, 2)}
    texts = {
        split: Text(*size, sha256(folder / f"ptb.{split}.txt")) for split, size in sizes.items()
    }
    monkeypatch.setattr(ptb, "PUBLISHED", texts)
    monkeypatch.setattr(ptb, "ARCHIVE", (folder / "simple-examples.tgz").as_uri())
    monkeypatch.setattr(ptb, "MIRROR", folder.as_uri())
    return folder


@pytest.mark.parametrize("kind", ["plain names", "compressed", "archive", "folder of archive"])
def test_texts_are_found_wherever_they_are(kind, tmp_path, expected):
    source = tmp_path / "source"
    if kind == "plain names":
        write(source, {f"data/{name}": text for name, text in PLAIN.items()})
    elif kind == "compressed":
        source.mkdir()
        for name, text in TEXTS.items():
            (source / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    else:
        archive = write_archive(source / "simple-examples.tgz", TEXTS)
        source = archive if kind == "archive" else source
    assert contents(prepare(source, tmp_path / "out", 1)) == expected


def test_the_archive_is_downloaded(published, tmp_path, expected, caplog):
    write_archive(published / "simple-examples.tgz", TEXTS)
    with caplog.at_level("INFO"):
        data_bin = prepare(None, tmp_path / "out", 1)
    assert contents(data_bin) == expected
    assert [path.name for path in (tmp_path / "out" / "download").iterdir()] == [
        "simple-examples.tgz"
    ]
    assert "train: 2 sentences, 5 words" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


@pytest.mark.parametrize("answer", [None, b"<html>moved</html>"])
def test_the_mirror_is_used_if_the_archive_cannot_be_had(
    answer, published, tmp_path, expected, caplog
):
    """Because nothing is there, or something else. A second call changes nothing."""
    if answer:
        (published / "simple-examples.tgz").write_bytes(answer)
    out = tmp_path / "out"
    assert contents(prepare(None, out, 1)) == expected
    assert "taking the texts from file:" in caplog.text
    assert sorted(path.name for path in (out / "download").iterdir()) == sorted(TEXTS)
    before = times(out / "data-bin"), times(out / "raw")
    prepare(None, out, 1)
    assert (times(out / "data-bin"), times(out / "raw")) == before


def test_another_text_on_the_mirror_is_refused(published, tmp_path):
    (published / "ptb.valid.txt").write_text(" another \n")
    with pytest.raises(ValueError, match="ptb.valid.txt: SHA-256 is not"):
        prepare(None, tmp_path / "out", 1)
    assert not (tmp_path / "out" / "data-bin").exists()


def test_a_text_of_another_size_is_warned_of(published, tmp_path, caplog):
    source = write(tmp_path / "source", {**TEXTS, "ptb.valid.txt": " the N \n"})
    prepare(source, tmp_path / "out", 1)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "valid: the published text has 1 sentences and 3 words; perplexities do not compare with "
        "those of papers"
    ]


def test_the_test_set_may_be_missing_and_come_later(tmp_path, expected, caplog):
    source = write(tmp_path / "source", PLAIN)
    (source / "test.txt").unlink()
    data_bin = prepare(source, tmp_path / "out", 1)
    assert "source has no test.txt; that split is left out" in caplog.text
    assert sorted(path.name for path in data_bin.iterdir()) == [
        *("dict.txt", "recipe.json", "train.bin", "train.idx", "valid.bin", "valid.idx")
    ]
    write(source, PLAIN)
    assert contents(prepare(source, tmp_path / "out", 1)) == expected


@pytest.mark.parametrize(
    "texts, message",
    [
        ({"ptb.test.txt": "a\n"}, "source has no ptb.train.txt or train.txt$"),
        ({"train.txt": "a\n", "test.txt": "a\n"}, "source has no ptb.valid.txt or valid.txt$"),
        ({**PLAIN, "copy/train.txt": "a\n"}, "source has more than one train.txt$"),
        ({**PLAIN, "valid.txt": " \n"}, "raw/valid.txt is empty$"),
        ({**PLAIN, "test.txt": ""}, "raw/test.txt is empty$"),
    ],
)
def test_bad_texts_are_named(texts, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prepare(write(tmp_path / "source", texts), tmp_path / "out", 1)
    assert not (tmp_path / "out" / "data-bin").exists()


def test_text_that_is_not_utf8_is_named(tmp_path):
    source = write(tmp_path / "source", PLAIN)
    (source / "valid.txt").write_bytes(b"a\n\xe4\n")
    with pytest.raises(ValueError, match="raw/valid.txt, line 2: not UTF-8"):
        prepare(source, tmp_path / "out", 1)


def test_an_archive_that_is_cut_off_is_named(tmp_path):
    archive = write_archive(tmp_path / "source.tgz", TEXTS)
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(ValueError, match="source.tgz is damaged"):
        prepare(archive, tmp_path / "out", 1)
    assert not (tmp_path / "out").exists()


def test_an_interrupted_call_resumes(tmp_path, monkeypatch, expected):
    def interrupt(*argv):
        raise KeyboardInterrupt

    source, out = write(tmp_path / "source", TEXTS), tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ptb, "fairseq_preprocess", interrupt)
        prepare(source, out, 1)
    assert [path.name for path in out.iterdir()] == ["raw"]
    assert contents(prepare(source, out, 1)) == expected


@pytest.mark.parametrize(
    "options, message",
    [
        (["--from", "absent"], "--from absent: no such file or folder"),
        (
            ["--from", ".", "--out", "."],
            "--from . overlaps raw, made by this script; choose another --out",
        ),
        (["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = refusal(ptb.main, options, monkeypatch, capsys)
    assert line == f"prepare-ptb.sh: error: {message}"
    assert list(tmp_path.iterdir()) == []
