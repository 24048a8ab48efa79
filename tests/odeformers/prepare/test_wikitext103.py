"""WikiText-103 is found in its archive and in folders, or downloaded."""

from dataclasses import replace

from fairseq.data import Dictionary, data_utils
from published import wikitext103, write_archive, write_folder
from script_helpers import contents

from fairseq_odeformers.files import sha256
from odeformers.prepare import wikitext103 as corpus
from odeformers.prepare.common.lines import Lines


def sentences(data_bin, split):
    dictionary = Dictionary.load(str(data_bin / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / split), dictionary)
    return [" ".join(dictionary[index] for index in ids) for ids in dataset]


def test_wikitext103_is_downloaded(prepare, tmp_path, monkeypatch, warnings):
    """The archive has the published layout, and the same files in a folder give the same data."""
    archive = write_archive(tmp_path / "server" / "wikitext-103-v1.zip", wikitext103())
    url, checksum = archive.as_uri(), sha256(archive)
    published = corpus.CORPUS
    downloads = [one._replace(url=url, sha256=checksum) for one in published.downloads]
    writer = Lines("WikiText-103", {"train": (4, 10), "valid": (3, 6), "test": (1, 3)})
    published = replace(published, downloads=downloads, writer=writer)
    monkeypatch.setattr(corpus, "CORPUS", published)
    prepare("wikitext103")
    data_bin = prepare.out / "data-bin"
    (first, heading, blank, paragraph, end) = sentences(data_bin, "train")
    assert (first, heading, blank) == ("</s>", "= One = </s>", "</s>")
    assert paragraph.startswith("the first @-@ rate ") and end == "the end </s>"
    assert sentences(data_bin, "valid")[2] == "the <unk> <unk> </s>"
    for number, source in enumerate((write_folder(tmp_path / "f", wikitext103()), archive.parent)):
        out = tmp_path / str(number)
        prepare("wikitext103", source, out=out)
        assert contents(out / "data-bin") == contents(data_bin)


def test_other_text_is_warned_of(prepare, tmp_path, warnings):
    log = prepare("wikitext103", write_folder(tmp_path / "texts", wikitext103()))
    messages = [line for line in warnings(log) if "the published WikiText-103 corpus has" in line]
    assert len(messages) == 3 and "1,801,350 lines and 101,425,671 words" in messages[0]


def test_missing_files_are_named(prepare, tmp_path):
    texts = write_folder(tmp_path / "texts", {"train.txt": b"a\n", "valid.txt": b"a\n"})
    message = "texts has no wiki.train.tokens, wiki.valid.tokens; pass a"
    prepare.refuses(message, "wikitext103", texts)
