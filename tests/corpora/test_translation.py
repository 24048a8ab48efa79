"""Published documents become the text of each split; bad options end a script before it starts."""

from functools import partial

import pytest
from script_helpers import lines, refusal

from fairseq_odeformers.corpora import translation
from fairseq_odeformers.corpora.translation import concatenate
from fairseq_odeformers.files import read_lines


def never(*args):
    raise AssertionError("work has started")


def corpus(*langs):
    return translation.Corpus(langs, {"http://localhost/corpus.tgz": ["train.de"]}, {})


def run(corpora, options, monkeypatch, capsys):
    """Last line on standard error of a run that ends with status 2."""
    monkeypatch.setattr(translation, "fetch", never)
    main = partial(translation.main, "corpus", corpora, bpe_operations=10)
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


@pytest.mark.parametrize("options", [[], ["de-en"]])
def test_a_script_of_several_language_pairs_names_them(options, monkeypatch, capsys):
    corpora = [corpus("en", "de"), corpus("en", "fr")]
    line = run(corpora, options, monkeypatch, capsys)
    assert "pair" in line
    if options:
        assert "'de-en'" in line and "en-de" in line and "en-fr" in line


def test_documents_are_concatenated_line_by_line(tmp_path):
    """A last line without a newline stays a line; a document that does not pair up is named."""
    texts = {"a.de": "eins\nzwei", "a.en": "one\ntwo\n", "b.de": "drei\n", "b.en": "three"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = (tmp_path / "train.de", tmp_path / "train.en")
    documents = [(tmp_path / f"{name}.de", tmp_path / f"{name}.en") for name in "ab"]
    concatenate(documents, read_lines, files)
    assert [lines(file) for file in files] == [["eins", "zwei", "drei"], ["one", "two", "three"]]
    crossed = [(documents[0][0], documents[1][1]), (documents[1][0], documents[0][1])]
    with pytest.raises(ValueError, match="do not pair up: .*a.de has 2, .*b.en has 1"):
        concatenate(crossed, read_lines, files)
