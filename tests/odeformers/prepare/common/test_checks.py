"""Data of any kind that make scores misleading get a warning with their share.

Each case has a split with the flaw and one without.
"""

import random
import shutil
from collections.abc import Sequence

import pytest
from published import write_folder

from odeformers.prepare.common.checks import find_flaws
from tests.odeformers.compare.test_outcome import write_text

WORDS = "alder birch cedar elm fir hazel juniper larch maple oak pine rowan spruce yew".split()
KINDS = {
    "pairs": "parallel -s de -t en --keep-case --max-ratio 9 --max-tokens 2000",
    "labels": "text-classification tsv --vocab-size 90",
    "lines": "lm",
}


def texts(size, seed):
    """Different texts of five words and a number."""
    drawn = random.Random(seed)
    return [" ".join([*drawn.sample(WORDS, 5), *str(1000 * seed + n)]) for n in range(size)]


def corpus(kind, **splits: Sequence[str]):
    """Files of a kind with the texts of each split, which alternate between the sides of pairs."""
    files = {}
    for split, rows in splits.items():
        if kind == "pairs":
            others = [f"{text} fir" for text in texts(len(rows), ord(split[-1]))]
            for side, lang in enumerate(("de", "en")):
                pairs = enumerate(zip(rows, others))
                files[f"{split}.{lang}"] = [pair[(n + side) % 2] for n, pair in pairs]
        elif kind == "labels":
            files[f"{split}.tsv"] = [f"{'ab'[n % 2]}\t{row}" for n, row in enumerate(rows)]
        else:
            files[f"{split}.txt"] = rows
    return {name: "".join(f"{row}\n" for row in rows).encode() for name, rows in files.items()}


@pytest.fixture
def find_warnings(prepare, tmp_path, warnings):
    """The warnings of a preparation, except the one about a small test set; or its whole log."""

    def run(kind, log=False, **splits):
        shutil.rmtree(prepare.out, ignore_errors=True)  # a folder keeps its texts
        log_text = prepare(KINDS[kind], write_folder(tmp_path / "raw", corpus(kind, **splits)))
        return log_text if log else [line for line in warnings(log_text) if "too few" not in line]

    return run


