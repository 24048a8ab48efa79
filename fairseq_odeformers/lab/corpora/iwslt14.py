"""IWSLT14 German-English (Cettolo et al., 2014): transcribed and translated TED talks.

Prepared as for published results: every 23rd cleaned training pair is for validation, and the five
development and test sets of 2010 to 2012 together are the test set.
"""

import re
from collections.abc import Iterator, Sequence

from .common.corpus import Corpus
from .common.pairs import Documents, Pairs, prepare_pairs, read_sentences
from .common.source import Download, File, Source

URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
TEST = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
COUNTS = {"train": 153_000, "valid": 7_000, "test": 7_000}  # Lu et al. 2019, appendix B.1

METADATA = re.compile("<(url|talkid|keywords)>")
TEXT_TAG = re.compile("</?(title|description)>")


def read_without_tags(file: File) -> Iterator[str]:
    for line in read_sentences(file):
        if not METADATA.search(line):
            yield TEXT_TAG.sub("", line)


DOCUMENTS = Documents(
    {
        "train": [("train.tags.de-en.de", "train.tags.de-en.en")],
        "test": [(f"IWSLT14.{name}.de-en.de.xml", f"IWSLT14.{name}.de-en.en.xml") for name in TEST],
    },
    read_without_tags,
)
CORPUS = Corpus(
    Source([Download(URL, DOCUMENTS.names)]),
    DOCUMENTS.read,
    Pairs(("de", "en"), bpe_operations=10_000, valid_interval=23),
    extracted=True,
)


def main(arguments: Sequence[str]) -> None:
    prepare_pairs("iwslt14", [CORPUS], arguments, **COUNTS)
