"""The published files become the text of each split, cleaned."""

import tarfile

import pytest
from published import long_pairs, write_wmt14
from script_helpers import binarized_lines, lines, times

from fairseq_odeformers.corpora import wmt14

TOKENIZED = {
    "en": "It &apos;s &quot; well @-@ known &quot; no . {} in {} .",
    "de": "Das &quot; wohl @-@ bekannte &quot; Nr. {} in {} .",
    "fr": "C&apos; est le &quot; bien @-@ connu &quot; n ° {} dans {} .",
}
CORPORA = {
    "de": ["europarl", "commoncrawl", "news"],
    "fr": ["europarl", "commoncrawl", "undoc", "news", "giga"],
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wmt14")
    write_wmt14(folder / "archives")
    for lang in CORPORA:
        run(lang, folder / "archives", folder / lang)
    return folder


def run(lang, source, out):
    options = ["--bpe-operations", "60", "--workers", "2"]
    wmt14.main([f"en-{lang}", "--from", str(source), "--out", str(out), *options])


@pytest.mark.parametrize("lang", CORPORA)
def test_text_of_each_split(prepared, lang):
    """Corpora follow one another, cleaned; punctuation is normalised except in the test set."""
    tokenized = prepared / lang / "tokenized"
    kept = {"de": [2], "fr": [0]}[lang]
    for side in ("en", lang):
        train = [TOKENIZED[side].format(n, corpus) for corpus in CORPORA[lang] for n in range(30)]
        train[30:30] = [long_pairs(side)[index] for index in kept]
        assert lines(tokenized / f"train.{side}") == train
        assert binarized_lines(prepared / lang / "data-bin", "train", f"en-{lang}", side) == train
        valid = [TOKENIZED[side].format(n, "newstest2013") for n in range(30)]
        assert lines(tokenized / f"valid.{side}") == valid
    assert lines(tokenized / "test.en") == [
        f"It &apos;s “ well @-@ known ” no . {n} in newstest2014 ." for n in range(4)
    ]
    assert len(lines(tokenized / f"test.{lang}")) == 4
    assert len(lines(prepared / lang / "data-bin" / "code")) == 61


def test_unpacked_files_give_the_same(prepared, tmp_path):
    """The results stay up to date when some of the archives are unpacked."""
    source = write_wmt14(tmp_path / "mixed")
    for archive in ("training-parallel-europarl-v7.tgz", "dev.tgz", "test-full.tgz"):
        with tarfile.open(source / archive) as tar:
            tar.extractall(source, filter="data")
        (source / archive).unlink()
    steps = [prepared / "fr" / step for step in ("plain", "tokenized", "bpe", "data-bin")]
    before = [times(step) for step in steps]
    run("fr", source, prepared / "fr")
    assert [times(step) for step in steps] == before


@pytest.mark.parametrize("name", ["commoncrawl.de-en.de", "newstest2013.de", wmt14.reference("de")])
def test_a_document_that_does_not_pair_up_is_named(name, prepared, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    for path in (prepared / "de" / "raw").iterdir():
        more = '<seg id="3">more</seg>\n' if path.name == name else ""
        (raw / path.name).write_text(path.read_text("utf-8") + more, "utf-8")
    with pytest.raises(ValueError, match=f"do not pair up: .*{name} has "):
        wmt14.corpus("de").write_text(raw, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


@pytest.mark.parametrize("lang, count", [("de", 5), ("fr", 7)])
def test_archives_have_different_names(lang, count):
    """They share a folder, and so do the files that are taken out of them."""
    archives = wmt14.archives(lang)
    assert len({url.rpartition("/")[2] for url in archives}) == len(archives) == count
    assert len({name for names in archives.values() for name in names}) == 2 * count
