"""Tables of labelled pairs in any form become the two inputs of each example."""

import csv
import io
import json
import re
import subprocess
import sys
from collections import Counter

import pytest
from published import write_archive, write_folder
from script_helpers import ROOT, contents, labelled_texts

from fairseq_odeformers.text.word_pieces import SPECIAL

LINE = "text-classification tsv"
WORDS = "a b c d e f the wind sea is calm wild so quiet".split()
CLASSES = ("same", "other", "b c")
EXAMPLES = [
    (CLASSES[n % 3], f'the {n} "sea", {WORDS[n % 5]}', f"the wind; {n} {WORDS[n % 7]}")
    for n in range(60)
]


@pytest.fixture
def vocab(tmp_path):
    digits = [*"0123456789", *(f"##{digit}" for digit in range(10))]
    pieces = [*SPECIAL, *WORDS, *digits, '"', ",", ";"]
    (tmp_path / "vocab.txt").write_text("\n".join(pieces) + "\n")
    return tmp_path / "vocab.txt"


def load(data_bin, split):
    """Class and both texts, the pieces of words joined, of each example of a split."""
    rows = labelled_texts(data_bin, split, inputs=2)
    return [tuple(cell.replace(" ##", "") for cell in row) for row in rows]


def pieces_of(example):
    return tuple(" ".join(re.sub('([",;])', r" \1 ", cell).split()) for cell in example)


def in_pieces(examples):
    return [(label, *(pieces_of(texts))) for label, *texts in examples]


def table(order, header=(), separator=",", examples=EXAMPLES):
    """The bytes of a table with cells of the columns *order*: label, first, second or a number."""
    rows = [header] if header else []
    rows += [[[*row, "7"][place] for place in order] for row in examples]
    if separator == "plain":
        return "".join("\t".join(row) + "\n" for row in rows).encode()
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator="\r\n").writerows(rows)
    return file.getvalue().encode()


def objects(names, examples=EXAMPLES):
    rows = ({"pair": 7, **dict(zip(names, row))} for row in examples)
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


FORMS = {
    "header.csv": (table((3, 1, 2, 0), ("id", "sentence1", "sentence2", "label")), None),
    "turned.csv": (table((2, 0, 1), ("Text 2", "Class", "Text 1")), None),
    "semicolons.csv": (table((0, 1, 2), ("gold_label", "text_a", "text_b"), ";"), None),
    "plain.tsv": (table((0, 1, 2), ("label", "premise", "hypothesis"), "plain"), None),
    "questions.tsv": (table((1, 2, 0), ("question", "sentence", "label"), "plain"), None),
    "fields.jsonl": (objects(("is_duplicate", "question1", "question2")), None),
    "names.csv": (
        table((3, 1, 2, 0), ("Nr", "Satz A", "Satz B", "Urteil")),
        "Urteil,Satz A,Satz B",
    ),
    "numbers.tsv": (table((2, 3, 1, 0), separator="plain"), "4,3,1"),
    "chosen.csv": (table((1, 0, 2), ("text1", "label", "text2")), "label,text1,text2"),
    "marked.csv": ("\ufeff".encode() + table((0, 1, 2), ("class", "query", "passage")), None),
}


@pytest.mark.parametrize("name", FORMS)
def test_tables_of_pairs_are_read_in_every_form(name, prepare, tmp_path, vocab):
    """The header or --columns names the columns, and validation and test sets are drawn."""
    content, columns = FORMS[name]
    source = write_folder(tmp_path / "own", {name: content}) / name
    chosen = ["--columns", columns] if columns else []
    log = prepare(LINE, source, "--vocab", vocab, *chosen)
    splits = {split: load(prepare.out / "data-bin", split) for split in ("train", "valid", "test")}
    assert {split: len(rows) for split, rows in splits.items()} == dict(train=51, valid=3, test=6)
    assert Counter(label for label, *_ in splits["test"]) == dict.fromkeys(CLASSES, 2)
    assert sorted(sum(splits.values(), [])) == sorted(in_pieces(EXAMPLES))
    assert "train: 51 pairs (17 b c, 17 other, 17 same)" in log


TEST = {
    "labelled.csv": table((0, 1, 2), ("label", "text1", "text2")),
    "other.csv": table((2, 1, 0), ("hypothesis", "premise", "label")),
    "alone.csv": table((1, 2), ("text1", "text2")),
    "numbered.csv": table((3, 1, 2), ("index", "sentence1", "sentence2")),
    "bare.tsv": table((1, 2), separator="plain"),
    "bare.jsonl": objects(("label", "text1", "text2")),
}


