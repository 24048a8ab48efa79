"""WMT14's published files become the parallel text of each split."""

import pytest

from fairseq_odeformers.corpora import wmt14

SEGMENTS = (
    '<doc docid="1">\n<seg id="1">{0} – l’une &amp; l\'autre</seg>\n<seg id="2"> {0}. </seg>\n'
)


def write_raw(folder, lang):
    """The files of the corpus, without markup or with two segments, in folder."""
    for names in wmt14.archives(lang).values():
        for name in names:
            text = SEGMENTS.format(name) if name.endswith(".sgm") else f"{name} ’1\n{name} 2\n"
            (folder / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("lang, corpora", [("de", 3), ("fr", 5)])
def test_each_split_has_its_documents_in_order(lang, corpora, tmp_path):
    write_raw(tmp_path, lang)
    files = wmt14.corpus(lang).write_text(tmp_path, tmp_path / "plain")
    documents = list(wmt14.archives(lang).values())
    text = {
        split: [path.read_text(encoding="utf-8").splitlines() for path in paths]
        for split, paths in files.items()
    }
    for side in (0, 1):
        names = [document[side] for document in documents]
        assert text["train"][side] == [f"{n} {i}" for n in names[:corpora] for i in ("’1", "2")]
        assert text["valid"][side] == [f"{names[corpora]} {i}" for i in ("’1", "2")]
        test = names[corpora + 1]
        assert text["test"][side] == [f"{test} – l'une &amp; l'autre", f"{test}."]


@pytest.mark.parametrize("name", ["commoncrawl.de-en.de", "newstest2013.de", wmt14.reference("de")])
def test_a_document_that_does_not_pair_up_is_named(name, tmp_path):
    write_raw(tmp_path, "de")
    with open(tmp_path / name, "a") as file:
        file.write('<seg id="3">more</seg>\n')
    with pytest.raises(ValueError, match=f"do not pair up: .* has 2, .*{name} has 3"):
        wmt14.corpus("de").write_text(tmp_path, tmp_path / "plain")
    assert not (tmp_path / "plain").exists()


@pytest.mark.parametrize("lang, count", [("de", 5), ("fr", 7)])
def test_archives_have_different_names(lang, count):
    """They share a folder, and so do the files that are taken out of them."""
    archives = wmt14.archives(lang)
    assert len({url.rpartition("/")[2] for url in archives}) == len(archives) == count
    assert len({name for names in archives.values() for name in names}) == 2 * count
