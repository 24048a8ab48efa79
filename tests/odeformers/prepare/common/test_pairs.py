"""The pipeline from raw parallel text to binarised data."""

import pytest
from published import write_folder
from script_helpers import binarized_lines, contents, lines, times

from fairseq_odeformers.text.moses import read_raw_pairs

NUMBERS = ["Null", "Eins", "Zwei", "Drei", "Vier", "Fünf", "Sechs", "Sieben", "Acht", "Neun"]
SIDES = ("words", "digits")
LINE = "parallel -s words -t digits"


def words(number):
    return " ".join(NUMBERS[int(digit)] for digit in str(number))


def corpus(train=100, more=(), sides=SIDES):
    """Files of numbers in words and in digits, with the pairs *more* in each split."""
    files = {}
    for split, numbers in (
        ("train", range(train)),
        ("valid", range(1000, 1008)),
        ("test", range(2000, 2008)),
    ):
        pairs = [*((words(n), " ".join(str(n))) for n in numbers), *more]
        for side, texts in zip(sides, zip(*pairs)):
            files[f"{split}.{side}"] = "".join(f"{text}\n" for text in texts).encode()
    return files


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("source") / "raw", corpus())


def test_binarised_data_contain_the_text_of_all_splits(prepare, source):
    """Both languages share a dictionary and BPE codes, with no more merges than requested."""
    prepare(LINE, source, "--bpe-operations", 30)
    data_bin = prepare.out / "data-bin"
    for split in ("train", "valid", "test"):
        for lang in SIDES:
            expected = lines(prepare.out / "tokenized" / f"{split}.{lang}")
            assert binarized_lines(data_bin, split, "words-digits", lang) == expected
    assert lines(data_bin / "dict.words.txt") == lines(data_bin / "dict.digits.txt")
    assert 1 < len(lines(data_bin / "code")) <= 31  # one line is a header


def test_the_result_does_not_depend_on_the_number_of_workers(prepare, tmp_path):
    """The text has several chunks of work."""
    source = write_folder(tmp_path / "raw", corpus(train=600))
    for workers in (1, 3):
        out = tmp_path / str(workers)
        prepare(LINE, source, "--bpe-operations", 30, out=out, workers=workers)
    assert contents(tmp_path / "1") == contents(tmp_path / "3")


def test_a_changed_option_repeats_only_dependent_steps(prepare, source):
    """Other subwords do not repeat the tokenisation, but another case or language does."""
    prepare(LINE, source, "--bpe-operations", 30)
    out, tokenized = prepare.out, prepare.out / "tokenized"
    before = times(tokenized)

    def again(line, *options):
        (out / "settings.json").unlink()
        prepare(line, source, *options)

    again(LINE, "--bpe-operations", 5)
    assert times(tokenized) == before
    assert len(lines(out / "data-bin" / "code")) == 6
    again(LINE, "--bpe-operations", 5, "--keep-case")
    assert lines(tokenized / "train.words")[10] == "Eins Null"
    again("parallel -s digits -t words", "--bpe-operations", 5, "--max-ratio", 20)
    assert lines(tokenized / "train.digits")[10] == "1 0"
    assert binarized_lines(out / "data-bin", "train", "digits-words", "words")[10] == "eins null"


def test_only_training_pairs_are_cleaned(prepare, tmp_path):
    """Lengths count subwords.

    The log has the number of dropped pairs by reason, and other splits stay whole.
    """
    odd = [
        ("", "1"),
        ("eins", " \t"),
        ("Eins " * 10_000, "1 " * 10_000),
        ("eins " * 31, "1 " * 31),
        ("eins " * 30, "1 " * 30),
        ("eins zwei drei vier", "1 2"),
        ("eins zwei", "1 2 3"),
    ]
    source = write_folder(tmp_path / "raw", corpus(train=300, more=odd))
    log = prepare(LINE, source, "--max-tokens", 30, "--max-ratio", 1.5)
    tokenized, bpe = prepare.out / "tokenized", prepare.out / "bpe"
    assert lines(bpe / "train.words")[300:] == [odd[place][0].strip() for place in (4, 6)]
    assert lines(bpe / "train.digits")[300:] == [odd[place][1].strip() for place in (4, 6)]
    for split in ("valid", "test"):
        assert lines(tokenized / f"{split}.words")[8:] == [s.lower().strip() for s, _ in odd]
        assert lines(tokenized / f"{split}.digits")[8:] == [t.strip() for _, t in odd]
    assert (
        "cleaning leaves 302 of 307 training pairs (left out: 2 with an empty side; 2 with more "
        "than 30 subwords; 1 with a ratio above 1.5" in log
    )


@pytest.mark.parametrize("dropped, warned", [(9, 0), (14, 1)])
def test_many_dropped_pairs_are_warned_of(dropped, warned, prepare, tmp_path, warnings):
    """The warning comes if more than a tenth of the pairs are dropped."""
    odd = [(f"eins {n}", "1 2 3 4 5 6 7 8 9") for n in range(dropped)]
    log = prepare(LINE, write_folder(tmp_path / "raw", corpus(train=100, more=odd)))
    assert sum("cleaning leaves 100 of" in line for line in warnings(log)) == warned


def test_each_language_is_tokenised_as_by_moses(prepare, tmp_path):
    """Raw text to translate is tokenised in the same way."""
    sentence = 'Er sagt: "Q&A", z.B.\u2028[»it\'s«] am 1.\r'
    files = corpus(more=[(sentence, sentence)], sides=("de", "en"))
    prepare("parallel -s de -t en", write_folder(tmp_path / "raw", files))
    quoted = "er sagt : &quot; q &amp; a &quot; , z.b. &#91; » "
    tokenized = prepare.out / "tokenized"
    for split in ("train", "test"):
        assert lines(tokenized / f"{split}.de")[-1] == quoted + "it &apos; s « &#93; am 1 ."
        assert lines(tokenized / f"{split}.en")[-1] == quoted + "it &apos;s « &#93; am 1 ."
    raw = read_raw_pairs(str(prepare.out / "data-bin"), "de", "en")
    assert raw.tokenize(sentence) == lines(tokenized / "test.de")[-1]


def test_cleaning_that_leaves_nothing_is_an_error(prepare, tmp_path):
    files = {name: b"eins zwei drei\n" * 3 for name in corpus()}
    files["train.words"] = b"eins\n" * 3
    source = write_folder(tmp_path / "raw", files)
    message = "cleaning leaves 0 of 3 training pairs; at least 1 .*--max-ratio"
    prepare.refuses(message, LINE, source)
