"""The texts are found in folders and archives or downloaded; bad ones are named."""

import pytest
from fairseq.data import Dictionary, data_utils
from published import PTB, ptb, write_archive
from script_helpers import contents

import odeformers
from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab.corpora import ptb as corpus
from fairseq_odeformers.lab.corpora.archives import CHECKSUMS
from fairseq_odeformers.lab.corpora.ptb import prepare

WORDS = ["the", "<unk>", "N", "end", "of", "points", "rose"]  # by frequency, then by alphabet
TEXTS = {
    "ptb.train.txt": " the <unk> rose \n the N \n",
    "ptb.valid.txt": " the N rose \n",
    "ptb.test.txt": " the end \n",
}
PLAIN = {name.removeprefix("ptb."): text for name, text in TEXTS.items()}


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, errors="surrogateescape")
    return folder


@pytest.fixture(scope="module")
def data_bin(tmp_path_factory):
    """Of a folder that has the published archive."""
    folder = tmp_path_factory.mktemp("ptb")
    write_archive(folder / "published" / "simple-examples.tgz", ptb())
    line = f"prepare ptb --from {folder / 'published'} --out {folder / 'out'}"
    odeformers.main(line.split())
    return folder / "out" / "data-bin"


def test_data_hold_the_text_with_one_kind_of_unknown_word(data_bin):
    """The dictionary has the words of the training text once each, fairseq's own included.

    It is filled up to a multiple of 8.
    """
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    words = [word for word in WORDS if word != "<unk>"]
    fill = [f"madeupword000{number}" for number in range(6)]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *words, *fill]
    for split, text in PTB.items():
        dataset = data_utils.load_indexed_dataset(str(data_bin / split), dictionary)
        assert [[dictionary[index] for index in ids] for ids in dataset] == [
            [word if word in WORDS else "<unk>" for word in line.split()] + ["</s>"]
            for line in text
        ]


@pytest.fixture
def expected(tmp_path):
    """The prepared texts."""
    return contents(prepare(write(tmp_path / "texts", TEXTS), tmp_path / "expected", 1))


@pytest.mark.parametrize(
    "texts",
    [
        {f"data/{name}": text for name, text in PLAIN.items()},
        {**TEXTS, "a/test.txt": "another", "b/test.txt": "one"},
    ],
)
def test_texts_have_one_of_two_names(texts, tmp_path, expected):
    assert contents(prepare(write(tmp_path / "source", texts), tmp_path / "out", 1)) == expected


def test_the_published_texts_are_downloaded(tmp_path, monkeypatch, expected, caplog):
    """Another checksum is refused, and another size of a text of your own is warned of."""
    folder = write(tmp_path / "published", TEXTS)
    sizes = {"train": (2, 5), "valid": (1, 3), "test": (1, 2)}
    for path in folder.iterdir():
        monkeypatch.setitem(CHECKSUMS, path.as_uri(), sha256(path))
    monkeypatch.setattr(corpus, "PUBLISHED", sizes)
    monkeypatch.setattr(corpus, "URL", folder.as_uri())
    assert contents(prepare(None, tmp_path / "out", 1)) == expected
    assert not caplog.messages
    write(folder, {"ptb.valid.txt": " the N \n"})
    with pytest.raises(ValueError, match="ptb.valid.txt: SHA-256"):
        prepare(None, tmp_path / "again", 1)
    assert not (tmp_path / "again" / "data-bin").exists()
    prepare(folder, tmp_path / "own", 1)
    (warning,) = caplog.messages
    assert warning.startswith("valid: ") and "1 lines and 3 words" in warning


def test_the_test_set_may_be_missing_and_come_later(tmp_path, expected, caplog):
    source = write(tmp_path / "source", PLAIN)
    (source / "test.txt").unlink()
    data_bin = prepare(source, tmp_path / "out", 1)
    assert "source has no test.txt" in caplog.text
    assert not list(data_bin.glob("test*"))
    write(source, PLAIN)
    assert contents(prepare(source, tmp_path / "out", 1)) == expected


@pytest.mark.parametrize(
    "texts, message",
    [
        ({"ptb.test.txt": "a\n"}, "source has no train.txt, valid.txt; give a"),
        ({"train.txt": "a\n", "test.txt": "a\n"}, "source has no valid.txt; give a"),
        ({**PLAIN, "valid.txt": " \n"}, "raw/valid.txt is empty"),
        ({**PLAIN, "test.txt": ""}, "raw/test.txt is empty"),
        ({**PLAIN, "valid.txt": "a\n\udce4\n"}, "raw/valid.txt, line 2: not UTF-8"),
    ],
)
def test_bad_texts_are_named(texts, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prepare(write(tmp_path / "source", texts), tmp_path / "out", 1)
    assert not (tmp_path / "out" / "data-bin").exists()
