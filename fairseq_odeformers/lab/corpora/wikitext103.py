"""WikiText-103 (Merity et al. 2017), for fairseq's ``language_modeling``.

Articles of Wikipedia, one paragraph or heading per line and blank lines between them, tokenised,
with ``<unk>`` for words that occur less than three times. The dictionary is made as in :mod:`.lm`.

Papers and fairseq count the ends of lines as words: the perplexity per word of the test
set is one over 245,569 tokens, 241,211 words and 4,358 ends.
"""

from collections.abc import Sequence
from pathlib import Path

from . import lm
from .archives import fetch

URL = "https://wikitext.smerity.com/wikitext-103-v1.zip"

# Lines and words of each published text.
PUBLISHED = {"train": (1_801_350, 101_425_671), "valid": (3_760, 213_886), "test": (4_358, 241_211)}
FILES = {split: f"wiki.{split}.tokens" for split in PUBLISHED}


def prepare(source: Path | None, out: Path, workers: int) -> Path:
    """Binarise the splits of *source*, as :func:`.lm.prepare` does; None to download them."""
    source = source or fetch([URL], out)
    corpus = lm.Published("WikiText-103", Path(URL).name, PUBLISHED)
    return lm.prepare(source, out, workers, FILES, corpus)


def main(arguments: Sequence[str]) -> None:
    source = (
        "folder or archive (zip, tar) with wiki.train.tokens, wiki.valid.tokens and "
        "wiki.test.tokens, such as wikitext-103-v1.zip, or folder with that archive "
        "(default: download it)"
    )
    lm.run("wikitext103", "WikiText-103", source, prepare, arguments)
