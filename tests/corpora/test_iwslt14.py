"""The published markup becomes the text of each split."""

import pytest
from published import EVALUATION_SETS, iwslt14, write_archive
from script_helpers import binarized_lines, lines, times

from fairseq_odeformers.corpora.iwslt14 import CORPUS, NAMES, main


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("iwslt14")
    write_archive(folder / "de-en.tgz", iwslt14())
    run(folder / "out", workers=2)
    return folder / "out"


def run(out, workers):
    options = ["--bpe-operations", "40", "--workers", str(workers)]
    main(["--from", str(out.parent / "de-en.tgz"), "--out", str(out), *options])


def test_training_text(out):
    """Titles and descriptions are text, other tags go, bad pairs go, every 23rd is for valid."""
    for lang, word in (("de", "satz"), ("en", "sentence")):
        text = []
        for talk in (1, 2, 3):
            text += [f"ada lovelace : vortrag {talk}", f"ted talk subtitles {talk}"]
            text += [f"{word} {talk} - {number} !" for number in range(28)]
        assert lines(out / "tokenized" / f"valid.{lang}") == text[22::23]
        del text[22::23]
        assert lines(out / "tokenized" / f"train.{lang}") == text


def test_test_text(out):
    """The five evaluation sets follow one another; no sentence is dropped."""
    expected = [
        line
        for name in EVALUATION_SETS
        for line in (f"sentence {name.lower()} – it &apos;s &amp; amp ; so .", "")
    ]
    assert lines(out / "tokenized" / "test.en") == expected
    assert len(binarized_lines(out / "data-bin", "test", "de-en", "de")) == len(expected)


def test_a_second_run_does_nothing(out, capsys):
    steps = [out / step for step in ("raw", "plain", "tokenized", "bpe", "data-bin")]
    before = [times(step) for step in steps]
    run(out, workers=1)
    assert [times(step) for step in steps] == before
    assert capsys.readouterr().out.count("is up to date") == 5


def test_documents_that_do_not_pair_up_are_an_error_that_names_them(tmp_path):
    for name in NAMES:
        (tmp_path / name).write_text('<seg id="1"> Danke. </seg>\n<seg id="2"> Danke. </seg>\n')
    # Two sets that are wrong in opposite ways have the right number of sentences together.
    (tmp_path / "IWSLT14.TED.tst2010.de-en.de.xml").write_text('<seg id="1"> Danke. </seg>\n')
    (tmp_path / "IWSLT14.TED.tst2011.de-en.en.xml").write_text('<seg id="1"> Thanks. </seg>\n')
    message = r"tst2010.de-en.de.xml has 1, .*tst2010.de-en.en.xml has 2"
    with pytest.raises(ValueError, match=message):
        CORPUS.write_text(tmp_path, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()
