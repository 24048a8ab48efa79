"""Published files and tables become the examples they hold, in word pieces; bad ones are named."""

import tarfile
from collections import Counter

import pytest
from fairseq.data import Dictionary, data_utils
from script_helpers import contents, refusal, times

from fairseq_odeformers.corpora import text_classification
from fairseq_odeformers.corpora.text_classification import DATASETS, hold_out, prepare
from fairseq_odeformers.data.word_pieces import SPECIAL
from fairseq_odeformers.files import sha256

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCAB = ["[unused0]", *SPECIAL, *ALPHABET, *(f"##{c}" for c in ALPHABET), *".,![]", "text"]
TABLE = {
    "train.tsv": [
        f"{label}\tText {n}, a {label} one." for n in range(20) for label in ("no", "a b")
    ],
    "test.tsv": ["no\tText 7!", "a b\t", "no\tTabs\tare  text", "a b\tÜber [SEP] 中\u200b"],
}
NEWS = {
    "train.csv": ['"4","A ""b"", c","d\ne"', '"1","f","g"', '"2","h","i"', '"3","j","k"'],
    "test.csv": ['"3","Text","a\\b"', '"1","",""'],
}
# What IMDb's archive has, with fewer reviews: each says what it is.
REVIEWS = {
    f"aclImdb/{split}/{label}/{number}_{rating}.txt": [f"{split} {label}<br /><br />{number}"]
    for split, count in (("train", 12), ("test", 3))
    for label, rating in (("pos", 8), ("neg", 2))
    for number in range(count)
}
OTHERS = {"aclImdb/train/unsup/0_0.txt": ["no"], "aclImdb/train/urls_pos.txt": ["no"]}


def write(folder, files, end="\n"):
    for name, lines in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes("".join(line + end for line in lines).encode())
    return folder


def write_archive(path, files):
    folder = write(path.with_suffix(".files"), files)
    with tarfile.open(path, "w:gz") as archive:
        for name in files:
            archive.add(folder / name, name)
    return path


@pytest.fixture
def vocab(tmp_path):
    return write(tmp_path, {"vocab.txt": VOCAB}) / "vocab.txt"


def load(data_bin, split):
    """Class and text, the pieces of its words joined, of each example of a split."""
    columns = []
    for part in ("label", "input0"):
        dictionary = Dictionary.load(str(data_bin / part / "dict.txt"))
        dataset = data_utils.load_indexed_dataset(str(data_bin / part / split), dictionary)
        assert all(ids.tolist().index(dictionary.eos()) == len(ids) - 1 for ids in dataset)
        columns.append([dictionary.string(ids).replace(" ##", "") for ids in dataset])
    return list(zip(*columns))


def test_imdb_has_the_reviews_of_each_folder_in_the_order_of_their_numbers(tmp_path, vocab):
    """An archive in any order and a folder give the same; nothing but reviews is read."""
    files = {**REVIEWS, **OTHERS}
    archive = write_archive(tmp_path / "one.tgz", dict(reversed(files.items())))
    data_bin = prepare("imdb", archive, tmp_path / "one", vocab)
    assert load(data_bin, "test") == [
        (label, f"test {label} {number}") for label in ("neg", "pos") for number in range(3)
    ]
    valid, train = load(data_bin, "valid"), load(data_bin, "train")
    assert Counter(label for label, _ in valid) == {"neg": 1, "pos": 1}
    every = [(label, f"train {label} {number}") for label in ("neg", "pos") for number in range(12)]
    assert train == [example for example in every if example not in valid]
    assert sorted(train + valid) == sorted(every)
    folder = write(tmp_path / "folder", files)
    assert contents(prepare("imdb", folder, tmp_path / "two", vocab)) == contents(data_bin)


@pytest.mark.parametrize("given", [False, True])
def test_the_archive_of_imdb_is_downloaded_or_given_in_a_folder(
    given, tmp_path, monkeypatch, vocab
):
    archive = write_archive(tmp_path / "aclImdb.tar.gz", REVIEWS)
    (tmp_path / "folder").mkdir()
    archive.rename(tmp_path / "folder" / archive.name)
    archive = tmp_path / "folder" / archive.name
    dataset = DATASETS["imdb"]._replace(downloads={archive.as_uri(): sha256(archive)})
    monkeypatch.setitem(DATASETS, "imdb", dataset)
    data_bin = prepare("imdb", archive.parent if given else None, tmp_path / "out", vocab)
    assert len(load(data_bin, "train")) == 22
    assert (tmp_path / "out" / "download" / archive.name).exists() != given


