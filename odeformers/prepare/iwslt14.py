"""IWSLT14 German-English (Cettolo et al., 2014): transcribed and translated TED talks.

The preparation follows published results: every 23rd cleaned training pair is used for validation,
and the five development and test sets from 2010 to 2012 together form the test set.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

from .common.corpus import Corpus, Download
from .common.pairs import Pairs, prepare_pairs, read_documents, read_sentences

URL = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
TEST = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
PAIRS = 153_000  # number of training pairs; Lu et al. 2019, appendix B.1

METADATA = re.compile("<(url|talkid|keywords)>")
TEXT_TAG = re.compile("</?(title|description)>")


def read_without_tags(path: Path) -> Iterator[str]:
    for line in read_sentences(path):
        if not METADATA.search(line):
            yield TEXT_TAG.sub("", line)


TRAIN = ("train.tags.de-en.de", "train.tags.de-en.en")
DOCUMENTS = {
    "train": [TRAIN],
    "test": [(f"IWSLT14.{name}.de-en.de.xml", f"IWSLT14.{name}.de-en.en.xml") for name in TEST],
}
CORPUS = Corpus(
    [Download(URL, [*TRAIN, *chain(*DOCUMENTS["test"])])],
    partial(read_documents, DOCUMENTS, sentences=read_without_tags),
    Pairs(("de", "en"), bpe_operations=10_000, valid_interval=23),
)


def main(arguments: Sequence[str]) -> None:
    prepare_pairs("iwslt14", [CORPUS], arguments, PAIRS)
