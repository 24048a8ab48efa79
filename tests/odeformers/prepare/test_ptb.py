"""The texts are found in folders and archives or downloaded; bad texts are named."""

from dataclasses import replace

import pytest
from fairseq.data import Dictionary, data_utils
from published import PTB, ptb, write_archive
from script_helpers import contents

from fairseq_odeformers.files import sha256
from odeformers.prepare import ptb as corpus
from odeformers.prepare.common.lines import Lines

WORDS = ["the", "<unk>", "N", "end", "of", "points", "rose"]  # by frequency, then by alphabet
TEXTS = {
    "ptb.train.txt": " the <unk> rose \n the N \n",
    "ptb.valid.txt": " the N rose \n",
    "ptb.test.txt": " the end \n",
}


def write(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, errors="surrogateescape")
    return folder


def test_the_dictionary_has_each_word_once(prepare, tmp_path):
    """Words of the training text that are fairseq's own symbols are not repeated.

    The dictionary is filled up to a multiple of 8, and other texts in a publisher's archive do not
    matter.
    """
    prepare("ptb", write_archive(tmp_path / "simple-examples.tgz", ptb()))
    data_bin = prepare.out / "data-bin"
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
def expected(prepare, tmp_path):
    """The binarised files of the prepared texts."""
    prepare("ptb", write(tmp_path / "texts", TEXTS), out=tmp_path / "expected")
    return contents(tmp_path / "expected" / "data-bin")


def test_the_published_texts_are_downloaded(prepare, tmp_path, monkeypatch, expected, warnings):
    """Another checksum is refused, and a user's own text of another size is warned of."""
    folder = write(tmp_path / "published", TEXTS)
    downloads = [
        one._replace(url=(folder / one.files[0]).as_uri(), sha256=sha256(folder / one.files[0]))
        for one in corpus.CORPUS.downloads
    ]
    writer = Lines("Penn Treebank", {"train": (2, 5), "valid": (1, 3), "test": (1, 2)})
    published = replace(corpus.CORPUS, downloads=downloads, writer=writer)
    monkeypatch.setattr(corpus, "CORPUS", published)
    log = prepare("ptb")
    assert contents(prepare.out / "data-bin") == expected
    assert "the published" not in log
    write(folder, {"ptb.valid.txt": " the N \n"})
    with pytest.raises(Exception, match="ptb.valid.txt: SHA-256"):
        prepare("ptb", out=tmp_path / "again")
    assert not (tmp_path / "again" / "data-bin").exists()
    (warning,) = (
        line
        for line in warnings(prepare("ptb", folder, out=tmp_path / "own"))
        if "the published Penn" in line
    )
    assert warning.startswith("valid: ") and "1 lines and 3 words" in warning


def test_a_missing_test_set_can_be_added_later(prepare, tmp_path, expected, warnings):
    source = write(tmp_path / "source", TEXTS)
    (source / "ptb.test.txt").unlink()
    log = prepare("ptb", source)
    assert any("source has no ptb.test.txt" in line for line in warnings(log))
    assert not list((prepare.out / "data-bin").glob("test*"))
    write(source, TEXTS)
    prepare("ptb", source)
    assert contents(prepare.out / "data-bin") == expected


@pytest.mark.parametrize(
    "texts, message",
    [
        ({"ptb.test.txt": "a\n"}, "source has no ptb.train.txt, ptb.valid.txt; pass a"),
        ({**TEXTS, "ptb.valid.txt": " \n"}, "source/ptb.valid.txt is empty"),
        ({**TEXTS, "ptb.valid.txt": "a\n\udce4\n"}, "ptb.valid.txt, line 2: not UTF-8"),
    ],
)
def test_bad_texts_are_named(texts, message, prepare, tmp_path):
    prepare.refuses(message, "ptb", write(tmp_path / "source", texts))
