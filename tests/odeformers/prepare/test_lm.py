"""Your own tokenised text becomes a data set for a language model; mistakes in it are named."""

import gzip

import pytest
from fairseq.data import Dictionary, data_utils
from published import write_archive, write_folder

TEXTS = {
    "train.txt": b"the end of the\n\nthe N\n",
    "valid.txt": b"the new N\n",
    "test.txt": b"of\n",
}


def sentences(data_bin, split):
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / split), dictionary)
    return [" ".join(dictionary[index] for index in ids) for ids in dataset]


def test_own_text_is_prepared_line_by_line(prepare, tmp_path):
    """Blank lines are kept, and words that only other splits have are unknown."""
    prepare("lm", write_archive(tmp_path / "texts.tgz", TEXTS))
    data_bin = prepare.out / "data-bin"
    assert sentences(data_bin, "train") == ["the end of the </s>", "</s>", "the N </s>"]
    assert sentences(data_bin, "valid") == ["the <unk> N </s>"]
    assert sentences(data_bin, "test") == ["of </s>"]


def test_own_text_is_not_compared_with_a_published_one(prepare, tmp_path, warnings):
    """The log only warns of a missing test set."""
    source = write_folder(tmp_path / "texts", {**TEXTS, "more/notes.txt": b"\xff"})
    (source / "test.txt").unlink()
    messages = warnings(prepare("lm", source))
    assert f"{source} has no test.txt; this split is left out" in messages
    assert not any("published" in line for line in messages)
    assert not list((prepare.out / "data-bin").glob("test*"))


def test_one_text_is_divided_in_its_order(prepare, tmp_path):
    """The last tenths of the lines with words are held out, without blank lines after them."""
    lines = [f"line {n}\n" for n in range(25)]
    text = "".join([*lines[:22], "\n" * 30, *lines[22:], "\n \n" * 9]).encode()
    prepare(
        "lm", write_folder(tmp_path / "texts", {"own.txt.gz": gzip.compress(text)}) / "own.txt.gz"
    )
    data_bin = prepare.out / "data-bin"
    assert sentences(data_bin, "train") == [f"line {n} </s>" for n in range(21)]
    line = "line <unk> </s>"
    assert sentences(data_bin, "valid") == [line, *["</s>"] * 30, line]
    assert sentences(data_bin, "test") == [line] * 2


@pytest.mark.parametrize("name", ["own.de", "own", "own.en.gz"])
def test_one_text_may_have_any_name(name, prepare, tmp_path):
    text = b"".join(b"line %d\n" % number for number in range(30))
    packed = gzip.compress(text) if name.endswith("gz") else text
    prepare("lm", write_folder(tmp_path / "texts", {name: packed}) / name)
    prepare("lm", write_folder(tmp_path, {"own.txt": text}) / "own.txt", out=tmp_path / "other")
    for split in ("train", "valid", "test"):
        expected = sentences(tmp_path / "other" / "data-bin", split)
        assert sentences(prepare.out / "data-bin", split) == expected


def test_characters_of_lines_are_kept(prepare, tmp_path):
    """Spaces are kept as ▁, blank lines stay, and no character of a line is lost."""
    source = write_folder(tmp_path / "texts", {**TEXTS, "train.txt": b" To  be,\n\nof N new\n"})
    assert "train: 3 lines, 16 characters" in prepare("lm", source, "--characters")
    data_bin = prepare.out / "data-bin"
    train = sentences(data_bin, "train")
    assert train == [
        "\u2581 T o \u2581 \u2581 b e , </s>",
        "</s>",
        "o f \u2581 N \u2581 n e w </s>",
    ]
    assert sentences(data_bin, "test") == ["o f </s>"]


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("own.jsonl", b'{"text": "a"}\n' * 30, "own.jsonl: a table; save its texts"),
        ("own.txt", b"a\n" * 9, "own.txt has 9 lines with words; 10 or more"),
        ("own.txt", b"a\n" * 9 + b"<pad>\n", "own.txt, line 10: <pad> is a symbol"),
        ("train.txt", b"a\n" * 99, "--from .*train.txt: pass its folder; or, to draw"),
    ],
)
def test_one_text_that_cannot_be_divided_is_refused(name, text, message, prepare, tmp_path):
    prepare.refuses(message, "lm", write_folder(tmp_path / "texts", {name: text}) / name)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train.txt": None}, "texts has no train.txt; pass a"),
        ({"train.txt": None, "valid.txt": None}, "texts has no train.txt, valid.txt; pass a"),
        ({"valid.txt": b" \n\n"}, "texts/valid.txt is empty; give a file"),
        ({"test.txt": b""}, "texts/test.txt is empty; give a file"),
        ({"valid.txt": b"a\nb\rc\n"}, "texts/valid.txt, line 2: a carriage return within the line"),
        ({"train.txt": b"a <pad> b </s>\n"}, "texts/train.txt, line 1: </s> <pad> is a symbol"),
        ({"train.txt": b"a b\n\xe4\n"}, "texts/train.txt, line 2: not UTF-8"),
        ({"other/valid.txt": b"a\n"}, "texts has more than one valid.txt; keep one"),
    ],
)
def test_bad_text_is_named(changes, message, prepare, tmp_path):
    texts = {name: text for name, text in {**TEXTS, **changes}.items() if text is not None}
    prepare.refuses(message, "lm", write_folder(tmp_path / "texts", texts))


def test_the_counted_lines_are_binarised(prepare, tmp_path):
    """Byte order marks of joined files and carriage returns at ends of lines are removed."""
    text = "\ufeffthe end\r\n\ufeffthe N\r\n".encode()
    log = prepare("lm", write_folder(tmp_path / "texts", {**TEXTS, "train.txt": text}))
    assert "train: 2 lines, 4 words" in log
    assert sentences(prepare.out / "data-bin", "train") == ["the end </s>", "the N </s>"]
