"""``scripts/prepare-wmt14.sh`` on small archives that have the layout of the published ones."""

import gzip
import io
import tarfile

import pytest
from script_helpers import assert_survives_kills, binarized_lines, lines, run, times

SCRIPT = "prepare-wmt14.sh"

ARCHIVES = {  # of both language pairs, with a file of each folder that is not needed
    "training-parallel-europarl-v7.tgz": [
        "training/europarl-v7.cs-en.en",
        *(
            f"training/europarl-v7.{pair}"
            for pair in ("de-en.de", "de-en.en", "fr-en.en", "fr-en.fr")
        ),
    ],
    "training-parallel-commoncrawl.tgz": [
        "commoncrawl.de-en.annotation",
        *(f"commoncrawl.{pair}" for pair in ("de-en.de", "de-en.en", "fr-en.en", "fr-en.fr")),
    ],
    "training-parallel-nc-v12.tgz": [
        f"training/news-commentary-v12.de-en.{lang}" for lang in ("de", "en")
    ],
    "training-parallel-un.tgz": [f"un/undoc.2000.fr-en.{lang}" for lang in ("en", "fr")],
    "training-parallel-nc-v9.tgz": [
        f"training/news-commentary-v9.fr-en.{lang}" for lang in ("en", "fr")
    ],
    "training-giga-fren.tar": [f"giga-fren.release2.fixed.{lang}.gz" for lang in ("en", "fr")],
    "dev.tgz": [f"dev/newstest2013.{lang}" for lang in ("de", "en", "fr")],
    "test-full.tgz": [
        f"test-full/newstest2014-{pair}.{lang}.sgm"
        for pair, lang in (
            *(("deen-src", "en"), ("deen-ref", "de"), ("deen-src", "de"), ("deen-ref", "en")),
            *(("fren-src", "en"), ("fren-ref", "fr")),
        )
    ],
}
SENTENCES = {
    "en": "It’s “well-known” no. {} in {}.",
    "de": "Das „wohl-bekannte“ Nr. {} in {}.",
    "fr": "C’est le « bien-connu » n° {} dans {}.",
}
TOKENIZED = {
    "en": "It &apos;s &quot; well @-@ known &quot; no . {} in {} .",
    "de": "Das &quot; wohl @-@ bekannte &quot; Nr. {} in {} .",
    "fr": "C&apos; est le &quot; bien @-@ connu &quot; n ° {} dans {} .",
}


def long_pairs(lang):
    """A sentence of 81 tokens, one of 251, and the sides of a ratio of 2 and of 9.5."""
    return [" ".join(["word"] * n) for n in ((81, 251, 4, 2) if lang == "en" else (80, 250, 8, 19))]


def text(name):
    """The text of a file of the corpus; europarl has pairs that the cleaning drops."""
    stem, lang = name.removesuffix(".gz").removesuffix(".sgm").rsplit(".", 1)
    if lang not in SENTENCES:
        return "other\n"
    corpus = stem.rsplit("/", 1)[-1].split(".")[0].split("-")[0]
    lines = [SENTENCES[lang].format(number, corpus) for number in range(30)]
    if corpus == "europarl":
        lines += ["", *long_pairs(lang)]
    if name.endswith(".sgm"):
        segments = (f'<seg id="{n}">{line}</seg>' for n, line in enumerate(lines[:4], start=1))
        lines = [
            "<refset setid='newstest2014'>",
            '<doc docid="1">',
            *segments,
            "</doc>",
            "</refset>",
        ]
    return "".join(line + "\n" for line in lines)


def write_archives(folder):
    folder.mkdir()
    for archive, names in ARCHIVES.items():
        with tarfile.open(folder / archive, "w:gz" if archive.endswith(".tgz") else "w") as tar:
            for name in names:
                content = text(name).encode("utf-8")
                content = gzip.compress(content) if name.endswith(".gz") else content
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return folder


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with ``archives`` and what the script made of them in ``data/wmt14-en-{de,fr}``."""
    folder = tmp_path_factory.mktemp("wmt14")
    write_archives(folder / "archives")
    for pair in ("en-de", "en-fr"):
        options = ["--from", "archives", "--bpe-operations", 60, "--workers", 2]
        result = run(SCRIPT, pair, *options, cwd=folder)
        assert result.returncode == 0, result.stderr
    return folder


CORPORA = {
    "de": ["europarl", "commoncrawl", "news"],
    "fr": ["europarl", "commoncrawl", "undoc", "news", "giga"],
}


@pytest.mark.parametrize("lang", CORPORA)
def test_text_of_each_split(prepared, lang):
    """Corpora follow one another, cleaned; punctuation is normalised except in the test set."""
    tokenized = prepared / "data" / f"wmt14-en-{lang}" / "tokenized"
    kept = {"de": [2], "fr": [0]}[lang]
    for side in ("en", lang):
        train = [TOKENIZED[side].format(n, corpus) for corpus in CORPORA[lang] for n in range(30)]
        train[30:30] = [long_pairs(side)[index] for index in kept]
        assert lines(tokenized / f"train.{side}") == train
        valid = [TOKENIZED[side].format(n, "newstest2013") for n in range(30)]
        assert lines(tokenized / f"valid.{side}") == valid
    assert lines(tokenized / "test.en") == [
        f"It &apos;s “ well @-@ known ” no . {n} in newstest2014 ." for n in range(4)
    ]
    assert len(lines(tokenized / f"test.{lang}")) == 4


@pytest.mark.parametrize("lang", CORPORA)
def test_the_result_is_ready_for_fairseq(prepared, lang):
    data_bin = prepared / "data" / f"wmt14-en-{lang}" / "data-bin"
    assert lines(data_bin / "dict.en.txt") == lines(data_bin / f"dict.{lang}.txt")
    assert len(lines(data_bin / "code")) == 61
    for split in ("train", "valid", "test"):
        for side in ("en", lang):
            binarized = binarized_lines(data_bin, split, f"en-{lang}", side)
            expected = lines(data_bin.parent / "tokenized" / f"{split}.{side}")
            assert len(binarized) == len(expected)
            if split == "train":
                assert binarized == expected


@pytest.mark.slow
def test_killed_at_each_step_it_leaves_the_same(prepared, monkeypatch):
    options = ["en-fr", "--from", "archives", "--bpe-operations", 60, "--workers", 1]
    assert_survives_kills(monkeypatch, SCRIPT, *options, cwd=prepared)


def test_unpacked_files_give_the_same(prepared, tmp_path):
    """What was made of the archives is up to date for the same files, some of them unpacked."""
    source = write_archives(tmp_path / "mixed")
    for archive in ("training-parallel-europarl-v7.tgz", "dev.tgz", "test-full.tgz"):
        with tarfile.open(source / archive) as tar:
            for info in tar:
                path = source / info.name
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(tar.extractfile(info).read())
        (source / archive).unlink()
    out = prepared / "data" / "wmt14-en-fr"
    steps = ("plain", "tokenized", "bpe", "data-bin")
    before = [times(out / step) for step in steps]
    options = ["--from", source, "--out", out, "--bpe-operations", 60, "--workers", 1]
    result = run(SCRIPT, "en-fr", *options, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert [times(out / step) for step in steps] == before
    assert result.stdout.count("is up to date") == len(steps)
