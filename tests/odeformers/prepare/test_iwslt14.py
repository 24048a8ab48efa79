"""IWSLT14's talks become the text of each split."""

from published import EVALUATION_SETS, iwslt14, write_archive
from script_helpers import binarized_lines, lines


def test_iwslt14_has_the_text_of_its_talks(prepare, tmp_path, warnings):
    """Titles and descriptions are text, other tags are dropped, and every 23rd pair is for valid.

    Bad training pairs are dropped. The five evaluation sets follow one another, with all sentences,
    and a small archive is reported.
    """
    archive = write_archive(tmp_path / "de-en.tgz", iwslt14())
    log = prepare("iwslt14 --bpe-operations 40", archive)
    warning = "train has 87 pairs, but the paper has about 153,000"
    assert any(line.startswith(warning) for line in warnings(log))
    tokenized = prepare.out / "tokenized"
    for lang, word in (("de", "satz"), ("en", "sentence")):
        text = []
        for talk in (1, 2, 3):
            text += [f"ada lovelace : vortrag {talk}", f"ted talk subtitles {talk}"]
            text += [f"{word} {talk} - {number} !" for number in range(28)]
        assert lines(tokenized / f"valid.{lang}") == text[22::23]
        del text[22::23]
        assert lines(tokenized / f"train.{lang}") == text
    expected = [
        line
        for name in EVALUATION_SETS
        for line in (f"sentence {name.lower()} – it &apos;s &amp; amp ; so .", "")
    ]
    assert lines(tokenized / "test.en") == expected
    actual = binarized_lines(prepare.out / "data-bin", "test", "de-en", "de")
    assert len(actual) == len(expected)
