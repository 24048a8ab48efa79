"""Tokenised text of your own, and WikiText-103: what is read, and what is refused."""

import re

import pytest
from fairseq.data import Dictionary, data_utils
from published import wikitext103, write_archive, write_folder
from script_helpers import contents

import odeformers
from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab.corpora import lm
from fairseq_odeformers.lab.corpora import wikitext103 as corpus
from fairseq_odeformers.lab.corpora.archives import CHECKSUMS

TEXTS = {
    "train.txt": b"the end of the\n\nthe N\n",
    "valid.txt": b"the new N\n",
    "test.txt": b"of\n",
}


def sentences(data_bin, split):
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / split), dictionary)
    return [" ".join(dictionary[index] for index in ids) for ids in dataset]


def test_your_own_text(tmp_path):
    """Line by line, blank lines included; new words of other splits are unknown."""
    source = write_archive(tmp_path / "texts.tgz", TEXTS)
    odeformers.main(f"prepare lm --from {source} --out {tmp_path / 'out'} --workers 1".split())
    data_bin = tmp_path / "out" / "data-bin"
    assert sentences(data_bin, "train") == ["the end of the </s>", "</s>", "the N </s>"]
    assert sentences(data_bin, "valid") == ["the <unk> N </s>"]
    assert sentences(data_bin, "test") == ["of </s>"]


def test_your_own_text_is_not_held_against_a_published_one(tmp_path, caplog):
    """The log warns of a test set that is missing, and of nothing else."""
    source = write_folder(tmp_path / "texts", {**TEXTS, "more/notes.txt": b"\xff"})
    (source / "test.txt").unlink()
    data_bin = lm.prepare(source, tmp_path / "out", 1)
    assert [text for text in caplog.messages if "published" in text or "no test.txt" in text] == [
        f"{source} has no test.txt; that split is left out"
    ]
    assert not list(data_bin.glob("test*"))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"train.txt": None}, "texts has no train.txt; give a"),
        ({"train.txt": None, "valid.txt": None}, "texts has no train.txt, valid.txt; give a"),
        ({"valid.txt": b" \n\n"}, "raw/valid.txt is empty$"),
        ({"valid.txt": b"a\nb\rc\n"}, "raw/valid.txt, line 2: a carriage return within the line"),
        ({"train.txt": b"a <pad> b </s>\n"}, "raw/train.txt, line 1: </s> <pad> is a symbol"),
        ({"train.txt": b"a b\n\xe4\n"}, "raw/train.txt, line 2: not UTF-8"),
        ({"other/valid.txt": b"a\n"}, "texts has more than one valid.txt; keep one"),
    ],
)
def test_bad_text_is_named(changes, message, tmp_path, caplog):
    """The log has nothing before it but the sizes of other splits."""
    caplog.set_level("INFO")
    texts = {name: text for name, text in {**TEXTS, **changes}.items() if text is not None}
    with pytest.raises(ValueError, match=message):
        lm.prepare(write_folder(tmp_path / "texts", texts), tmp_path / "out", 1)
    assert not (tmp_path / "out" / "data-bin").exists()
    assert all(re.match(r"\w+: \d+ lines", text) for text in caplog.messages)


def test_wikitext103_is_downloaded(tmp_path, monkeypatch, caplog):
    """From an archive of its layout; the same files in a folder give the same data."""
    archive = write_archive(tmp_path / "server" / "wikitext-103-v1.zip", wikitext103())
    monkeypatch.setattr(corpus, "URL", archive.as_uri())
    monkeypatch.setitem(CHECKSUMS, archive.as_uri(), sha256(archive))
    monkeypatch.setattr(corpus, "PUBLISHED", {"train": (4, 10), "valid": (3, 6), "test": (1, 3)})
    odeformers.main(f"prepare wikitext103 --out {tmp_path / 'out'} --workers 1".split())
    data_bin = tmp_path / "out" / "data-bin"
    (first, heading, blank, paragraph, end) = sentences(data_bin, "train")
    assert (first, heading, blank) == ("</s>", "= One = </s>", "</s>")
    assert paragraph.startswith("the first @-@ rate ") and end == "the end </s>"
    assert sentences(data_bin, "valid")[2] == "the <unk> <unk> </s>"
    folder = write_folder(tmp_path / "folder", wikitext103())
    assert contents(corpus.prepare(folder, tmp_path / "again", 1)) == contents(data_bin)
    assert contents(corpus.prepare(archive.parent, tmp_path / "third", 1)) == contents(data_bin)


def test_other_text_than_wikitext103_is_warned_of(tmp_path, caplog):
    corpus.prepare(write_folder(tmp_path / "texts", wikitext103()), tmp_path / "out", 1)
    warnings = [text for text in caplog.messages if "the published WikiText-103 has" in text]
    assert len(warnings) == 3 and "1,801,350 lines and 101,425,671 words" in warnings[0]


def test_wikitext103_names_what_is_missing(tmp_path):
    texts = write_folder(tmp_path / "texts", TEXTS)
    with pytest.raises(
        ValueError, match="texts has no wiki.train.tokens, wiki.valid.tokens; give a"
    ):
        corpus.prepare(texts, tmp_path / "out", 1)


def test_fairseq_gets_the_lines_that_were_counted(tmp_path, caplog):
    """Without byte order marks, where files were joined, and carriage returns at ends of lines."""
    text = "\ufeffthe end\r\n\ufeffthe N\r\n".encode()
    source = write_folder(tmp_path / "texts", {**TEXTS, "train.txt": text})
    with caplog.at_level("INFO"):
        data_bin = lm.prepare(source, tmp_path / "out", 1)
    assert "train: 2 lines, 4 words" in caplog.text
    assert sentences(data_bin, "train") == ["the end </s>", "the N </s>"]
