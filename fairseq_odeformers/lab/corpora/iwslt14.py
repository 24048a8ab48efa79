"""IWSLT14 German-English (Cettolo et al., 2014): transcribed and translated TED talks.

Prepared as for published results: every 23rd cleaned training pair is for validation, and the five
development and test sets of 2010 to 2012 together are the test set.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from .parallel_text import Preparation
from .translation import Corpus, prepare_published, read_sentences

URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
TEST = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
DOCUMENTS = {
    "train": [("train.tags.de-en.de", "train.tags.de-en.en")],
    "test": [(f"IWSLT14.{name}.de-en.de.xml", f"IWSLT14.{name}.de-en.en.xml") for name in TEST],
}
NAMES = [name for pairs in DOCUMENTS.values() for pair in pairs for name in pair]

METADATA = re.compile("<(url|talkid|keywords)>")
TEXT_TAG = re.compile("</?(title|description)>")


def read_without_tags(path: Path) -> Iterator[str]:
    for line in read_sentences(path):
        if not METADATA.search(line):
            yield TEXT_TAG.sub("", line)


CORPUS = Corpus(
    Preparation(("de", "en"), bpe_operations=10_000, valid_interval=23),
    {URL: NAMES},
    DOCUMENTS,
    sentences=read_without_tags,
    counts={"train": 153_000, "valid": 7_000, "test": 7_000},  # Lu et al. 2019, appendix B.1
)


def main(arguments: Sequence[str]) -> None:
    prepare_published("iwslt14", [CORPUS], arguments)