@pytest.mark.parametrize("name", TEST)
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_tables_of_a_folder_may_differ_in_form(name, form, prepare, tmp_path, vocab):
    """A test set may lack classes, and blank lines are skipped."""
    train = table((0, 1, 2), ("label", "sentence1", "sentence2"), "plain")
    files = {"in/train.tsv": train + b"\n  \n" + table((0, 1, 2), separator="plain")}
    files[f"in/test.{name.split('.')[1]}"] = TEST[name]
    if form == "zip":
        source = write_archive(tmp_path / "own.zip", files)
    else:
        source = write_folder(tmp_path / "own", files) / "in"
    log = prepare(f"{LINE} --valid-fraction 0.2", source, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    labels = (
        "without classes" if name in ("alone.csv", "numbered.csv", "bare.tsv") else "20 b c, 20"
    )
    assert f"test: 60 pairs ({labels}" in log
    assert (data_bin / "label" / "test.idx").exists() == ("20" in labels)
    assert "valid: held out from the training texts, 0.2 of each class" in log
    for split, examples in (("train", 96), ("valid", 24)):
        assert len(load(data_bin, split)) == examples
    assert contents(data_bin)[data_bin.relative_to(data_bin) / "input1" / "test.bin"]


def test_a_training_pair_with_an_empty_text_is_dropped(prepare, tmp_path, vocab, warnings):
    """In a test set such a pair stays, with a warning."""
    odd = [("same", "", "wind"), ("other", "sea", "\u200b"), ("same", "a", "b")]
    files = {
        f"{split}.csv": table((0, 1, 2), ("label", "text1", "text2"), examples=odd + EXAMPLES)
        for split in ("train", "valid", "test")
    }
    log = prepare(LINE, write_folder(tmp_path / "own", files), "--vocab", vocab)
    assert "dropped 2 training pairs with an empty text" in log
    assert "train.csv, lines 2, 3: a text is empty" in log
    assert load(prepare.out / "data-bin", "train")[0] == ("same", "a", "b")
    assert load(prepare.out / "data-bin", "test")[0] == ("same", "", "wind")
    messages = [
        line for line in warnings(log) if line.startswith("test, input0: 1.6% of the texts")
    ]
    assert len(messages) == 1 and "line 1" in messages[0]


def test_pairs_with_unique_texts_are_held_out_first(prepare, tmp_path, vocab, warnings):
    """Pairs that share one text follow, and repeated pairs come last."""
    once = [("same", f"a {n}", f"b {n}") for n in range(10)]
    shared = [("same", "the sea", f"c {n}") for n in range(10)]
    again = [("same", f"d {n % 5}", "the wind") for n in range(20)]
    others = [("other", f"e {n}", f"f {n}") for n in range(40)]
    examples = [*again, *shared, *once, *others]
    source = tmp_path / "own.csv"
    source.write_bytes(table((0, 1, 2), ("label", "text1", "text2"), examples=examples))
    log = prepare(f"{LINE} --test-fraction 0.3 --valid-fraction 0.28", source, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    drawn = [row for split in ("test", "valid") for row in load(data_bin, split)]
    same = {row for row in drawn if row[0] == "same"}
    assert {*in_pieces(once)} <= same <= {*in_pieces(once + shared)} and len(same) == 19
    assert not [line for line in warnings(log) if "are also in" in line]


def test_ambiguous_and_leaked_pairs_are_warned_of(prepare, tmp_path, vocab, warnings):
    """Pairs with two classes and training pairs in other sets are counted; the order matters."""
    rows = [("same", "a", "b"), ("other", "A", "b "), ("other", "b", "a"), ("same", "a", "c")]
    files = {
        f"{split}.csv": table((0, 1, 2), ("label", "text1", "text2"), examples=examples)
        for split, examples in (
            ("train", EXAMPLES + rows),
            ("test", rows[:1] + [("other", "c", "a")]),
        )
    }
    log = prepare(LINE, write_folder(tmp_path / "own", files), "--vocab", vocab)
    messages = warnings(log)
    assert any(
        line.startswith("train: 1 pair has several classes, first 'a | b'") for line in messages
    )
    assert any(
        line.startswith("test: 50.0% of the pairs (1 of 2) are also in") for line in messages
    )


@pytest.mark.parametrize(
    "header, order, columns, message",
    [
        (
            (),
            (0, 1, 2),
            None,
            r"are class and text; pass --columns CLASS,TEXT .pairs: CLASS,TEXT1,",
        ),
        (("Urteil", "text1", "text2"), (0, 1, 2), None, "does not tell .* them class, text1 and t"),
        (
            ("label", "question", "answer", "context"),
            (0, 1, 2, 3),
            None,
            "does not tell .* class, text1 and text2, .* or pass --columns",
        ),
        (("label", "text1", "text2", "review"), (0, 1, 2, 3), None, "header .* does not tell"),
        (("label", "text1", "text2"), (1, 0, 2), None, "60 classes for 3 distinct texts"),
        (
            ("a", "b", "c"),
            (0, 1, 2),
            "b,a,c",
            "seem to be swapped; pass --columns CLASS,TEXT1,TEXT2",
        ),
        (("a", "b", "c"), (0, 1, 2), "b,c,a", "seem to be swapped"),
        (("a", "b", "c"), (0, 1, 2), "1,2,3", "no other line has the class a; if this is a header"),
        (("a", "b", "c"), (0, 1, 2), "a,b,c,d", "a,b,c,d: give two or three names"),
        (("a", "b", "c"), (0, 1, 2), "a,b,b", "line 1: a,b,b: name each column once"),
        (("a", "b", "c"), (0, 1, 2), "a,b,d", "line 1: there is no column d"),
    ],
)
def test_unclear_columns_are_refused(header, order, columns, message, prepare, tmp_path, vocab):
    source = tmp_path / "own.tsv"
    source.write_bytes(table(order, header, "plain"))
    prepare.refuses(
        message, LINE, source, "--vocab", vocab, *["--columns", columns] * bool(columns)
    )


def test_repeated_premises_are_not_taken_for_classes(prepare, tmp_path, vocab):
    examples = [(CLASSES[n % 3], f"the {n // 3}", f"a {n}") for n in range(60)]
    source = tmp_path / "own.tsv"
    source.write_bytes(table((1, 0, 2), ("a", "b", "c"), "plain", examples))
    message = "20 classes for 3 distinct texts: the columns seem to be swapped"
    prepare.refuses(message, LINE, source, "--vocab", vocab, "--columns", "a,b,c")
    prepare(LINE, source, "--vocab", vocab, "--columns", "b,a,c")


@pytest.mark.parametrize(
    "row, message",
    [
        (b"same,a", "own.csv, line 62: expected 3 columns, label,text1,text2, found 2"),
        (b"same,a,b,c", "line 62: expected 3 columns, .* found 4; correct the line, or put its"),
        (b",a,b", "line 62: the label is missing"),
        (
            b"\r\n".join([b"same,a,b", *[b",a,b"] * 7]),
            "lines 63, 64, 65, 66, 67 and 2 more: the label is missing",
        ),
        (b"same,\xfcber,b", "line 62: not UTF-8 .* iconv -f windows-1252"),
        (b'same,"a,b', "line 62: .*correct the row's quotes"),
    ],
)
def test_a_bad_row_of_pairs_is_named(row, message, prepare, tmp_path, vocab):
    source = tmp_path / "own.csv"
    source.write_bytes(table((0, 1, 2), ("label", "text1", "text2")) + row + b"\r\n")
    prepare.refuses(message, LINE, source, "--vocab", vocab)


def test_tables_with_and_without_pairs_cannot_be_mixed(prepare, tmp_path, vocab):
    pairs = table((0, 1, 2), ("label", "text1", "text2"))
    single = table((0, 1), ("label", "text"))
    for number, (train, test) in enumerate([(pairs, single), (single, pairs)]):
        folder = write_folder(tmp_path / str(number), {"train.csv": train, "test.csv": test})
        prepare.refuses("test.csv, line 1: ", LINE, folder, "--vocab", vocab)


@pytest.mark.slow
def test_prepared_pairs_are_compared_and_predicted(prepare, tmp_path, vocab):
    """A comparison trains on prepared pairs, and predict reads their table with its --columns."""
    source = tmp_path / "own.csv"
    source.write_bytes(table((3, 1, 2, 0), ("Nr", "Satz A", "Satz B", "Urteil")))
    prepare(LINE, source, "--vocab", vocab, "--columns", "Urteil,Satz A,Satz B")
    small = "--archs transformer_classifier --width 8 --heads 2 --layers 1 --epochs 1 --cpu".split()
    data, runs, out = prepare.out / "data-bin", tmp_path / "runs", tmp_path / "out.tsv"
    run_odeformers("compare", data, *small, "--out", runs)
    path = runs / "transformer_classifier-seed1" / "checkpoint_best.pt"
    run_odeformers("predict", data, "--path", path, "--cpu", "--text", source, "--output", out)
    header, *rows = [line.split("\t") for line in out.read_text("utf-8").splitlines()]
    assert header == ["id", "text1", "text2", "prediction", *(f"p({c})" for c in sorted(CLASSES))]
    assert [row[1:3] for row in rows] == [texts for _, *texts in EXAMPLES]
    assert all(row[3] in CLASSES for row in rows)


def run_odeformers(*words):
    subprocess.run([sys.executable, "-m", "odeformers", *map(str, words)], check=True, cwd=ROOT)
