"""The published parallel corpora become the text of each split."""

import pytest
from published import (
    EVALUATION_SETS,
    iwslt14,
    long_pairs,
    multi30k,
    write_archive,
    write_folder,
    write_wmt14,
)
from script_helpers import binarized_lines, lines

from fairseq_odeformers.lab.corpora import iwslt14 as iwslt14_corpus
from fairseq_odeformers.lab.corpora import multi30k as multi30k_corpus
from fairseq_odeformers.lab.corpora import wmt14

WMT14_TOKENS = {
    "en": "It &apos;s &quot; well @-@ known &quot; no . {} in {} .",
    "de": "Das &quot; wohl @-@ bekannte &quot; Nr. {} in {} .",
    "fr": "C&apos; est le &quot; bien @-@ connu &quot; n ° {} dans {} .",
}
WMT14_CORPORA = {
    "de": ["europarl", "commoncrawl", "news"],
    "fr": ["europarl", "commoncrawl", "undoc", "news", "giga"],
}


def run(corpus, source, out, *options):
    corpus.main([*options, "--from", str(source), "--out", str(out), "--workers", "2"])


def test_multi30k_has_the_test_sets_that_both_languages_have(tmp_path):
    """A test set has a name that depends on no other."""
    sizes = {"val": 5, "test_2016_flickr": 6, "test_2017_flickr": 3, "test_2018_flickr": 7}
    files = multi30k(train=40, **sizes, test_2017_mscoco=8)
    del files["test_2017_flickr.de.gz"]
    source, out = write_folder(tmp_path / "raw", files), tmp_path / "out"
    run(multi30k_corpus, source, out, "--bpe-operations", "20")
    assert lines(out / "tokenized" / "train.de") == [f"dog {n} !" for n in range(40)]
    tests = {path.name.split(".")[0] for path in (out / "data-bin").glob("test*")}
    assert tests == {"test", "test2", "test3"}
    for split, size in (("valid", 5), ("test", 6), ("test2", 7), ("test3", 8)):
        assert len(binarized_lines(out / "data-bin", split, "de-en", "de")) == size
        text = [f"dog dog dog {n} !" for n in range(size)]
        assert lines(out / "tokenized" / f"{split}.en") == text


def test_iwslt14_text(tmp_path, capsys):
    """Titles and descriptions are text, other tags go, bad pairs go, every 23rd is for valid.

    The five evaluation sets follow one another; no sentence of theirs is dropped. A small archive
    is told from the paper's.
    """
    archive, talks = write_archive(tmp_path / "de-en.tgz", iwslt14()), tmp_path / "out"
    run(iwslt14_corpus, archive, talks, "--bpe-operations", "40")
    warning = "train has 87 pairs, where the paper has about 153,000"
    assert warning in "".join(capsys.readouterr())
    for lang, word in (("de", "satz"), ("en", "sentence")):
        text = []
        for talk in (1, 2, 3):
            text += [f"ada lovelace : vortrag {talk}", f"ted talk subtitles {talk}"]
            text += [f"{word} {talk} - {number} !" for number in range(28)]
        assert lines(talks / "tokenized" / f"valid.{lang}") == text[22::23]
        del text[22::23]
        assert lines(talks / "tokenized" / f"train.{lang}") == text
    expected = [
        line
        for name in EVALUATION_SETS
        for line in (f"sentence {name.lower()} – it &apos;s &amp; amp ; so .", "")
    ]
    assert lines(talks / "tokenized" / "test.en") == expected
    assert len(binarized_lines(talks / "data-bin", "test", "de-en", "de")) == len(expected)


@pytest.mark.parametrize("lang", WMT14_CORPORA)
def test_wmt14_text(lang, tmp_path):
    """Corpora follow one another, cleaned; punctuation is normalised except in the test set."""
    source, out = write_wmt14(tmp_path / "archives"), tmp_path / "out"
    run(wmt14, source, out, f"en-{lang}", "--bpe-operations", "60")
    tokenized, data = out / "tokenized", out / "data-bin"
    kept = {"de": [2], "fr": [0]}[lang]
    for side in ("en", lang):
        tokens = WMT14_TOKENS[side]
        train = [tokens.format(n, corpus) for corpus in WMT14_CORPORA[lang] for n in range(30)]
        train[30:30] = [long_pairs(side)[index] for index in kept]
        assert lines(tokenized / f"train.{side}") == train
        assert binarized_lines(data, "train", f"en-{lang}", side) == train
        valid = [tokens.format(n, "newstest2013") for n in range(30)]
        assert lines(tokenized / f"valid.{side}") == valid
    assert lines(tokenized / "test.en") == [
        f"It &apos;s “ well @-@ known ” no . {n} in newstest2014 ." for n in range(4)
    ]
    assert len(lines(tokenized / f"test.{lang}")) == 4
    assert len(lines(data / "code")) == 61
