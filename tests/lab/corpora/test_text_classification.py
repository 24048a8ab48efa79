"""Published files and tables become the examples they hold, in word pieces; bad ones are named."""

from collections import Counter

import pytest
from fairseq.data import Dictionary
from published import write_archive, write_folder
from script_helpers import contents, labelled_texts

import odeformers
from fairseq_odeformers.data.word_pieces import SPECIAL, load_tokenizer
from fairseq_odeformers.lab.corpora.text_classification import DATASETS, hold_out, prepare

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCAB = [*SPECIAL, *LETTERS, *(f"##{c}" for c in LETTERS), *".,![]", "text"]
TABLE = {
    "train.tsv": [
        f"{label}\tText {n}, a {label} one." for n in range(20) for label in ("no", "a b")
    ],
    "test.tsv": ["no\tText 7!", "a b\t", "no\tTabs\tare  text", "a b\tÜber [SEP] 中\u200b"],
}
SWAPPED = [f"{n % 10}{'x' * 99}\tno" for n in range(17)]
NEWS = {
    "train.csv": ['"4","A ""b"", c","d\ne"', '"1","f","g"', '"2","h","i"', '"3","j","k"'],
    "test.csv": ['"3","Text","a\\b"', '"1","",""'],
}
# The files of IMDb's archive, with fewer reviews: each says which it is.
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


def load(data_bin, split):
    """Class and text, the pieces of its words joined, of each example of a split."""
    return [(label, text.replace(" ##", "")) for label, text in labelled_texts(data_bin, split)]


def test_imdb_has_the_reviews_of_each_folder_in_the_order_of_their_numbers(tmp_path, vocab):
    """An archive in any order, a folder of it and its files give the same; no others are read."""
    files = {**REVIEWS, **OTHERS}
    reversed_files = dict(reversed(encoded(files).items()))
    archive = write_archive(tmp_path / "published" / "aclImdb_v1.tar.gz", reversed_files)
    data_bin = prepare("imdb", archive, tmp_path / "one", vocab)
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
        again = prepare("imdb", source, tmp_path / source.name / "out", vocab)
        assert contents(again) == contents(data_bin)


