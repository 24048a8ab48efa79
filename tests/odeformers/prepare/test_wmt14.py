"""WMT14's archives become the text of each split."""

import pytest
from published import SENTENCES, long_pairs, write_folder, write_wmt14
from script_helpers import binarized_lines, lines

from fairseq_odeformers.text.moses import read_raw_pairs
from odeformers.prepare import wmt14

WMT14_TOKENS = {
    "en": "It &apos;s &quot; well @-@ known &quot; no . {} in {} .",
    "de": "Das &quot; wohl @-@ bekannte &quot; Nr. {} in {} .",
    "fr": "C&apos; est le &quot; bien @-@ connu &quot; n ° {} dans {} .",
}
WMT14_CORPORA = {
    "de": ["europarl", "commoncrawl", "news"],
    "fr": ["europarl", "commoncrawl", "undoc", "news", "giga"],
}


@pytest.mark.parametrize("lang", WMT14_CORPORA)
def test_wmt14_joins_and_cleans_its_corpora(lang, prepare, tmp_path):
    """Punctuation is normalised except in the test set.

    Raw text to translate gets the tokens of the test set.
    """
    prepare(f"wmt14 en-{lang} --bpe-operations 60", write_wmt14(tmp_path / "archives"))
    tokenized, data = prepare.out / "tokenized", prepare.out / "data-bin"
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
    raw = SENTENCES["en"].format(3, "newstest2014").replace("’", "'")
    assert read_raw_pairs(str(data), "en", lang).tokenize(raw) == lines(tokenized / "test.en")[3]
    assert len(lines(data / "code")) == 61


def test_punctuation_and_non_printing_characters_are_normalised(prepare, tmp_path):
    """Only the test set keeps its punctuation and its characters."""
    sentence, files = "„Ja“ — sagt\x85er…\u00adnein’s", {}
    for download in wmt14.make_corpus("de").downloads:
        for name in download.files:
            text = f'<seg id="1">{sentence}</seg>' if name.endswith(".sgm") else sentence
            files[name] = f"{text}\n".encode()
    prepare("wmt14 en-de --bpe-operations 5", write_folder(tmp_path / "raw", files))
    tokenized = prepare.out / "tokenized"
    for split in ("train", "valid"):
        expected = "&quot; Ja &quot; - sagt er ... nein &apos; s"
        assert lines(tokenized / f"{split}.de")[-1] == expected
    assert lines(tokenized / "test.de") == ["„ Ja “ — sagt er … \u00ad nein &apos; s"]
