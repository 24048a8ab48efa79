"""IWSLT14 German-English (Cettolo et al., 2014): transcribed and translated TED talks.

The recipe is the one that published results share: every 23rd cleaned training pair is for
validation, and the five development and test sets of 2010 to 2012 together are the test set.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fairseq_odeformers.data import cli
from fairseq_odeformers.data.archives import download
from fairseq_odeformers.data.parallel_text import Files, read_lines
from fairseq_odeformers.data.steps import build, fingerprints

URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
LANGS = ("de", "en")
TRAIN = "train.tags.de-en.{}"
TEST = [
    f"IWSLT14.{name}.de-en.{{}}.xml"
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
]
NAMES = [document.format(lang) for document in (TRAIN, *TEST) for lang in LANGS]

METADATA = re.compile("<(url|talkid|keywords)>")
TEXT_TAG = re.compile("</?(title|description)>")
SEGMENT_TAG = re.compile(r'<seg id="[0-9]+">\s*|\s*</seg>\s*')


def fetch(folder: Path) -> Path:
    archive = folder / "de-en.tgz"
    download(URL, archive)
    return archive


def parallel_files(raw: Path, out: Path) -> Files:
    plain = out / "plain"
    recipe = {"raw": fingerprints(raw / name for name in NAMES)}
    build(plain, recipe, lambda folder: strip_markup(raw, folder))
    return {split: (plain / f"{split}.de", plain / f"{split}.en") for split in ("train", "test")}


def strip_markup(raw: Path, folder: Path) -> None:
    """Write the text of the corpus' files to ``{train,test}.{de,en}`` in *folder*.

    Raises:
        ValueError: a file has not as many sentences as its translation.
    """
    for split, documents, sentences in (
        ("train", [TRAIN], training_sentences),
        ("test", TEST, test_sentences),
    ):
        for document in documents:
            paths = [raw / document.format(lang) for lang in LANGS]
            texts = [list(sentences(path)) for path in paths]
            if len(texts[0]) != len(texts[1]):
                counts = (f"{path} has {len(text):,}" for path, text in zip(paths, texts))
                raise ValueError(f"sentences do not pair up: {', '.join(counts)}")
            for lang, text in zip(LANGS, texts):
                with open(folder / f"{split}.{lang}", "a", encoding="utf-8") as file:
                    file.writelines(sentence + "\n" for sentence in text)


def training_sentences(path: Path) -> Iterator[str]:
    for line in read_lines(path):
        if not METADATA.search(line):
            yield TEXT_TAG.sub("", line)


def test_sentences(path: Path) -> Iterator[str]:
    for line in read_lines(path):
        if "<seg id" in line:
            yield SEGMENT_TAG.sub("", line).replace("’", "'")


if __name__ == "__main__":
    cli.main(
        "iwslt14", LANGS, NAMES, fetch, parallel_files, bpe_operations=10000, valid_interval=23
    )