def test_agnews_has_titles_and_descriptions(tmp_path, monkeypatch, vocab):
    """Columns may have commas, quotes and line breaks; classes have names."""
    folder = write(tmp_path / "news", NEWS)
    downloads = {path.as_uri(): sha256(path) for path in folder.iterdir()}
    monkeypatch.setitem(DATASETS, "agnews", DATASETS["agnews"]._replace(downloads=downloads))
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
    """Classes are sorted; texts of the test set stay if they are empty."""
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


def test_texts_to_predict_need_no_class(tmp_path, vocab, caplog):
    """Where no line of the test set has one; the texts are those of a set that has classes."""
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


def test_a_given_validation_set_is_used(tmp_path, vocab):
    folder = write(tmp_path / "table", {**TABLE, "valid.tsv": ["no\t", "a b\tx"]})
    data_bin = prepare("tsv", folder, tmp_path / "out", vocab)
    assert load(data_bin, "valid") == [("no", ""), ("a b", "x")]
    assert len(load(data_bin, "train")) == len(TABLE["train.tsv"])


def test_empty_training_texts_are_left_out_and_counted(tmp_path, vocab, caplog):
    folder = write(
        tmp_path / "table", {"train.tsv": ["a\tx", "b\t \t", "b\ty", "a\t"], "test.tsv": ["a\tz"]}
    )
    with caplog.at_level("INFO"):
        data_bin = prepare("tsv", folder, tmp_path / "out", vocab, valid_fraction=0)
    assert load(data_bin, "train") == [("a", "x"), ("b", "y")]
    assert "left out 2 empty training texts" in caplog.text
    assert "train: 2 texts (1 a, 1 b)" in caplog.text


def test_a_part_of_each_class_is_held_out():
    """At random, but always the same; both parts are in order and have everything."""
    examples = [("rare" if n % 5 == 0 else "common", str(n)) for n in range(100)]
    kept, held_out = hold_out(examples, 0.25)
    assert Counter(label for label, _ in held_out) == {"common": 20, "rare": 5}
    assert [sorted(part, key=examples.index) for part in (kept, held_out)] == [kept, held_out]
    assert sorted(kept + held_out) == sorted(examples)
    assert hold_out(examples, 0.25) == (kept, held_out)
    assert held_out not in (examples[:25], examples[-25:])


def test_the_dictionary_is_the_vocabulary_without_special_pieces(tmp_path, vocab):
    """Those are fairseq's, of which there are as many, but for the one that masks."""
    data_bin = prepare("tsv", write(tmp_path / "table", TABLE), tmp_path / "out", vocab)
    dictionary = Dictionary.load(str(data_bin / "input0" / "dict.txt"))
    pieces = [piece for piece in VOCAB if piece not in SPECIAL]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *pieces]
    assert len(dictionary) == len(VOCAB) - 1
    assert (data_bin / "vocab.txt").read_bytes() == vocab.read_bytes()


def test_an_interrupted_preparation_leaves_nothing_and_a_finished_one_stays(
    tmp_path, monkeypatch, vocab, caplog
):
    def interrupt(*args):
        binarize(*args)
        raise KeyboardInterrupt

    binarize = text_classification.binarize
    folder, out = write(tmp_path / "table", TABLE), tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(text_classification, "binarize", interrupt)
        prepare("tsv", folder, out, vocab)
    assert list(out.iterdir()) == []
    data_bin = prepare("tsv", folder, out, vocab)
    before = times(out)
    with caplog.at_level("INFO"):
        prepare("tsv", folder, out, vocab)
    assert times(out) == before and "is up to date" in caplog.text
    write(folder, {"test.tsv": ["no\tchanged"]})
    prepare("tsv", folder, out, vocab)
    assert load(data_bin, "test") == [("no", "changed")]