TRAIN, VALID, TEST = texts(200, 1), texts(40, 2), texts(40, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_clean_data_have_no_warning(kind, find_warnings):
    assert find_warnings(kind, train=TRAIN, valid=VALID, test=TEST) == []


@pytest.mark.parametrize("kind", KINDS)
def test_training_texts_in_other_splits_are_warned_of(kind, find_warnings):
    """A text counts anywhere and on either side of a pair, but not as the beginning of another."""
    longer = [f"{text} oak" for text in TRAIN[:5]]
    test = [*TEST[:20], *TRAIN[-6:-1], *longer, *TEST[20:30]]
    [warning] = find_warnings(kind, train=TRAIN, valid=VALID, test=test)
    what = "pairs (5 of 40) share a side with" if kind == "pairs" else "texts (5 of 40) are also in"
    assert warning.startswith(f"test: 12.5% of the {what} the training set; ")


def test_a_pair_is_compared_as_a_whole(prepare, tmp_path, warnings):
    """The same texts in another order are another pair."""
    rows = {"train": [("ab b", "c d"), ("e f", "g h")] * 10}
    rows["dev"] = [("ab b", "g h"), ("c d", "ab b"), ("e f", "g h"), ("e f", "x y")]
    rows["test"] = [("g h", "e f")] * 4
    files = {}
    for split, pairs in rows.items():
        label = ("entailment", "not_entailment")
        lines = [f"{one}\t{two}\t{label[n % 2]}" for n, (one, two) in enumerate(pairs)]
        lines = ["sentence1\tsentence2\tlabel", *lines]
        files[f"RTE/{split}.tsv"] = "".join(f"{line}\n" for line in lines).encode()
    log = prepare("glue RTE --bpe-operations 2", write_folder(tmp_path / "raw", files))
    messages = [line for line in warnings(log) if "the training set" in line]
    assert [line.split(" are")[0] for line in messages] == ["valid: 25.0% of the pairs (1 of 4)"]


@pytest.mark.parametrize(
    "size, said_as", [(100, "WARNING | test: 1.0%"), (200, "INFO | test: 0.5%")]
)
def test_one_percent_of_training_texts_is_a_warning(size, said_as, find_warnings):
    """A smaller share is only logged."""
    test = [*texts(size - 1, 4), TRAIN[3]]
    log = find_warnings("lines", log=True, train=TRAIN, valid=VALID, test=test)
    assert f"| {said_as} of the texts (1 of {size}) are also in the training set; " in log


def test_the_share_of_unknown_words_excludes_line_ends(find_warnings):
    """The ends of lines are not counted as words."""
    [warning] = find_warnings(
        "lines", train=TRAIN, valid=VALID, test=["<unk> oak", "pine <unk>"] * 50
    )
    assert warning.startswith("test: 50.0% of the tokens are unknown (<unk>); ")


def test_unknown_words_are_warned_of(find_warnings):
    """fairseq's own <unk> in a text counts, unless the training text has as large a share."""
    unknown = [f"<unk> {text}".replace(" birch", " <unk>") for text in TEST]
    for train, test, warned in (
        (TRAIN, unknown, True),
        (TRAIN, [text.replace("oak", "ash") for text in TEST], True),
        ([f"<unk> {text}" for text in TRAIN], unknown, True),
        ([f"{text} {text} <unk>" for text in TRAIN], [f"{t} {t} <unk>" for t in TEST], False),
    ):
        messages = find_warnings("lines", train=train, valid=VALID, test=test)
        assert (
            any("test: " in line and "are unknown (<unk>)" in line for line in messages) == warned
        )


@pytest.mark.parametrize("kind", ["pairs", "labels"])
def test_words_with_unknown_characters_are_warned_of(kind, find_warnings):
    """Half of the characters of each word do not occur in the training text."""
    test = [text.replace("e", "ж").replace("a", "щ") for text in TEST]
    messages = find_warnings(kind, train=TRAIN, valid=VALID, test=test)
    assert any(line.startswith("test") and "are unknown" in line for line in messages)
    assert not any(line.startswith("valid") for line in messages)


@pytest.mark.parametrize("kind", ["pairs", "labels"])
def test_empty_texts_are_named_by_their_lines(kind, find_warnings):
    """Texts of invisible characters are empty, too, and running text may have empty lines."""
    blanks = ["", " ", "\u00a0", "\u200b", "\u3000", "\u00ad\u200d"]
    test = [blanks[n % 6] if n % 3 == 2 else text for n, text in enumerate(TEST)]
    messages = find_warnings(kind, train=TRAIN, valid=VALID, test=test)
    if kind == "labels":
        assert [line.split(";")[0] for line in messages] == [
            "test: 32.5% of the texts are empty (13 of 40: lines 3, 6, 9, 12, 15 and 8 more)"
        ]
    else:
        assert [line.split(";")[0] for line in messages] == [
            "test, de: 17.5% of the texts are empty (7 of 40: lines 3, 9, 15, 21, 27 and 2 more)",
            "test, en: 15.0% of the texts are empty (6 of 40: lines 6, 12, 18, 24, 30 and 1 more)",
        ]


@pytest.mark.parametrize("kind", ["pairs", "labels"])
def test_invisible_training_texts_are_left_out(kind, find_warnings):
    log = find_warnings(
        kind, log=True, train=[*TRAIN, "\u200b", "\u2060 \u00ad"], valid=VALID, test=TEST
    )
    assert ("2 with an empty side" if kind == "pairs" else "dropped 2 empty training texts") in log


def test_blank_lines_of_running_text_have_no_warning(find_warnings):
    assert (
        find_warnings("lines", train=["", *TRAIN], valid=["", "", *VALID], test=["", *TEST, ""])
        == []
    )


@pytest.mark.parametrize("kind, positions", [("pairs", 1024), ("labels", 512)])
def test_texts_longer_than_a_models_limit_are_warned_of(kind, positions, find_warnings):
    """The end of a text counts as a token."""
    long = [" ".join(["oak"] * (positions - more)) for more in (0, 1)]
    messages = find_warnings(kind, train=TRAIN, valid=VALID, test=[long[0], *TEST, long[1]])
    [warning] = messages
    assert warning.startswith(f"more than {positions:,} tokens, ")
    assert "limit of models: 1 of 42 in test; longer" in warning


# --- for a comparison ------------------------------------------------------------------


def test_unknown_words_and_texts_of_the_training_set_are_counted(tmp_path):
    """Three of five words are unknown and two of three texts leaked; empty texts do not count."""
    write_text(tmp_path, "train", ["film", "odd", "film film"])
    assert find_flaws(tmp_path, (), ["test"]) == {}
    write_text(tmp_path, "test", ["film strange film", "odd", "odder", ""])
    # Both unknown words read <unk>, as the training text does.
    assert find_flaws(tmp_path, (), ["test"])["test"] == pytest.approx(
        {"unknown": 3 / 5, "leaked": 2 / 3}
    )


def test_other_pairs_in_a_folder_do_not_matter(tmp_path, caplog):
    """Files of other pairs may be missing; missing files of the model's own pair are logged."""
    for pair, count in (("de-en", 2), ("fr-en", 3)):
        for language in pair.split("-"):
            for split in ("train", "test"):
                write_text(tmp_path, f"{split}.{pair}.{language}", ["film"] * count, language)
    (tmp_path / "train.fr-en.fr.bin").unlink()
    for pair in (("de", "en"), ("en", "de")):
        assert find_flaws(tmp_path, pair, ["test"])["test"]["leaked"] == 1
    assert not caplog.records and find_flaws(tmp_path, ("fr", "en"), ["test"]) == {}
    (message,) = caplog.messages
    assert "leaked" in message and "train.fr-en.fr.bin" in message
    (tmp_path / "train.de-en.de.idx").write_text("damaged")
    assert (
        find_flaws(tmp_path, ("de", "en"), ["test"]) == {} and str(tmp_path) in caplog.messages[1]
    )
