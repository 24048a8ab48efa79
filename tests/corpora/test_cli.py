"""Bad options end the preparation of a corpus before it starts; its files are found anywhere."""

import gzip
import tarfile
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest
from script_helpers import refusal

from fairseq_odeformers.corpora import cli


def never(*args):
    raise AssertionError("work has started")


def corpus(*langs):
    return cli.Corpus(langs, {"http://localhost/corpus.tgz": ["train.de"]}, never)


def run(corpora, options, monkeypatch, capsys):
    """Last line on standard error of a run that ends with status 2."""
    monkeypatch.setattr(cli, "fetch", never)
    main = partial(cli.main, "corpus", corpora, bpe_operations=10)
    return refusal(main, options, monkeypatch, capsys)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--workers", "0"], "argument --workers: invalid positive_int value: '0'"),
        (["--bpe-operations", "x"], "argument --bpe-operations: invalid positive_int value: 'x'"),
        (["--from", "absent.tgz"], "--from absent.tgz: no such file or folder"),
        *(
            (
                ["--from", source, "--out", "."],
                f"--from {source} overlaps raw, made by this script; choose another --out",
            )
            for source in (".", "raw", "raw/corpus")
        ),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys):
    (tmp_path / "raw" / "corpus").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    line = run([corpus("de", "en")], options, monkeypatch, capsys)
    assert line == f"prepare-corpus.sh: error: {message}"
    assert [path.name for path in tmp_path.rglob("*")] == ["raw", "corpus"]


@pytest.mark.parametrize("error", [ValueError, OSError, BrokenProcessPool])
def test_an_error_ends_the_program_with_one_line(error, monkeypatch):
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    with pytest.raises(SystemExit, match="^prepare-corpus.sh: error: reason$"):
        with cli.reporting("prepare-corpus.sh"):
            raise error("reason")


@pytest.mark.parametrize("options", [[], ["de-en"]])
def test_a_script_of_several_language_pairs_names_them(options, monkeypatch, capsys):
    corpora = [corpus("en", "de"), corpus("en", "fr")]
    line = run(corpora, options, monkeypatch, capsys)
    assert "pair" in line
    if options:
        assert "'de-en'" in line and "en-de" in line and "en-fr" in line


FILES = {"a.de": b"eins\n", "a.en": b"one\n", "b.de": b"zwei\n"}
ARCHIVES = {"http://host/a.tgz": ["a.de", "a.en"], "http://host/b.de.gz": ["b.de"]}


def write_tar(path, folder, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.add(folder / name, f"corpus/{name}")


@pytest.fixture
def published(tmp_path):
    """A folder with what is below the URLs of ARCHIVES."""
    loose = write_loose(tmp_path / "loose")
    folder = tmp_path / "published"
    folder.mkdir()
    write_tar(folder / "a.tgz", loose, ["a.de", "a.en"])
    (folder / "b.de.gz").write_bytes(gzip.compress(FILES["b.de"]))
    return folder


def write_loose(folder):
    folder.mkdir()
    for name, content in FILES.items():
        (folder / name).write_bytes(content)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


@pytest.mark.parametrize("kind", ["downloads", "loose files", "one archive", "both"])
def test_files_are_found_in_archives_and_folders(kind, published, tmp_path):
    source = {"downloads": published, "loose files": tmp_path / "loose"}.get(kind, tmp_path)
    if kind == "one archive":
        source = tmp_path / "all.tgz"
        write_tar(source, tmp_path / "loose", FILES)
    if kind == "both":
        (tmp_path / "loose" / "a.en").unlink()
    raw = tmp_path / "out" / "raw"
    cli.extract(source, ARCHIVES, raw)
    assert contents(raw) == FILES


def test_missing_files_are_an_error_that_names_their_archive(published, tmp_path):
    write_tar(published / "a.tgz", tmp_path / "loose", ["a.de"])
    with pytest.raises(ValueError, match="a.tgz has no a.en"):
        cli.extract(published, ARCHIVES, tmp_path / "raw")
    (published / "a.tgz").unlink()
    with pytest.raises(ValueError, match="published has no a.de, a.en"):
        cli.extract(published, ARCHIVES, tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_a_changed_download_is_extracted_anew(published, tmp_path):
    raw = tmp_path / "raw"
    cli.extract(published, ARCHIVES, raw)
    (published / "b.de.gz").write_bytes(gzip.compress(b"due\n"))
    cli.extract(published, ARCHIVES, raw)
    assert contents(raw) == {**FILES, "b.de": b"due\n"}
    (tmp_path / "loose" / "a.de").write_bytes(b"uno\n")
    write_tar(published / "a.tgz", tmp_path / "loose", ["a.de", "a.en"])
    cli.extract(published, ARCHIVES, raw)
    assert contents(raw) == {**FILES, "a.de": b"uno\n", "b.de": b"due\n"}


def test_every_archive_is_downloaded(published, tmp_path):
    urls = [path.as_uri() for path in sorted(published.iterdir())]
    folder = cli.fetch(urls, tmp_path / "download")
    assert contents(folder) == contents(published)
