"""Tokens are those of the Moses tokenizer; byte pairs do not depend on what was encoded before."""

import errno
import os

import pytest

from fairseq_odeformers.corpora import text

# Ends of lines, and what the Moses tokenizer itself makes of them.
MOSES = {
    "de": [
        ("zu a.", "zu a ."),
        ("auf z.B.", "auf z.B ."),
        ("Berg U. S.", "Berg U. S ."),
        ("Bier www.beispiel.de.", "Bier www.beispiel.de ."),
        ("an d.h.", "an d.h ."),
        ("ist geht's.", "ist geht &apos; s ."),
        ("einem McDonald's.", "einem McDonald &apos; s ."),
        ("einem Q&A.", "einem Q &amp; A ."),
        ("zu am 5.", "zu am 5 ."),
        ("ist Abb. 3.", "ist Abb . 3 ."),
        ("ist Prof.", "ist Prof ."),
        ("Bad Mio.", "Bad Mio ."),
        ("hat usw.", "hat usw ."),
        ("Baum u.s.a.", "Baum u.s.a ."),
        ("Zoo “.", "Zoo “ ."),
        ("ist .“", "ist . “"),
        ("zu 14.30.", "zu 14.30 ."),
        ("Sieg 3,5.", "Sieg 3,5 ."),
        ("ein 5%.", "ein 5 % ."),
        ("5 €.", "5 € ."),
        ("Eis ...", "Eis ..."),
        ("Dunk (vgl.)", "Dunk ( vgl. )"),
        ('"Unglaublichen Hulk".', "&quot; Unglaublichen Hulk &quot; ."),
        ("essen (picknicken).", "essen ( picknicken ) ."),
        ('einer Wasserfontäne."', "einer Wasserfontäne . &quot;"),
    ],
    "en": [
        ("7 p.m.", "7 p.m ."),
        ("her www.example.com.", "her www.example.com ."),
        ("sky St.", "sky St ."),
        ("Texas A M.", "Texas A M ."),
        ("by U.S.", "by U.S ."),
        ("extraterrestrial, E.T.", "extraterrestrial , E.T ."),
        ("it vs.", "it vs ."),
        ("suit Ph.D.", "suit Ph.D ."),
        ("dirt .'", "dirt . &apos;"),
        ("rope No. 7.", "rope No. 7 ."),
        ("it J. K.", "it J. K ."),
        ("him Co.", "him Co ."),
        ("pot 3.5.", "pot 3.5 ."),
        ("tub $5.", "tub $ 5 ."),
        ("gift it's.", "gift it &apos;s ."),
        ("a mystery...", "a mystery ..."),
        ("15 (AP)", "15 ( AP )"),
        ("Andromeda (SPACE.com)", "Andromeda ( SPACE.com )"),
        ("(see fig.)", "( see fig . )"),
        ('see ."', "see . &quot;"),
        ("freedoms 'under threat'", "freedoms &apos; under threat&apos;"),
        ("cat !'", "cat ! &apos;"),
        ("an hour).", "an hour ) ."),
        ("fence 5%.", "fence 5 % ."),
        ("a goa.", "a goa ."),
    ],
}


@pytest.mark.parametrize("lang", MOSES)
def test_tokens_are_those_of_moses(lang):
    tokenize = text.moses_tokenizer(lang)
    assert [tokenize(line) for line, _ in MOSES[lang]] == [tokens for _, tokens in MOSES[lang]]


@pytest.mark.parametrize("line", ["", ".", "...", " . ", "a ..."])
def test_a_period_that_is_no_end_of_a_word_stays(line):
    assert text.moses_tokenizer("en")(line) == line.strip()


def test_encoding_does_not_depend_on_the_cache(tmp_path, monkeypatch):
    rows = [("low lower newest", "low"), ("widest lowest low", "newer wider"), ("", "low")] * 3
    codes = tmp_path / "code"
    text.learn_codes((line for row in rows for line in row), 8, codes)
    segment = text.load_codes(codes).segment
    expected = [tuple(map(segment, row)) for row in rows]
    monkeypatch.setattr(text, "MAX_CACHED_WORDS", 2)
    encode = text.bpe_encoder(codes)
    assert [encode(row) for row in rows] == expected
    assert any("@@" in line for row in expected for line in row)


def test_words_of_one_letter_have_no_byte_pairs(tmp_path):
    with pytest.raises(ValueError, match="no byte pairs: each word .* is a letter"):
        text.learn_codes(["a b", "b a"], 10, tmp_path / "code")


def test_a_full_disk_is_said_in_a_line(tmp_path, monkeypatch, capfd):
    def fill(args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "dict.txt")

    monkeypatch.setattr(text.preprocess, "main", fill)
    # Handlers of earlier tests may write to streams that are closed by now.
    monkeypatch.setattr("logging.raiseExceptions", False)
    with pytest.raises(RuntimeError, match="fairseq-preprocess failed with exit status 1"):
        text.fairseq_preprocess("--only-source", "--destdir", str(tmp_path))
    found = capfd.readouterr().err
    assert "fairseq-preprocess: error: [Errno 28] No space left on device: 'dict.txt'" in found
    assert "Traceback" not in found
