"""The pipeline from raw parallel text to binarised data."""

import shutil

import pytest
from script_helpers import binarized_lines, contents, lines, times

from fairseq_odeformers.lab.corpora.parallel_text import Preparation, prepare

NUMBERS = ["Null", "Eins", "Zwei", "Drei", "Vier", "Fünf", "Sechs", "Sieben", "Acht", "Neun"]


def words(number):
    return " ".join(NUMBERS[int(digit)] for digit in str(number))


def corpus(train=100, edit=lambda split, pairs: pairs):
    """Numbers in words and in digits."""
    return [
        (split, pair)
        for split, numbers in (
            ("train", range(train)),
            ("valid", range(1000, 1008)),
            ("test", range(2000, 2008)),
        )
        for pair in edit(split, [(words(n), " ".join(str(n))) for n in numbers])
    ]


def run(rows, out, workers=2, langs=("words", "digits"), bpe_operations=30, **options):
    preparation = Preparation(langs, bpe_operations, **options)
    return prepare(lambda: rows, {"rows": rows}, out, preparation, workers)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    out = tmp_path_factory.mktemp("prepared") / "out"
    run(corpus(), out)
    return out


def test_binarised_data_hold_the_text_of_all_splits(prepared):
    """Both languages share a dictionary and byte-pair codes, of as many merges as asked for."""
    data_bin = prepared / "data-bin"
    for split in ("train", "valid", "test"):
        for lang in ("words", "digits"):
            expected = lines(prepared / "tokenized" / f"{split}.{lang}")
            assert binarized_lines(data_bin, split, "words-digits", lang) == expected
    assert lines(data_bin / "dict.words.txt") == lines(data_bin / "dict.digits.txt")
    assert 1 < len(lines(data_bin / "code")) <= 31  # one line is a header


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path):
    rows = corpus(train=2000)  # several chunks of work
    run(rows, tmp_path / "one", workers=1)
    run(rows, tmp_path / "three", workers=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


def test_a_changed_option_repeats_the_steps_that_depend_on_it(prepared, tmp_path):
    rows, out = corpus(), shutil.copytree(prepared, tmp_path / "out")
    before = times(out / "tokenized")
    run(rows, out, bpe_operations=5)
    assert times(out / "tokenized") == before
    assert len(lines(out / "data-bin" / "code")) == 6

    run(rows, out, lowercase=False)
    assert lines(out / "tokenized" / "train.words")[10] == "Eins Null"

    run(rows, out, langs=("digits", "words"))
    assert lines(out / "tokenized" / "train.digits")[10] == "eins null"


def test_only_training_pairs_are_cleaned(tmp_path, caplog):
    odd = [
        ("", "1"),
        ("eins", " \t"),
        ("Eins " * 10_000, "1 " * 10_000),
        ("eins " * 176, "1 " * 176),
        ("eins " * 175, "1 " * 175),
        ("eins zwei drei vier", "1 2"),
        ("eins zwei", "1 2 3"),
    ]
    kept = [odd[4], odd[6]]
    with caplog.at_level("INFO"):
        run(corpus(edit=lambda split, pairs: pairs + odd), tmp_path / "out")
    tokenized = tmp_path / "out" / "tokenized"
    assert lines(tokenized / "train.words")[100:] == [source.strip() for source, _ in kept]
    assert lines(tokenized / "train.digits")[100:] == [target.strip() for _, target in kept]
    for split in ("valid", "test"):
        assert lines(tokenized / f"{split}.words")[8:] == [s.lower().strip() for s, _ in odd]
        assert lines(tokenized / f"{split}.digits")[8:] == [t.strip() for _, t in odd]
    assert (
        "cleaning leaves 102 training pairs; left out are 2 with an empty side, 2 with more than "
        "175 tokens, and 1 with a ratio above 1.5" in caplog.text
    )


def test_text_is_tokenised_as_moses_does_for_each_language(tmp_path):
    sentence = 'Er sagt: "Q&A", z.B.\u2028[»it\'s«] am 1.\r'
    rows = corpus(edit=lambda _, pairs: [*pairs, (sentence, sentence)])
    run(rows, tmp_path / "out", langs=("de", "en"))
    quoted = "er sagt : &quot; q &amp; a &quot; , z.b. &#91; » "
    tokenized = tmp_path / "out" / "tokenized"
    for split in ("train", "test"):
        assert lines(tokenized / f"{split}.de")[-1] == quoted + "it &apos; s « &#93; am 1 ."
        assert lines(tokenized / f"{split}.en")[-1] == quoted + "it &apos;s « &#93; am 1 ."


def test_chosen_splits_are_normalised(tmp_path):
    sentence = "„Ja“ — sagt\x85er…\u00adnein’s"
    rows = corpus(edit=lambda _, pairs: [*pairs, (sentence, sentence)])
    run(rows, tmp_path / "out", normalized_splits=("train", "valid"))
    tokenized = tmp_path / "out" / "tokenized"
    for split in ("train", "valid"):
        expected = "&quot; ja &quot; - sagt er ... nein &apos; s"
        assert lines(tokenized / f"{split}.words")[-1] == expected
    assert lines(tokenized / "test.words")[-1] == "„ ja “ — sagt er … \u00ad nein ’ s"


def test_an_error_if_cleaning_leaves_nothing(tmp_path):
    rows = corpus(edit=lambda split, pairs: [("eins", "1 2 3")] * 3)
    with pytest.raises(ValueError, match="0 training pairs; needed are 1 .*--max-ratio"):
        run(rows, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
