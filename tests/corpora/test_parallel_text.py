"""The pipeline from raw parallel text to binarised data."""

import shutil

import pytest
from script_helpers import binarized_lines, contents, lines, times

from fairseq_odeformers.corpora import parallel_text
from fairseq_odeformers.corpora.parallel_text import prepare

NUMBERS = ["Null", "Eins", "Zwei", "Drei", "Vier", "Fünf", "Sechs", "Sieben", "Acht", "Neun"]


def words(number):
    return " ".join(NUMBERS[int(digit)] for digit in str(number))


def write_corpus(folder, train=100, edit=lambda split, pairs: pairs):
    """Raw files of numbers in words and in digits."""
    raw = {}
    for split, numbers in (
        ("train", range(train)),
        ("valid", range(1000, 1008)),
        ("test", range(2000, 2008)),
    ):
        pairs = edit(split, [(words(n), " ".join(str(n))) for n in numbers])
        raw[split] = folder / f"{split}.words", folder / f"{split}.digits"
        for path, sentences in zip(raw[split], zip(*pairs)):
            path.write_text("".join(line + "\n" for line in sentences), encoding="utf-8")
    return raw


def run(raw, out, workers=2, **options):
    return prepare(raw, out, "words", "digits", bpe_operations=30, workers=workers, **options)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    run(write_corpus(folder), folder / "out")
    return folder / "out"


def test_binarised_data_holds_the_text_of_all_splits(prepared):
    for split in ("train", "valid", "test"):
        for lang in ("words", "digits"):
            expected = lines(prepared / "tokenized" / f"{split}.{lang}")
            assert binarized_lines(prepared / "data-bin", split, "words-digits", lang) == expected


def test_both_languages_share_dictionary_and_codes(prepared):
    data_bin = prepared / "data-bin"
    assert lines(data_bin / "dict.words.txt") == lines(data_bin / "dict.digits.txt")
    assert 1 < len(lines(data_bin / "code")) <= 31  # a header, and at most the merges asked for
    assert sorted(path.name for path in prepared.iterdir()) == ["bpe", "data-bin", "tokenized"]


