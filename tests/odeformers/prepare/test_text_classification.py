"""Published files and tables become examples in word pieces; bad files are named."""

import csv
import gzip
import io
import json
import random
import re
from collections import Counter
from dataclasses import replace

import pytest
from fairseq.data import Dictionary
from published import write_archive, write_folder
from script_helpers import contents, labelled_texts

from fairseq_odeformers.text.word_pieces import SPECIAL, load_tokenizer
from odeformers.prepare import text_classification

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCAB = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), *".,![]", "text"]
TABLE = {
    "train.tsv": [
        f"{label}\tText {n}, a {label} one." for n in range(20) for label in ("no", "a b")
    ],
    "test.tsv": ["no\tText 7!", "a b\t", "no\tSpaces are  text", "a b\tÜber [SEP] 中\u200b"],
}
NEWS = {
    "train.csv": ['"4","A ""b"", c","d\ne"', '"1","f","g"', '"2","h","i"', '"3","j","k"'],
    "test.csv": ['"3","Text","a\\b"', '"1","",""'],
}
# The files of IMDb's archive, with fewer reviews; each text names its file.
REVIEWS = {
    f"aclImdb/{split}/{label}/{number}_{rating}.txt": [f"{split} {label}<br /><br />{number}"]
    for split, count in (("train", 12), ("test", 3))
    for label, rating in (("pos", 8), ("neg", 2))
    for number in range(count)
}
OTHERS = {"aclImdb/train/unsup/0_0.txt": ["no"], "aclImdb/train/urls_pos.txt": ["no"]}


def encoded(files, end="\n"):
    return {
        name: "".join(line + end for line in lines).encode("utf-8", "surrogateescape")
        for name, lines in files.items()
    }


def write(folder, files, end="\n"):
    return write_folder(folder, encoded(files, end))


@pytest.fixture
def vocab(tmp_path):
    return write(tmp_path, {"vocab.txt": VOCAB}) / "vocab.txt"


LINE = "text-classification"


def load(data_bin, split):
    """Class and text, the pieces of its words joined, of each example of a split."""
    return [(label, text.replace(" ##", "")) for label, text in labelled_texts(data_bin, split)]