def test_agnews_has_titles_and_descriptions(tmp_path, monkeypatch, vocab):
    """Columns may have commas, quotes and line breaks; classes have names."""
    folder = write(tmp_path / "news", NEWS)
    urls = tuple(path.as_uri() for path in folder.iterdir())
    monkeypatch.setitem(DATASETS, "agnews", DATASETS["agnews"]._replace(urls=urls))
    data_bin = prepare("agnews", None, tmp_path / "out", vocab, valid_fraction=0)
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
def test_a_table_has_a_class_and_text_in_each_line(end, tmp_path, vocab):
    """Classes are sorted; texts of the test set stay if they are empty.

    The dictionary is the vocabulary without special pieces: fairseq has as many of its own, except
    for the mask.
    """
    folder = write(tmp_path / "table", TABLE, end)
    (folder / "train.tsv").write_bytes("\ufeff".encode() + (folder / "train.tsv").read_bytes())
    data_bin = prepare("tsv", folder, tmp_path / "out", vocab)
    assert load(data_bin, "test") == [
        ("no", "text 7 !"),
        ("a b", ""),
        ("no", "tabs are text"),
        ("a b", "uber [ sep ] <unk>"),
    ]
    assert (data_bin / "label" / "dict.txt").read_text() == "a b 1\nno 1\n"
    assert Counter(label for label, _ in load(data_bin, "valid")) == {"a b": 2, "no": 2}
    dictionary = Dictionary.load(str(data_bin / "input0" / "dict.txt"))
    pieces = [piece for piece in VOCAB if piece not in SPECIAL]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    assert (data_bin / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_texts_to_predict_need_no_class(tmp_path, vocab, caplog):
    """If no line of the test set has a class, the texts are still the same."""
    texts = ["Text 7!", "", "are  text"]
    with caplog.at_level("INFO"):
        bare = prepare("tsv", write(tmp_path / "a", {**TABLE, "test.tsv": texts}), tmp_path, vocab)
    assert "test: 3 texts (without classes)" in caplog.text
    assert not list(bare.glob("label/test.*"))
    table = write(tmp_path / "b", {**TABLE, "test.tsv": [f"no\t{text}" for text in texts]})
    labelled = prepare("tsv", table, tmp_path / "out", vocab)
    for suffix in ("bin", "idx"):
        name = f"input0/test.{suffix}"
        assert (bare / name).read_bytes() == (labelled / name).read_bytes()


def test_a_given_validation_set_is_used(tmp_path, vocab, caplog):
    """Empty training texts are left out, and counted."""
    tables = {"train.tsv": ["a\tx", "b\t \t", "b\ty", "a\t"], "test.tsv": ["a\tz"]}
    folder = write(tmp_path / "table", {**tables, "valid.tsv": ["b\t", "a\tx"]})
    with caplog.at_level("INFO"):
        data_bin = prepare("tsv", folder, tmp_path / "out", vocab)
    assert load(data_bin, "valid") == [("b", ""), ("a", "x")]
    assert load(data_bin, "train") == [("a", "x"), ("b", "y")]
    assert "dropped 2 empty training texts" in caplog.text


@pytest.mark.parametrize(
    "label, count, tested, fault",
    [
        ("postive", 1, False, "the only text of class postive; did you mean positive?"),
        ("postive", 1, True, "the only text of class postive; did you mean positive?"),
        ("postive", 2, False, "the first of 2 texts of class postive; did you mean positive?"),
        ("Positive", 1, False, "classes that look alike: 'Positive', 'positive'"),
        ("Positive", 2, False, "classes that look alike: 'Positive', 'positive'"),
        ("postive", 2, True, "the first of 2 texts of class postive; did you mean positive?"),
        ("neutral", 2, True, None),
        ("neutral", 4, False, None),
    ],
)
def test_a_misspelt_class_has_one_warning(label, count, tested, fault, tmp_path, vocab, caplog):
    """It stays a class; the warning names its first line and the class that is like it.

    A class of several texts has none if it is not rare, or if the test set has it and no name is
    like its own.
    """
    train = [*["positive\tx"] * 20, *[f"{label}\ty"] * count, *["negative\tz"] * 20]
    test = ["positive\tx", *[f"{label}\ty"] * tested]
    folder = write(tmp_path / "table", {"train.tsv": train, "test.tsv": test})
    prepare("tsv", folder, tmp_path / "out", vocab)
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert said == [f"{folder}/train.tsv, line 21: {fault}"] * bool(fault)


def test_a_part_of_each_class_is_held_out():
    """At random, but always the same ones; both parts are in order and have everything."""
    examples = [("rare" if n % 5 == 0 else "common", str(n)) for n in range(100)]
    kept, held_out = hold_out(examples, 0.25)
    assert Counter(label for label, _ in held_out) == {"common": 20, "rare": 5}
    assert [sorted(part, key=examples.index) for part in (kept, held_out)] == [kept, held_out]
    assert sorted(kept + held_out) == sorted(examples)
    assert [n for label, n in held_out if label == "rare"] == ["10", "15", "30", "50", "80"]


def test_pieces_are_learnt_and_a_share_is_held_out_as_the_options_say(tmp_path):
    source, out = write(tmp_path / "table", TABLE), tmp_path / "out"
    options = ["--from", source, "--out", out, "--vocab-size", 60, "--valid-fraction", 0.2]
    odeformers.main(["prepare", "text-classification", "tsv", *map(str, options)])
    data_bin = out / "data-bin"
    assert Counter(label for label, _ in load(data_bin, "valid")) == {"a b": 4, "no": 4}
    train = {text for _, text in load(data_bin, "train")}
    assert len(train) == 32 and "text 7 , a no one ." in train
    assert len((data_bin / "vocab.txt").read_text("utf-8").splitlines()) <= 60


def test_a_file_in_place_of_its_folder(tmp_path):
    folder = write(tmp_path / "table", TABLE)
    with pytest.raises(ValueError, match="train.tsv: give the folder with train.tsv, test.tsv"):
        prepare("tsv", folder / "train.tsv", tmp_path / "out")


@pytest.mark.parametrize(
    "name, files, named",
    [
        (
            "tsv",
            {"test.tsv": ["no\tx", "yes\ty"]},
            "table/test.tsv, line 2: yes is not one of .* add .* to train.tsv",
        ),
        (
            "tsv",
            {"test.tsv": [f"{'x' * 99}\ty"]},
            "line 1: x{40} is not one of a b, no; .*CLASS<tab>",
        ),
        (
            "tsv",
            {"train.tsv": SWAPPED},
            "has 10 classes in 17 lines: (0x{39}, )(.x{39}, ){4}...; .*swap .*prepare parallel",
        ),
        ("tsv", {"train.tsv": ["no x"]}, "train.tsv, line 1: 'no x'"),
        ("tsv", {"test.tsv": ["no\tx", ""]}, "test.tsv, line 2: ''"),
        ("tsv", {"train.tsv": ["\tx"]}, r"train.tsv, line 1: '\\tx'"),
        (
            "tsv",
            {"test.tsv": ["no\tx", "no\t\udce4"]},
            "test.tsv, line 2: not UTF-8 .* with iconv -f latin1",
        ),
        ("tsv", {"train.tsv": []}, "train.tsv"),
        ("tsv", {"train.tsv": ["no\tx", "<s>\ty"]}, "train.tsv, line 2: .* '<s>'"),
        ("tsv", {"train.tsv": ["<unk>\tx"]}, "train.tsv, line 1: .* '<unk>'"),
        ("tsv", {"train.tsv": ["n\ro\tx"]}, r"train.tsv, line 1: .* 'n\\ro'"),
        ("tsv", {"train.tsv": ["no\tx", "a b\t"]}, "class a b"),
        ("tsv", {"train.tsv": ["no\tx", "a b\ty"]}, "--valid-fraction 0.1: of 2 training texts"),
        ("imdb", {}, r"test/neg/\S*, test/pos/\S*, train/neg/\S*, train/pos/"),
        ("agnews", {"test.csv": ['"5","a","b"']}, "test.csv, line 1: expected class"),
        ("agnews", {"test.csv": ['"1","a"']}, "test.csv, line 1: expected class"),
        ("agnews", {"test.csv": ['"1","a","b', ""]}, "test.csv, line 2"),
        ("agnews", {"train.csv": ['"1","a","b"']}, "class Business, Sci/Tech"),
    ],
)
def test_bad_files_are_named(name, files, named, tmp_path, vocab):
    folder = write(tmp_path / "table", {**TABLE, **NEWS, **files})
    with pytest.raises(ValueError, match=named):
        prepare(name, folder, tmp_path / "out", vocab)
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    "lines, named",
    [
        (["[UNK]", "a", "b 1"], ", line 3: 'b 1'"),
        (["[UNK]", "", "a"], ", line 2: ''"),
        (["[UNK]", "a", "a"], ", line 3: 'a'"),
        (["a", "b"], r".*\[UNK\]"),
    ],
)
def test_a_bad_vocabulary_is_refused_before_work_starts(lines, named, tmp_path):
    vocab = write(tmp_path, {"vocab.txt": lines}) / "vocab.txt"
    with pytest.raises(ValueError, match=f"vocab.txt{named}"):
        prepare("imdb", None, tmp_path / "out", vocab)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("strip", [False, True])
