"""Tokens equal the Moses tokenizer's; work in several processes keeps its order and never hangs."""

import operator
import random
import signal
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from itertools import islice

import pytest
from published import write_folder

from fairseq_odeformers.text.moses import make_moses_tokenizer
from fairseq_odeformers.text.raw_text import read_codes
from odeformers.prepare.common import tokens
from odeformers.prepare.common.tokens import CHUNK_SIZE, map_rows

# Ends of lines and their tokens by the Moses tokenizer.
MOSES = {
    "de": [
        ("zu a.", "zu a ."),
        ("Berg U. S.", "Berg U. S ."),
        ("Bier www.beispiel.de.", "Bier www.beispiel.de ."),
        ("ist geht's.", "ist geht &apos; s ."),
        ("einem Q&A.", "einem Q &amp; A ."),
        ("zu am 5.", "zu am 5 ."),
        ("ist Abb. 3.", "ist Abb . 3 ."),
        ("Baum u.s.a.", "Baum u.s.a ."),
        ("Zoo “.", "Zoo “ ."),
        ("ist .“", "ist . “"),
        ("zu 14.30.", "zu 14.30 ."),
        ("ein 5%.", "ein 5 % ."),
        ("Eis ...", "Eis ..."),
        ("Dunk (vgl.)", "Dunk ( vgl. )"),
        ('"Unglaublichen Hulk".', "&quot; Unglaublichen Hulk &quot; ."),
        ('einer Wasserfontäne."', "einer Wasserfontäne . &quot;"),
    ],
    "en": [
        ("7 p.m.", "7 p.m ."),
        ("sky St.", "sky St ."),
        ("Texas A M.", "Texas A M ."),
        ("extraterrestrial, E.T.", "extraterrestrial , E.T ."),
        ("suit Ph.D.", "suit Ph.D ."),
        ("dirt .'", "dirt . &apos;"),
        ("rope No. 7.", "rope No. 7 ."),
        ("it J. K.", "it J. K ."),
        ("tub $5.", "tub $ 5 ."),
        ("a mystery...", "a mystery ..."),
        ("Andromeda (SPACE.com)", "Andromeda ( SPACE.com )"),
        ("(see fig.)", "( see fig . )"),
        ('see ."', "see . &quot;"),
        ("freedoms 'under threat'", "freedoms &apos; under threat&apos;"),
        ("cat !'", "cat ! &apos;"),
        *((line, line) for line in ("", ".", "...", "a ...")),
    ],
}


@pytest.mark.parametrize("lang", MOSES)
def test_tokens_equal_the_moses_tokenizers(lang):
    tokenize = make_moses_tokenizer(lang)
    assert [tokenize(line) for line, _ in MOSES[lang]] == [expected for _, expected in MOSES[lang]]


def test_encoding_does_not_depend_on_the_cache(tmp_path, monkeypatch):
    rows = [("low lower newest", "low"), ("widest lowest low", "newer wider"), ("", "low")] * 3
    codes = tmp_path / "code"
    tokens.learn_codes(Counter(" ".join(line for row in rows for line in row).split()), 8, codes)
    segment = read_codes(codes).segment
    expected = [tuple(map(segment, row)) for row in rows]
    monkeypatch.setattr(tokens, "MAX_CACHED_WORDS", 2)
    encode = tokens.make_bpe_encoder(codes)
    assert [encode(row) for row in rows] == expected
    assert any("@@" in line for row in expected for line in row)


def test_words_are_counted_over_all_texts(tmp_path):
    for name, lines in (("a", "x y\nx\n\nx z\n"), ("b", "y\n" * 9)):
        (tmp_path / name).write_text(lines)
    assert tokens.count_words([tmp_path / "a", tmp_path / "b"]) == {"x": 3, "y": 10, "z": 1}


def test_a_very_long_word_teaches_no_subwords(prepare, tmp_path):
    """Learning is quadratic in a word's length, and such pieces would be as frequent as words."""
    word = "".join(random.Random(1).choices("abcdefghij", k=5_000))
    lines, codes = [f"number {n} of {n}" for n in range(40)], []
    for name, train in (("with", [*lines, f"a {word} {word} one"]), ("without", [*lines, "a one"])):
        splits = {"train": train, "valid": lines, "test": lines}
        files = {f"{split}.{lang}": splits[split] for split in splits for lang in ("de", "en")}
        texts = {file: "".join(f"{row}\n" for row in rows).encode() for file, rows in files.items()}
        source = write_folder(tmp_path / name, texts)
        prepare("parallel -s de -t en", source, out=tmp_path / f"{name}-out")
        codes.append((tmp_path / f"{name}-out" / "codes" / "code").read_bytes())
    assert codes[0] == codes[1]


def test_words_of_one_letter_have_no_bpe_merges(tmp_path):
    with pytest.raises(ValueError, match="^no BPE merges: each word of the training text is a"):
        tokens.learn_codes(Counter("abba"), 10, tmp_path / "code")


def test_a_failure_of_fairseq_preprocess_is_raised(tmp_path):
    """A failure of fairseq-preprocess, such as a full disk, is an error here."""
    (tmp_path / "train").touch()
    (tmp_path / "out").touch()
    options = ["--only-source", f"--trainpref={tmp_path / 'train'}"]
    with pytest.raises(OSError, match="out"):
        tokens.fairseq_preprocess(*options, "--destdir", str(tmp_path / "out"))


@pytest.mark.parametrize("words, merges", [(9, 1000), (3000, 1000), (6000, 2000), (40_000, 10_000)])
def test_the_number_of_merges_follows_from_the_words(words, merges, tmp_path):
    path = tmp_path / "text"
    path.write_text("".join(f"w{n} w{n + 1}\n" for n in range(words - 1)))
    assert tokens.fit_merges([path]) == merges


@pytest.mark.parametrize("workers", [1, 3])
def test_results_keep_the_order_of_the_rows(workers):
    for count in (0, 5, 20 * CHUNK_SIZE + 1):
        results = map_rows(partial, (operator.add, 10), range(count), workers, "adding")
        assert list(results) == list(range(10, count + 10))


def test_reading_keeps_pace_with_the_caller():
    """Only a few chunks are in memory, however slowly the caller takes results."""
    read = []

    def rows():
        for number in range(20_000):
            read.append(number)
            yield number

    results = map_rows(partial, (operator.neg,), rows(), 2, "negating", 10)
    assert list(islice(results, 300)) == [-number for number in range(300)]
    assert len(read) < 300 + 10 * 10
    results.close()


def test_a_killed_process_is_an_error():
    """A process may be killed when memory runs out; signal 0 does nothing."""
    signals = [0] * 3 * CHUNK_SIZE + [signal.SIGKILL] + [0] * 20 * CHUNK_SIZE
    with pytest.raises(BrokenProcessPool):
        list(map_rows(partial, (signal.raise_signal,), signals, 2, "signalling"))


@pytest.mark.parametrize(
    "make_function, args, rows, error",
    [
        (open, ("absent/file",), range(5), BrokenProcessPool),
        (partial, (float,), ["1", "x"], ValueError),
        (partial, (abs,), map(float, ["1"] * 2 * CHUNK_SIZE + ["x"]), ValueError),
    ],
)
def test_errors_of_workers_are_raised(make_function, args, rows, error):
    """Errors arise in making the function, in calling it, and in reading rows."""
    with pytest.raises(error):
        list(map_rows(make_function, args, rows, 2, "failing"))