@pytest.mark.parametrize(
    "name, files, message",
    [
        (
            "tsv",
            {"test.tsv": ["no\tx", "yes\ty"]},
            "test.tsv, line 2: class 'yes' is none of a b, no",
        ),
        (
            "tsv",
            {"train.tsv": ["no x"]},
            "train.tsv, line 1: 'no x' is not a class, a tab and text",
        ),
        ("tsv", {"test.tsv": ["no\tx", ""]}, "test.tsv, line 2: '' is not a class, a tab and text"),
        (
            "tsv",
            {"train.tsv": ["\tx"]},
            r"train.tsv, line 1: '\\tx' is not a class, a tab and text",
        ),
        ("tsv", {"train.tsv": []}, "table has no lines in train.tsv"),
        ("tsv", {"train.tsv": ["no\tx", "<s>\ty"]}, "train.tsv, line 2: no class .* '<s>'"),
        ("tsv", {"train.tsv": ["<unk>\tx"]}, "train.tsv, line 1: no class .* '<unk>'"),
        ("tsv", {"train.tsv": ["n\ro\tx"]}, r"train.tsv, line 1: no class .* 'n\\ro'"),
        ("tsv", {"train.tsv": ["no\tx", "a b\t"]}, "table has no training text of class a b"),
        ("tsv", {"train.tsv": ["no\tx", "a b\ty"]}, "0.1 of 2 training texts leaves none"),
        ("tsv", {"copy/train.tsv": ["no\tx"]}, "table has more than one train.tsv"),
        ("imdb", {}, r"table has no test/neg/\S*, test/pos/\S*, train/neg/\S*, train/pos/"),
        (
            "agnews",
            {"test.csv": ['"5","a","b"']},
            "test.csv, line 1: class '5' is none of 1, 2, 3, 4",
        ),
        (
            "agnews",
            {"test.csv": ['"1","a"']},
            "test.csv, line 1: 2 columns instead of class, title",
        ),
        ("agnews", {"test.csv": ['"1","a","b', ""]}, "test.csv, line 2: unexpected end of data"),
        (
            "agnews",
            {"train.csv": ['"1","a","b"']},
            "no training text of class Business, Sci/Tech, S",
        ),
    ],
)
def test_bad_files_are_named(name, files, message, tmp_path, vocab):
    folder = write(tmp_path / "table", {**TABLE, **NEWS, **files})
    with pytest.raises(ValueError, match=message):
        prepare(name, folder, tmp_path / "out", vocab)
    assert not list(tmp_path.glob("out/*"))


def test_text_that_is_not_utf8_is_named(tmp_path, vocab):
    folder = write(tmp_path / "data", TABLE)
    (folder / "test.tsv").write_bytes(b"no\tx\nno\t\xe4\n")
    with pytest.raises(ValueError, match="data/test.tsv, line 2: not UTF-8"):
        prepare("tsv", folder, tmp_path / "out", vocab)


def test_an_archive_that_is_cut_off_is_named(tmp_path, vocab):
    archive = write_archive(tmp_path / "one.tgz", REVIEWS)
    content = archive.read_bytes()
    for size in (len(content) // 2, 100, 0):
        archive.write_bytes(content[:size])
        with pytest.raises(ValueError, match="one.tgz is damaged"):
            prepare("imdb", archive, tmp_path / "out", vocab)


@pytest.mark.parametrize(
    "lines, message",
    [
        (["[UNK]", "a", "b 1"], "line 3: 'b 1' instead of a word piece"),
        (["[UNK]", "", "a"], "line 2: '' instead of a word piece"),
        (["[UNK]", "a", "a"], "line 3: 'a' again"),
        (["a", "b"], r"has no \[UNK\]: it is not the vocabulary of a BERT"),
        ([], r"has no \[UNK\]"),
    ],
)
def test_a_bad_vocabulary_is_refused_before_work_starts(lines, message, tmp_path):
    vocab = write(tmp_path, {"vocab.txt": lines}) / "vocab.txt"
    with pytest.raises(ValueError, match=f"vocab.txt,? {message}"):
        prepare("imdb", None, tmp_path / "out", vocab)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options, message",
    [
        (["sst"], "argument DATA: invalid choice: 'sst' (choose from "),
        (["tsv"], "tsv needs --from"),
        (["imdb", "--from", "absent"], "--from absent: no such file or folder"),
        (["imdb", "--vocab", "absent"], "--vocab absent: no such file or folder"),
        (
            ["imdb", "--vocab", "vocab.txt", "--vocab-size", "9"],
            "--vocab-size is for learning word pieces; leave it out with --vocab",
        ),
        (
            ["tsv", "--valid-fraction", "1"],
            "argument --valid-fraction: invalid fraction value: '1'",
        ),
    ],
)
def test_bad_options(options, message, tmp_path, monkeypatch, capsys, vocab):
    monkeypatch.chdir(tmp_path)
    last = refusal(text_classification.main, options, monkeypatch, capsys)
    assert last.startswith(f"prepare-text-classification.sh: error: {message}")
    assert list(tmp_path.iterdir()) == [vocab]