def test_words_that_differ_by_a_mark(strip, tmp_path, capsys):
    """They stay apart unless asked; classes that only a mark tells apart are warned of.

    So are texts that have several classes as they are.
    """
    lines = "".join(f"should\tich müsste {n}\nmust\tich musste {n}\n" for n in range(20))
    lines += "should\tich\nmust\tich\n"
    source = tmp_path / "texts"
    source.mkdir()
    for split in ("train", "test"):
        (source / f"{split}.tsv").write_text(lines, encoding="utf-8")
    line = ["tsv", "--from", source, "--out", tmp_path / "out", "--vocab-size", 100]
    odeformers.main(
        ["prepare", "text-classification", *map(str, line), *["--strip-accents"] * strip]
    )
    tokenizer = load_tokenizer(tmp_path / "out" / "data-bin" / "vocab.txt")
    first, second = (tokenizer.encode(word).tokens for word in ("müsste", "musste"))
    assert (first == second) == strip
    said = "".join(capsys.readouterr())
    assert ("test: 20 texts have several classes once split" in said) == strip
    assert "test: 1 texts occur with several classes" in said


def test_labels_that_look_alike(tmp_path, vocab, caplog):
    """The same letters in another form are one class; invisible differences are warned of."""
    composed, decomposed, hidden = "caf\u00e9", "cafe\u0301", "b\u200bad"
    train = [f"{label}\tx" for label in (composed, decomposed, "bad", hidden) for _ in range(5)]
    folder = write(tmp_path / "table", {"train.tsv": train, "test.tsv": ["bad\tx"]})
    data_bin = prepare("tsv", folder, tmp_path / "out", vocab)
    dictionary = Dictionary.load(str(data_bin / "label" / "dict.txt"))
    assert dictionary.symbols[dictionary.nspecial :][:3] == sorted(["bad", hidden, composed])
    assert "classes that look alike: 'bad', 'b\\u200bad'" in caplog.text