def test_imdbs_reviews_are_read_in_the_order_of_their_numbers(prepare, tmp_path, vocab):
    """An archive in any order, its folder and its files give the same data, without other files."""
    files = {**REVIEWS, **OTHERS}
    reversed_files = dict(reversed(encoded(files).items()))
    archive = write_archive(tmp_path / "published" / "aclImdb_v1.tar.gz", reversed_files)
    prepare(f"{LINE} imdb", archive, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    assert load(data_bin, "test") == [
        (label, f"test {label} {number}") for label in ("neg", "pos") for number in range(3)
    ]
    assert (data_bin / "label" / "dict.txt").read_text() == "neg 1\npos 1\n"
    valid, train = load(data_bin, "valid"), load(data_bin, "train")
    assert Counter(label for label, _ in valid) == {"neg": 1, "pos": 1}
    every = [(label, f"train {label} {number}") for label in ("neg", "pos") for number in range(12)]
    assert train == [example for example in every if example not in valid]
    assert sorted(train + valid) == sorted(every)
    for source in (archive.parent, write(tmp_path / "folder", files)):
        out = tmp_path / source.name / "out"
        prepare(f"{LINE} imdb", source, "--vocab", vocab, out=out)
        assert contents(out / "data-bin") == contents(data_bin)


def test_agnews_has_titles_and_descriptions(prepare, tmp_path, monkeypatch, vocab):
    """Columns may have commas, quotes and line breaks, and classes have names."""
    folder = write(tmp_path / "news", NEWS)
    corpora = text_classification.CORPORA
    downloads = [
        one._replace(url=(folder / one.files[0]).as_uri(), sha256="")
        for one in corpora["agnews"].downloads
    ]
    monkeypatch.setitem(corpora, "agnews", replace(corpora["agnews"], downloads=downloads))
    prepare(f"{LINE} agnews --valid-fraction 0", None, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    assert load(data_bin, "train") == [
        ("Sci/Tech", "a <unk> b <unk> , c d e"),
        ("World", "f g"),
        ("Sports", "h i"),
        ("Business", "j k"),
    ]
    assert load(data_bin, "test") == [("Business", "text a <unk> b"), ("World", "")]
    assert not list(data_bin.rglob("valid.*"))
    classes = Dictionary.load(str(data_bin / "label" / "dict.txt"))
    assert classes.symbols[classes.nspecial :] == ["World", "Sports", "Business", "Sci/Tech"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_each_line_of_a_table_has_a_class_and_a_text(end, prepare, tmp_path, vocab):
    """Classes are sorted, and empty texts of the test set stay.

    The dictionary is the vocabulary without special pieces, of which fairseq has as many, except
    for the mask.
    """
    folder = write(tmp_path / "table", TABLE, end)
    (folder / "train.tsv").write_bytes("\ufeff".encode() + (folder / "train.tsv").read_bytes())
    prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    assert load(data_bin, "test") == [
        ("no", "text 7 !"),
        ("a b", ""),
        ("no", "spaces are text"),
        ("a b", "uber [ sep ] <unk>"),
    ]
    assert (data_bin / "label" / "dict.txt").read_text() == "a b 1\nno 1\n"
    assert Counter(label for label, _ in load(data_bin, "valid")) == {"a b": 2, "no": 2}
    dictionary = Dictionary.load(str(data_bin / "input0" / "dict.txt"))
    pieces = [piece for piece in VOCAB if piece not in SPECIAL]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    assert (data_bin / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_texts_to_predict_need_no_class(prepare, tmp_path, vocab):
    """A test set without classes has the texts of one with classes; its rows may be numbered."""
    texts = ["Text 7!", "", "are  text"]
    folder = write(tmp_path / "a", {**TABLE, "test.tsv": texts})
    log = prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    assert "test: 3 examples (without classes)" in log
    bare, labelled = prepare.out / "data-bin", tmp_path / "labelled" / "data-bin"
    assert not list(bare.glob("label/test.*"))
    table = write(tmp_path / "b", {**TABLE, "test.tsv": [f"no\t{text}" for text in texts]})
    prepare(f"{LINE} tsv", table, "--vocab", vocab, out=labelled.parent)
    rows = ["Id\tText", *(f"{number}\t{text}" for number, text in enumerate(texts))]
    numbered = write(tmp_path / "c", {**TABLE, "test.tsv": rows})
    prepare(f"{LINE} tsv", numbered, "--vocab", vocab, out=tmp_path / "numbered")
    for name in ("input0/test.bin", "input0/test.idx"):
        for data_bin in (labelled, tmp_path / "numbered" / "data-bin"):
            assert (bare / name).read_bytes() == (data_bin / name).read_bytes()


def test_an_existing_validation_set_is_used(prepare, tmp_path, vocab):
    """Empty training texts are dropped and counted."""
    tables = {"train.tsv": ["a\tx", "b\t \t", "b\ty", "a\t"], "test.tsv": ["a\tz"]}
    folder = write(tmp_path / "table", {**tables, "valid.tsv": ["b\t", "a\tx"]})
    log = prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    data_bin = prepare.out / "data-bin"
    assert load(data_bin, "valid") == [("b", ""), ("a", "x")]
    assert load(data_bin, "train") == [("a", "x"), ("b", "y")]
    assert "dropped 2 empty training texts" in log
    assert "train.tsv, lines 2, 4: the text is empty" in log


@pytest.mark.parametrize(
    "label, count, tested, fault",
    [
        ("postive", 1, 0, "class postive has 1 text in train and none in test; {}positive?"),
        ("postive", 1, 1, "class postive has 1 text in train; {}positive?"),
        ("neutral", 2, 1, "class neutral has 2 texts in train"),
        ("neutral", 9, 0, "class neutral has 9 texts in train and none in test"),
        ("neutral", 3, 1, None),
    ],
)
def test_a_class_that_is_rare_or_misspelt_has_one_warning(
    label, count, tested, fault, prepare, tmp_path, vocab, warnings
):
    """The class is kept. A class with three texts or more that the test set has gets no warning."""
    train = [*["positive\tx"] * 30, *[f"{label}\ty"] * count, *["negative\tz"] * 30]
    test = ["positive\tp", "negative\tn", *[f"{label}\tq"] * tested]
    folder = write(tmp_path / "table", {"train.tsv": train, "test.tsv": test})
    log = prepare(f"{LINE} tsv --valid-fraction 0", folder, "--vocab", vocab)
    messages = [line for line in warnings(log) if line.startswith("class")]
    assert messages == [(fault or "").format("did you mean ")] * bool(fault)


@pytest.mark.parametrize(
    "names, message",
    [
        (
            ["yes", "Yes", "no"],
            "classes Yes, yes only differ in case, spaces or zeros; are they one?",
        ),
        (["1", "01", "1.0", "0"], "classes 01, 1, 1.0 only differ in case, spaces or zeros; are "),
        (
            ["a b", "a  b", "ab"],
            "classes a  b, a b only differ in case, spaces or zeros; are they",
        ),
        (["no", "null", "~", "true", "1e1", "1"], None),
    ],
)
def test_similar_classes_are_warned_of(names, message, prepare, tmp_path, vocab, warnings):
    """Similar classes are kept as they are, and none becomes a number or a word of YAML."""
    lines = [f" {name} \tx {n}" for n in range(4) for name in names]
    folder = write(
        tmp_path / "table", {f"{split}.tsv": lines for split in ("train", "valid", "test")}
    )
    log = prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    messages = [line for line in warnings(log) if line.startswith("classes")]
    assert [line.startswith(message or "") for line in messages] == [True] * bool(message)
    classes = Dictionary.load(str(prepare.out / "data-bin" / "label" / "dict.txt"))
    assert classes.symbols[classes.nspecial :] == sorted(names)


QUOTED = [
    *('"calm"\t"a ""quiet"" day"', '"wild"\t"the wind,\nthe\n\nsea"', '"calm"\t"still\there"'),
    *('wild\t"the sea\n""far"" away"', 'calm\tno quotes\t""', '"wild"\t"no\nrow\tof its own"'),
]
PLAIN = [
    *('calm\ta "quiet" day', "wild\tthe wind, the  sea", "calm\tstill here"),
    *('wild\tthe sea "far" away', "calm\tno quotes\t", "wild\tno row of its own"),
]


@pytest.mark.parametrize("header", [[], ["label\ttext"], ['"Class"\t"Review"']])
def test_a_spreadsheet_is_read_as_it_looks(header, prepare, tmp_path):
    """Quotes and header are not part of the text, and line breaks in a cell are spaces."""
    outs = {}
    for name, lines in (("csv", [*header, *QUOTED * 8]), ("tsv", PLAIN * 8)):
        folder = write(tmp_path / name, {f"train.{name}": lines, f"test.{name}": lines[:-1]})
        outs[name] = tmp_path / f"{name}-out"
        prepare(f"{LINE} tsv --vocab-size 60", folder, out=outs[name])
    data = [contents(out / "data-bin") for out in outs.values()]
    for files in data:
        [recipe] = [path for path in files if path.name == "recipe.json"]
        files.pop(recipe)
    assert data[0] == data[1]


CELLS = [
    ("calm", 'a "quiet", cold; day'),
    ("wild", "the wind, the sea"),
    ("calm", "still"),
    ("b c", "d"),
]


def table(*header, order=(0, 1), end="", separator=",", number=False):
    """The lines of a table as spreadsheets write it."""
    rows = [header] if header else []
    for count, row in enumerate(CELLS * 8):
        rows.append([*[str(count)] * number, *(row[place] for place in order)])
    file = io.StringIO()
    csv.writer(file, delimiter=separator, lineterminator=f"{end}\n").writerows(rows)
    return file.getvalue().splitlines()


TABLES = [
    {
        "csv": table(),
        "valid.csv": table("Label", "text"),
        "test.csv": table("text", "label", order=(1, 0)),
    },
    {
        "csv": ["sep=;", *table("class", "text", separator=";")],
        "valid.csv": table(separator=";"),
        "test.csv": table(separator="\t"),
    },
    {
        "csv": table("", "Review text", "Sentiment", order=(1, 0), number=True),
        "valid.csv": table("label", "text", "", "", end=",,"),
        "test.csv": [*table(end=","), "", ",,", ""],
    },
    {
        "csv": [
            "sentence\tlabel",
            *('"{}"\t{}'.format(b.replace('"', '""'), a) for a, b in CELLS * 8),
        ],
        "valid.tsv": [
            *(f"{n}\t{a}\t{b}" for n, (a, b) in enumerate([("class", "text"), *CELLS * 8]))
        ],
        "test.tsv": [*map("\t".join, CELLS * 8), "", "\t"],
    },
]


@pytest.mark.parametrize("files", TABLES)
def test_the_form_of_a_table_is_inferred(files, prepare, tmp_path, vocab):
    """A header and the common separator determine it; blank columns and final rows do not count."""
    named = {name if "." in name else f"train.{name}": lines for name, lines in files.items()}
    folder = write(tmp_path / "table", named, "\r\n")
    prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    texts = ["a <unk> quiet <unk> , cold <unk> day", "the wind , the sea", "still", "d"]
    expected = [(label, text) for (label, _), text in zip(CELLS, texts)]
    for split in ("train", "valid", "test"):
        assert load(prepare.out / "data-bin", split) == expected * 8


def objects(examples, label="label", text="text"):
    """JSON lines, with a field that is neither text nor class."""
    rows = [{"id": n, label: a, text: b} for n, (a, b) in enumerate(examples)]
    return [json.dumps(row, ensure_ascii=bool(n % 2)) for n, row in enumerate(rows)]


ROWS = CELLS * 8
CHOSEN = {
    "names": (
        "csv",
        ["Nr;Datum;Nachricht;Kategorie"]
        + ['1;2.3.;"{}";{}'.format(b.replace('"', '""'), a) for a, b in ROWS],
        "Kategorie,Nachricht",
    ),
    "numbers": ("tsv", [f"{n}\t{b}\tx\t{a}" for n, (a, b) in enumerate(ROWS)], "4,2"),
    "objects": ("jsonl", objects(ROWS), None),
    "fields": ("jsonl", objects(ROWS, "Kategorie", "Nachricht"), "Kategorie,Nachricht"),
}


@pytest.mark.parametrize("case", CHOSEN)
def test_columns_are_chosen_by_name_or_number(case, prepare, tmp_path, vocab):
    """The data equal those of a plain table."""
    name, rows, columns = CHOSEN[case]
    files = {
        name: rows,
        "txt": [f"{a}\t{b}" for a, b in ROWS],
    }
    results = []
    for ending, lines in files.items():
        source = write(tmp_path / case, {f"own.{ending}": lines}) / f"own.{ending}"
        chosen = ["--columns", columns] if columns and lines is rows else []
        out = tmp_path / f"{case}.{ending}"
        log = prepare(f"{LINE} tsv", source, "--vocab", vocab, *chosen, out=out)
        header = {
            "jsonl": "own.jsonl: its fields are id, ",
            "csv": "own.csv, line 1 is a header: Nr",
        }
        assert header.get(ending, "") in log
        splits = ("train", "valid", "test")
        results.append([load(tmp_path / f"{case}.{ending}/data-bin", split) for split in splits])
    assert results[0] == results[1] and len(results[0][0]) > 20


@pytest.mark.parametrize("name", ["own.csv", "own.tsv", "own.csv.gz"])
def test_one_table_is_divided(name, prepare, tmp_path, vocab):
    """Each text is in one set, a share of each class is held out, and repeated texts are not."""
    separator = "\t" if ".tsv" in name else ","
    examples = [("rare" if n % 5 == 0 else "common", str(n)) for n in range(100)]
    repeated = [("common", "again"), ("common", "Again"), ("rare", "again")] * 20
    rows = "".join(separator.join(row) + "\n" for row in [*examples, *repeated]).encode()
    source = tmp_path / name
    source.write_bytes(gzip.compress(rows) if name.endswith("gz") else rows)
    options = "--test-fraction 0.1 --valid-fraction 0.2"
    prepare(f"{LINE} tsv {options}", source, "--vocab", vocab)
    sets = {split: load(prepare.out / "data-bin", split) for split in ("train", "valid", "test")}
    assert Counter(label for label, _ in sets["test"]) == {"common": 12, "rare": 4}
    assert Counter(label for label, _ in sets["valid"]) == {"common": 21, "rare": 7}
    held_out = [text for split in ("valid", "test") for _, text in sets[split]]
    assert "again" not in held_out and len(set(held_out)) == 44
    lowered = [(label, text.lower()) for label, text in [*examples, *repeated]]
    assert sorted(sum(sets.values(), [])) == sorted(lowered)


def test_a_text_that_occurs_twice_is_in_one_set(prepare, tmp_path, vocab):
    """A held-out set shares no text with the training set or the other held-out set."""
    once = [(f"c{n % 2}", str(n)) for n in range(60)]
    twice = [(f"c{n % 2}", f"twice {n}") for n in range(40)] * 2
    rows = [f"{label},{text}" for label, text in [*once, *twice]]
    source = write(tmp_path / "table", {"own.csv": rows}) / "own.csv"
    prepare(f"{LINE} tsv --test-fraction 0.1 --valid-fraction 0.2", source, "--vocab", vocab)
    train, valid, test = (
        {text for _, text in load(prepare.out / "data-bin", split)}
        for split in ("train", "valid", "test")
    )
    assert valid and test and not train & (valid | test) and not valid & test


@pytest.mark.parametrize("name, separator", [("tsv", "\t"), ("csv", ","), ("csv", ";")])
def test_blank_lines_of_a_table_are_skipped(name, separator, prepare, tmp_path, vocab):
    """Blank lines may be anywhere; a row with a class and no text is not blank."""
    rows = [f"{label}{separator}{n}" for n in range(20) for label in ("no", "a b")]
    files = {f"train.{name}": ["", *rows[:9], "", "  ", *rows[9:], "", ""]}
    files[f"test.{name}"] = [rows[1], "", f"no{separator}", rows[0]]
    log = prepare(f"{LINE} tsv", write(tmp_path / "table", files), "--vocab", vocab)
    assert [text for _, text in load(prepare.out / "data-bin", "test")] == ["0", "", "0"]
    assert len(load(prepare.out / "data-bin", "train")) == 36
    assert f"train.{name}: blank lines skipped: 3\n" in log
    assert f"test.{name}: blank lines skipped: 1\n" in log


def test_quotes_of_plain_text_are_kept(prepare, tmp_path, vocab):
    """Quotes may surround some texts, or open one text and end the next."""
    lines = ['a b\t"Text" is, a "text"', 'no\t"a text"'] * 20
    tests = ['no\t"a text', 'a b\ttext"', 'no\t"a" text']
    folder = write(tmp_path / "table", {"train.tsv": lines, "test.tsv": tests, "valid.tsv": lines})
    prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    assert load(prepare.out / "data-bin", "valid")[:2] == [
        ("a b", "<unk> text <unk> is , a <unk> text <unk>"),
        ("no", "<unk> a text <unk>"),
    ]
    assert load(prepare.out / "data-bin", "test") == [
        ("no", "<unk> a text"),
        ("a b", "text <unk>"),
        ("no", "<unk> a <unk> text"),
    ]


def test_a_share_of_each_class_is_held_out(prepare, tmp_path, vocab):
    """The texts are random but always the same; both parts keep the order and lose nothing."""
    examples = [("rare" if n % 5 == 0 else "common", str(n)) for n in range(100)]
    lines = [f"{label}\t{text}" for label, text in examples]
    folder = write(tmp_path / "table", {"train.tsv": lines, "test.tsv": lines[:2]})
    prepare(f"{LINE} tsv --valid-fraction 0.25", folder, "--vocab", vocab)
    kept, held_out = (load(prepare.out / "data-bin", split) for split in ("train", "valid"))
    assert Counter(label for label, _ in held_out) == {"common": 20, "rare": 5}
    assert [sorted(part, key=examples.index) for part in (kept, held_out)] == [kept, held_out]
    assert sorted(kept + held_out) == sorted(examples)
    assert [n for label, n in held_out if label == "rare"] == ["10", "15", "30", "50", "80"]


def test_options_set_the_vocabulary_and_the_held_out_share(prepare, tmp_path):
    line = f"{LINE} tsv --vocab-size 60 --valid-fraction 0.2"
    prepare(line, write(tmp_path / "table", TABLE))
    data_bin = prepare.out / "data-bin"
    assert Counter(label for label, _ in load(data_bin, "valid")) == {"a b": 4, "no": 4}
    train = {text for _, text in load(data_bin, "train")}
    assert len(train) == 32 and "text 7 , a no one ." in train
    assert len((data_bin / "vocab.txt").read_text("utf-8").splitlines()) <= 60


@pytest.mark.parametrize(
    "name, rows, message",
    [
        ("own.csv", ["a,b", "a;b"], "own.csv, line 2: expected 2 columns, class,text, found 1"),
        (
            "own.csv",
            ["a,b", "a,b,c"],
            "own.csv, line 2: .* found 3; correct the line, or put its cells in quotes",
        ),
        ("own.csv", ["a,b", '"a,b', "c"], "own.csv, line 2: .*correct the row's quotes"),
        ("own.csv", ["a,b", "b,a"] * 2, "--test-fraction 0.1: from 4 training texts"),
        ("own.csv", [], "own.csv is empty"),
        ("own.xlsx", ["a,b"], "--from .*own.xlsx: a spreadsheet; save it as text, a table as .csv"),
        ("own.parquet", ["PAR1"], "--from .*own.parquet: a table in columns; save it as .jsonl"),
        ("own.json", ["[{}]"], "--from .*own.json: JSON; save it with one object per line"),
        ("own.jsonl", ['{"a": 1}', "x"], "own.jsonl, line 2: not JSON"),
        ("own.jsonl", ['["a"]'], "own.jsonl, line 1: not an object"),
        ("own.jsonl", ['{"text": "a"}', '{"txt": "a"}'], "line 2: the fields differ .*text, txt."),
        ("own.jsonl", ['{"Nr": 1, "b": "c"}'], "which of the columns Nr, b are class and text"),
        ("own.csv", ["Nr;b;Text;d"], "own.csv, line 1: .* name them .* or pass --columns"),
        ("own.csv", ["Nr;a;b;c"] * 9, "which of the columns Nr, a, b, c are class and text"),
        (
            "own.tsv",
            [f"A text of its own, {n}\tclass {n % 4}" for n in range(80)],
            "own.tsv: 80 classes for 4 distinct texts: the columns seem to be swapped",
        ),
        (
            "own.tsv",
            [f'"Text {n}"\tclass {n % 4}' if n % 2 else f"{n}\tclass 0" for n in range(80)],
            "own.tsv: 80 classes for 3 distinct texts: the columns seem to be swapped",
        ),
        ("train.csv", ["a,b"], "--from .*train.csv: pass its folder"),
        # ambiguous tables
        ("own.tsv", [*PLAIN, 'calm\t"a ""quiet"" day"'], "line 7: quoted as by a spreadsheet"),
        (
            "own.tsv",
            [f'"calm"\t"{n}"' for n in range(9)],
            "line 2: quoted .* name the file .csv",
        ),
        ("own.tsv", ["label\ttext", *(f'calm\t"{n}"' for n in range(9))], "line 2: quoted as by"),
        ("own.tsv", [*(f'calm\t"{n}"' for n in range(9)), "\t", ""], "line 2: quoted as by"),
        ("own.tsv", [*PLAIN[1:3], 'calm\t"the', 'calm\tsea"'], "line 3: quoted as by"),
        ("own.tsv", ['"calm"\tx', *PLAIN], "line 1: '\"calm\"' is not a valid class name"),
        (
            "own.tsv",
            ["1\tcalm\tx", "2\twild\ty"],
            "line 1: .* which of the columns 1, calm, x are class and text; pass --columns "
            "CLASS,TEXT .pairs: CLASS,TEXT1,TEXT2.",
        ),
        (
            "own.tsv",
            ["class\ttext", "1\tcalm\tx"],
            "line 2: expected 2 columns, class<tab>text, found 3",
        ),
        (
            "own.csv",
            ["calm,the wind; the sea"],
            "line 1: commas or semicolons may .* begin .* with a header",
        ),
        ("own.csv", ["3,5;calm"] * 9, "line 1: commas or semicolons"),
        ("own.csv", ["calm\ta, b"] * 9, "line 1: commas or tabs"),
        (
            "own.tsv",
            ["stimmung\tbericht", *PLAIN],
            "line 1: no .* has the class stimmung",
        ),
        (
            "own.csv",
            ["stimmung,bericht", *["a,b"] * 9],
            "line 1: no .* has the class stimmung",
        ),
        ("own.csv", ["class,text"], "has no rows below its header"),
    ],
)
def test_a_table_that_is_refused_leaves_no_folder(name, rows, message, prepare, tmp_path, vocab):
    source = write(tmp_path / "table", {name: rows}) / name
    prepare.refuses(message, f"{LINE} tsv", source, "--vocab", vocab)
    assert not prepare.out.exists()


@pytest.mark.parametrize(
    "columns, message",
    [
        ("a", "--columns: a: give two or three"),
        ("label,x", "no column x"),
        ("1,1", "1,1: name each column once"),
        ("7,1", "no column 7"),
    ],
)
def test_missing_columns_are_named(columns, message, prepare, tmp_path, vocab):
    source = write(tmp_path / "table", {"own.csv": table("label", "text")}) / "own.csv"
    prepare.refuses(message, f"{LINE} tsv", source, "--vocab", vocab, "--columns", columns)


@pytest.mark.parametrize(
    "name, files, message",
    [
        (
            "tsv",
            {"test.tsv": ["no\tx", "yes\ty"]},
            "table/test.tsv, line 2: yes is not one of a b, no; correct the line",
        ),
        (
            "tsv",
            {"test.tsv": [f"{'x' * 99}\ty"]},
            "line 1: x{40} is not one of a b, no; .*class<tab>",
        ),
        ("tsv", {"train.tsv": ["no x"]}, "train.tsv, line 1: .* class<tab>text, found 1"),
        ("tsv", {"test.tsv": ["no\tx", "", "no"]}, "test.tsv, line 3: .* found 1"),
        (
            "tsv",
            {"test.tsv": ["text\tclass", "x\tno", "x\ty\tno"]},
            "line 3: .* text<tab>class, found 3",
        ),
        ("tsv", {"test.tsv": ["class\ttext", "no\tx", "no"]}, "line 3: .* found 1"),
        *(
            (
                "tsv",
                {"test.tsv": [header, "x\tno\tno"]},
                f"line 1: the header .* name {remedy}",
            )
            for header, remedy in {
                "text\tlabel\tcategory": "them class and text, .* --columns",
                "Review\tsentence": "one text, .* --column",
                "text_label\ttext": "them class and text, .* --columns",
            }.items()
        ),
        ("tsv", {"train.csv": ["no,x"]}, "has train.csv and train.tsv; keep one"),
        ("tsv", {"train.tsv": ["a\tx", "a\ty"] * 20, "test.tsv": ["a\tz"]}, "one class, a.*; add"),
        ("tsv", {"train.tsv": ["a\tx"] * 20, "test.tsv": ["a\tz"]}, "one.*; add"),
        ("tsv", {"train.tsv": ["\tx"]}, "train.tsv, line 1: the label is missing; add it, or"),
        ("tsv", {"test.tsv": ["no\tx", " \ty"]}, "test.tsv, line 2: the label is missing; add"),
        (
            "tsv",
            {"test.tsv": ["no\tx", "no\t\udce4"]},
            "test.tsv, line 2: not UTF-8 .* with iconv -f windows-1252",
        ),
        ("tsv", {"train.tsv": []}, "train.tsv is empty"),
        ("tsv", {"train.tsv": ["no\tx", "<s>\ty"]}, "train.tsv, line 2: '<s>' is not"),
        ("tsv", {"train.tsv": ["<unk>\tx"]}, "train.tsv, line 1: '<unk>' is not"),
        ("tsv", {"train.tsv": ["n\x85o\tx"]}, r"train.tsv, line 1: 'n\\x85o' is not"),
        (
            "tsv",
            {"train.tsv": ["no\tx", "no\tx", "a b\t"]},
            "test.tsv, line 2: a b is not one of no;",
        ),
        (
            "tsv",
            {"train.tsv": ["no\tx", "no\tz", "a b\ty"]},
            "--valid-fraction 0.1: from 3 training texts",
        ),
        (
            "tsv",
            {"train.tsv": None},
            "table has no train.tsv or train.csv or train.jsonl; pass a folder or archive",
        ),
        ("imdb", {}, r"test/neg/\S*, test/pos/\S*, train/neg/\S*, train/pos/"),
        ("agnews", {"test.csv": ['"5","a","b"']}, "test.csv, line 1: expected class"),
        ("agnews", {"test.csv": ['"1","a"']}, "test.csv, line 1: expected class"),
        ("agnews", {"test.csv": ['"1","a","b', ""]}, "test.csv, line 1: unexpected end"),
        ("agnews", {"train.csv": []}, "train.csv has no texts"),
    ],
)
def test_bad_files_are_named(name, files, message, prepare, tmp_path, vocab):
    whole = NEWS if name == "agnews" else TABLE
    there = {name: lines for name, lines in {**whole, **files}.items() if lines is not None}
    folder = write(tmp_path / "table", there)
    prepare.refuses(message, f"{LINE} {name}", folder, "--vocab", vocab)


@pytest.mark.parametrize(
    "lines, message",
    [
        (["[UNK]", "a", "b 1"], ", line 3: 'b 1'"),
        (["[UNK]", "", "a"], ", line 2: ''"),
        (["[UNK]", "a", "a"], ", line 3: 'a'"),
        (["a", "b"], r".*\[UNK\]"),
    ],
)
def test_a_bad_vocabulary_is_refused_before_work_starts(lines, message, prepare, tmp_path):
    vocab = write(tmp_path, {"vocab.txt": lines}) / "vocab.txt"
    prepare.refuses(f"vocab.txt{message}", f"{LINE} imdb", None, "--vocab", vocab)
    assert not list(prepare.out.glob("[!.]*"))


@pytest.mark.parametrize("strip", [False, True])
def test_words_that_differ_by_an_accent(strip, prepare, tmp_path, warnings):
    """Words differ unless accents are stripped, and classes that do are warned of.

    So are texts with several classes.
    """
    lines = [f"{label}\tich {word} {n}" for n in range(20) for label, word in WORDS.items()]
    lines += ["should\tich", "must\tich"]
    source = write(tmp_path / "texts", {"train.tsv": lines, "test.tsv": lines})
    options = ["--strip-accents"] * strip
    messages = warnings(prepare(f"{LINE} tsv --vocab-size 100", source, *options))
    tokenizer = load_tokenizer(prepare.out / "data-bin" / "vocab.txt")
    first, second = (tokenizer.encode(word).tokens for word in WORDS.values())
    assert (first == second) == strip
    first = "21 texts have .* 'ich müsste 0'" if strip else "1 text has .* 'ich'"
    pattern = f"test: {first} [(]should, must[)]".replace(" .* ", " several classes, first ")
    pattern += "; texts with the same word pieces are treated as one text$"
    assert any(re.match(pattern, line) for line in messages)


WORDS = {"should": "müsste", "must": "musste"}


def test_unicode_forms_of_a_class_are_one_class(prepare, tmp_path, vocab):
    composed, decomposed = "caf\u00e9", "cafe\u0301"
    train = [f"{label}\tx" for label in (composed, decomposed, "bad") for _ in range(5)]
    folder = write(tmp_path / "table", {"train.tsv": train, "test.tsv": ["bad\tx"]})
    prepare(f"{LINE} tsv", folder, "--vocab", vocab)
    classes = prepare.out / "data-bin" / "label" / "dict.txt"
    assert classes.read_text() == f"bad 1\n{composed} 1\n"


def test_a_very_long_word_teaches_no_pieces(prepare, tmp_path):
    """Learning takes quadratic time in a word's length, and the word is unknown in any case."""
    word = "".join(random.Random(1).choices("abcdefghij", k=300_000))
    pieces = []
    for name, row in (("with", f"no\tText 7, a {word} one."), ("without", "no\tText 7, a one.")):
        table = {**TABLE, "train.tsv": [*TABLE["train.tsv"], row]}
        out = tmp_path / f"{name}-out"
        prepare(f"{LINE} tsv --vocab-size 80", write(tmp_path / name, table), out=out)
        pieces.append((out / "data-bin" / "vocab.txt").read_text())
    assert pieces[0] == pieces[1]
    assert "text 7 , a <unk> one ." in dict(
        map(reversed, load(tmp_path / "with-out/data-bin", "train"))
    )