def test_the_result_does_not_depend_on_the_number_of_workers(tmp_path):
    raw = write_corpus(tmp_path, train=2000)  # several chunks of work
    run(raw, tmp_path / "one", workers=1)
    run(raw, tmp_path / "three", workers=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")


def test_an_interrupted_call_resumes(prepared, tmp_path, monkeypatch):
    def interrupt(*argv):
        raise KeyboardInterrupt

    raw, out = write_corpus(tmp_path), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(parallel_text, "fairseq_preprocess", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run(raw, out)
    assert sorted(path.name for path in out.iterdir()) == ["bpe", "tokenized"]

    monkeypatch.setattr(parallel_text, "map_rows", None)  # what was done is not done again
    run(raw, out)
    assert contents(out) == contents(prepared)


def test_a_changed_option_repeats_the_steps_that_depend_on_it(prepared, tmp_path):
    raw, out = write_corpus(tmp_path), shutil.copytree(prepared, tmp_path / "out")
    before = times(out / "tokenized")
    prepare(raw, out, "words", "digits", bpe_operations=5, workers=2)
    assert times(out / "tokenized") == before
    assert len(lines(out / "data-bin" / "code")) == 6

    run(raw, out, lowercase=False)
    assert lines(out / "tokenized" / "train.words")[10] == "Eins Null"


def test_changed_raw_text_is_prepared_anew(prepared, tmp_path):
    out = shutil.copytree(prepared, tmp_path / "out")
    run(write_corpus(tmp_path, train=50), out)
    assert len(lines(out / "tokenized" / "train.words")) == 50


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
        run(write_corpus(tmp_path, edit=lambda split, pairs: pairs + odd), tmp_path / "out")
    tokenized = tmp_path / "out" / "tokenized"
    assert lines(tokenized / "train.words")[100:] == [source.strip() for source, _ in kept]
    assert lines(tokenized / "train.digits")[100:] == [target.strip() for _, target in kept]
    for split in ("valid", "test"):
        assert lines(tokenized / f"{split}.words")[8:] == [s.lower().strip() for s, _ in odd]
        assert lines(tokenized / f"{split}.digits")[8:] == [t.strip() for _, t in odd]
    assert (
        "kept 102 pairs and dropped 2 with an empty side, 2 of more than 175 tokens and 1 with a "
        "length ratio above 1.5"
    ) in caplog.text


def test_text_is_tokenised_as_moses_does_for_each_language(tmp_path):
    sentence = 'Er sagt: "Q&A", z.B.\u2028[»it\'s«] am 1.\r'
    raw = write_corpus(tmp_path, edit=lambda _, pairs: [*pairs, (sentence, sentence)])
    prepare(raw, tmp_path / "out", "de", "en", bpe_operations=30, workers=1)
    quoted = "er sagt : &quot; q &amp; a &quot; , z.b. &#91; » "
    tokenized = tmp_path / "out" / "tokenized"
    for split in ("train", "test"):
        assert lines(tokenized / f"{split}.de")[-1] == quoted + "it &apos; s « &#93; am 1 ."
        assert lines(tokenized / f"{split}.en")[-1] == quoted + "it &apos;s « &#93; am 1 ."


def test_chosen_splits_are_normalised(tmp_path):
    sentence = "„Ja“ — sagt\x85er…\u00adnein’s"
    raw = write_corpus(tmp_path, edit=lambda _, pairs: [*pairs, (sentence, sentence)])
    run(raw, tmp_path / "out", normalized_splits=("train", "valid"))
    tokenized = tmp_path / "out" / "tokenized"
    for split in ("train", "valid"):
        expected = "&quot; ja &quot; - sagt er ... nein &apos; s"
        assert lines(tokenized / f"{split}.words")[-1] == expected
    assert lines(tokenized / "test.words")[-1] == "„ ja “ — sagt er … \u00ad nein ’ s"


def test_words_are_split_at_hyphens_on_request(tmp_path):
    sentence = "ein 2-Pfund-Brot - ja"
    raw = write_corpus(tmp_path, edit=lambda _, pairs: [*pairs, (sentence, sentence)])
    run(raw, tmp_path / "out", aggressive_hyphens=True, lowercase=False)
    for split in ("train", "valid", "test"):
        text = lines(tmp_path / "out" / "tokenized" / f"{split}.words")
        assert text[-1] == "ein 2 @-@ Pfund @-@ Brot - ja"


def test_cleaning_has_the_bounds_that_it_is_given(tmp_path):
    odd = [
        ("1 " * 80, "1 " * 80),
        ("1 " * 81, "1 " * 80),
        ("1 " * 27, "1 1 1"),
        ("1 " * 28, "1 1 1"),
    ]
    raw = write_corpus(tmp_path, edit=lambda split, pairs: odd + pairs)
    run(raw, tmp_path / "out", max_tokens=80, max_ratio=9)
    kept = [len(line.split()) for line in lines(tmp_path / "out" / "tokenized" / "train.words")]
    assert kept[:2] == [80, 27] and len(kept) == 102


def test_different_line_counts_are_an_error_that_names_both_files(tmp_path):
    raw = write_corpus(tmp_path)
    with open(raw["test"][1], "a") as file:
        file.write("one more\n")
    message = "test.words has 8 lines, but .*test.digits has 9"
    with pytest.raises(ValueError, match=message):
        run(raw, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_text_that_is_not_utf8_is_an_error_that_names_file_and_line(tmp_path):
    raw = write_corpus(tmp_path)
    with open(raw["train"][0], "ab") as file:
        file.write("Fünf\n".encode("latin-1"))
    with pytest.raises(ValueError, match="train.words, line 101: not UTF-8"):
        run(raw, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_empty_files_are_an_error(tmp_path):
    raw = write_corpus(tmp_path)
    for path in raw["valid"]:
        path.write_text("")
    with pytest.raises(ValueError, match="valid.words and .*valid.digits are empty"):
        run(raw, tmp_path / "out")


def test_an_error_if_cleaning_leaves_nothing(tmp_path):
    raw = write_corpus(tmp_path, edit=lambda split, pairs: [("eins", "1 2 3")] * 3)
    with pytest.raises(ValueError, match="cleaning leaves no training pair"):
        run(raw, tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
