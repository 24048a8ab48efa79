"""WikiText-103 (Merity et al., 2017), for language models.

The text consists of Wikipedia articles, tokenised, with one paragraph or heading per line, blank
lines between them, and ``<unk>`` for words that occur fewer than three times. For the dictionary,
see :mod:`.common.lines`.

Papers and fairseq count the ends of lines as words: the perplexity per word on the test set is an
average over 245,569 tokens, 241,211 words and 4,358 ends.
"""

from collections.abc import Sequence

from .common.corpus import Download
from .common.lines import Lines, prepare_lines, text_corpus

URL = "https://wikitext.smerity.com/wikitext-103-v1.zip"
SHA256 = "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590"
SIZES = {"train": (1_801_350, 101_425_671), "valid": (3_760, 213_886), "test": (4_358, 241_211)}
SOURCE = (
    "folder or archive (zip, tar) with wiki.train.tokens, wiki.valid.tokens and wiki.test.tokens, "
    "such as wikitext-103-v1.zip, or folder with that archive (default: download it)"
)

FILES = [f"wiki.{split}.tokens" for split in SIZES]
CORPUS = text_corpus(Lines("WikiText-103 corpus", SIZES), [Download(URL, FILES, SHA256)])


def main(arguments: Sequence[str]) -> None:
    prepare_lines("wikitext103", SOURCE, CORPUS, arguments)
