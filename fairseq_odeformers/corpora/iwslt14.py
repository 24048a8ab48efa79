"""IWSLT14 German-English (Cettolo et al., 2014): transcribed and translated TED talks.

The recipe is the one that published results share: every 23rd cleaned training pair is for
validation, and the five development and test sets of 2010 to 2012 together are the test set.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from fairseq_odeformers.corpora import cli
from fairseq_odeformers.corpora.parallel_text import Files, concatenate, read_lines
from fairseq_odeformers.corpora.sgm import test_sentences
from fairseq_odeformers.files import build, fingerprints

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
    for split, names, sentences in (
        ("train", [TRAIN], training_sentences),
        ("test", TEST, test_sentences),
    ):
        documents = (tuple(raw / name.format(lang) for lang in LANGS) for name in names)
        concatenate(documents, sentences, tuple(folder / f"{split}.{lang}" for lang in LANGS))


def training_sentences(path: Path) -> Iterator[str]:
    for line in read_lines(path):
        if not METADATA.search(line):
            yield TEXT_TAG.sub("", line)


if __name__ == "__main__":
    corpus = cli.Corpus(LANGS, {URL: NAMES}, parallel_files, {"valid_interval": 23})
    cli.main("iwslt14", [corpus], bpe_operations=10000)
