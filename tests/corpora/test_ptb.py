"""The texts are found in folders and archives or downloaded; bad ones are named."""

import gzip
import re

import pytest
from fairseq.data import Dictionary, data_utils
from fairseq.tasks.language_modeling import LanguageModelingConfig, LanguageModelingTask
from published import PTB, ptb, write_archive
from script_helpers import contents

from fairseq_odeformers import cli
from fairseq_odeformers.corpora import ptb as corpus
from fairseq_odeformers.corpora.ptb import Text, prepare
from fairseq_odeformers.files import sha256

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


def write_tgz(path, texts):
    files = {f"./simple-examples/data/{name}": text.encode() for name, text in texts.items()}
    return write_archive(path, files)


@pytest.fixture(scope="module")
def data_bin(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ptb")
    archive = write_archive(folder / "simple-examples.tgz", ptb())
    cli.main(["prepare", "ptb", "--from", str(archive), "--out", str(folder / "out")])
    data_bin = folder / "out" / "data-bin"
    assert contents(prepare(archive, folder / "again", workers=1)) == contents(data_bin)
    return data_bin


def test_the_dictionary_has_the_words_of_the_training_text(data_bin):
    """Once each, fairseq's own symbols included, and is filled up to a multiple of 8."""
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    words = [word for word in WORDS if word != "<unk>"]
    fill = [f"madeupword000{number}" for number in range(6)]
    assert dictionary.symbols == ["<s>", "<pad>", "</s>", "<unk>", *words, *fill]


@pytest.mark.parametrize("split", PTB)
def test_data_hold_the_text_with_one_kind_of_unknown_word(data_bin, split):
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / split), dictionary)
    expected = [
        [word if word in WORDS else "<unk>" for word in line.split()] + ["</s>"]
        for line in PTB[split]
    ]
    assert [[dictionary[index] for index in ids] for ids in dataset] == expected
    unknown = sum(line.count("<unk>") for line in expected)
    assert sum((ids == dictionary.unk()).sum().item() for ids in dataset) == unknown > 0


@pytest.mark.parametrize("split", PTB)
def test_language_modeling_predicts_every_word_and_every_end_once(data_bin, split):
    cfg = LanguageModelingConfig(
        data=str(data_bin), tokens_per_sample=8, dataset_impl="mmap", use_plasma_view=False
    )
    task = LanguageModelingTask.setup_task(cfg)
    task.load_dataset(split)
    blocks = [block["target"].tolist() for block in task.dataset(split)]
    targets = [task.dictionary[index] for block in blocks for index in block]
    assert len(targets) == sum(len(line.split()) + 1 for line in PTB[split])
    assert targets.count("</s>") == len(PTB[split])


@pytest.fixture
def expected(tmp_path):
    """The prepared texts."""
    return contents(prepare(write(tmp_path / "texts", TEXTS), tmp_path / "expected", 1))


@pytest.mark.parametrize(
    "kind", ["plain names", "beside others", "compressed", "archive", "folder of archive"]
)
def test_texts_are_found_wherever_they_are(kind, tmp_path, expected):
    source = tmp_path / "source"
    if kind == "plain names":
        write(source, {f"data/{name}": text for name, text in PLAIN.items()})
    elif kind == "beside others":
        write(source, {**TEXTS, "a/test.txt": "another", "b/test.txt": "one"})
    elif kind == "compressed":
        source.mkdir()
        for name, text in TEXTS.items():
            (source / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
    else:
        archive = write_tgz(source / "simple-examples.tgz", TEXTS)
        source = archive if kind == "archive" else source
    assert contents(prepare(source, tmp_path / "out", 1)) == expected


def test_the_published_texts_are_downloaded(tmp_path, monkeypatch, expected, caplog):
    """They have the known size and checksum, or are refused."""
    folder = write(tmp_path / "published", TEXTS)
    sizes = {"train": (2, 5), "valid": (1, 3), "test": (1, 2)}
    texts = {
        split: Text(*size, sha256(folder / f"ptb.{split}.txt")) for split, size in sizes.items()
    }
    monkeypatch.setattr(corpus, "PUBLISHED", texts)
    monkeypatch.setattr(corpus, "URL", folder.as_uri())
    with caplog.at_level("INFO"):
        assert contents(prepare(None, tmp_path / "out", 1)) == expected
    assert "train: 2 sentences, 5 words" in caplog.text
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
    (folder / "ptb.valid.txt").write_text(" another \n")
    with pytest.raises(ValueError, match="ptb.valid.txt: SHA-256 is not"):
        prepare(None, tmp_path / "again", 1)
    assert not (tmp_path / "again" / "data-bin").exists()


def test_a_text_of_another_size_is_warned_of(tmp_path, monkeypatch, caplog):
    monkeypatch.setitem(corpus.PUBLISHED, "train", Text(2, 5, ""))
    monkeypatch.setitem(corpus.PUBLISHED, "valid", Text(1, 3, ""))
    monkeypatch.setitem(corpus.PUBLISHED, "test", Text(1, 2, ""))
    source = write(tmp_path / "source", {**TEXTS, "ptb.valid.txt": " the N \n"})
    prepare(source, tmp_path / "out", 1)
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert re.match("valid: .* which has 1 sentences and 3 words; .* do not compare", warnings[0])


def test_the_test_set_may_be_missing_and_come_later(tmp_path, expected, caplog):
    source = write(tmp_path / "source", PLAIN)
    (source / "test.txt").unlink()
    data_bin = prepare(source, tmp_path / "out", 1)
    assert "source has no test.txt; that split is left out" in caplog.text
    assert sorted(path.name for path in data_bin.iterdir()) == [
        *("dict.txt", "recipe.json", "train.bin", "train.idx", "valid.bin", "valid.idx")
    ]
    write(source, PLAIN)
    assert contents(prepare(source, tmp_path / "out", 1)) == expected


@pytest.mark.parametrize(
    "texts, message",
    [
        ({"ptb.test.txt": "a\n"}, "source has no ptb.train.txt or train.txt$"),
        ({"train.txt": "a\n", "test.txt": "a\n"}, "source has no ptb.valid.txt or valid.txt$"),
        ({**PLAIN, "copy/train.txt": "a\n"}, "source has more than one train.txt$"),
        ({**PLAIN, "valid.txt": " \n"}, "raw/valid.txt is empty$"),
        ({**PLAIN, "test.txt": ""}, "raw/test.txt is empty$"),
        ({**PLAIN, "valid.txt": "a\n\udce4\n"}, "raw/valid.txt, line 2: not UTF-8"),
    ],
)
def test_bad_texts_are_named(texts, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        prepare(write(tmp_path / "source", texts), tmp_path / "out", 1)
    assert not (tmp_path / "out" / "data-bin").exists()
