"""WMT14 English-German (4.5M pairs) and English-French (36M): parliament, news and web text.

English-German follows the preparation for Macaron Net's published results: newstest2013 for
validation, newstest2014 for testing, normalised punctuation except in the test set, words split at
hyphens, case kept, training pairs with up to 80 tokens and a length ratio of up to 9, and 32,764
joint merges. English-French consists of different corpora, with training pairs of up to 250 tokens
and a ratio of up to 1.5, as in fairseq's script for this pair; that script learns 40,000 merges.
"""

from collections.abc import Sequence
from functools import partial

from .common.corpus import Corpus, Download
from .common.pairs import Pairs, prepare_pairs, read_documents

EUROPARL = "http://statmt.org/wmt13/training-parallel-europarl-v7.tgz"
COMMON_CRAWL = "http://statmt.org/wmt13/training-parallel-commoncrawl.tgz"
TRAIN = {
    "de": {
        EUROPARL: "europarl-v7.de-en.{}",
        COMMON_CRAWL: "commoncrawl.de-en.{}",
        "http://data.statmt.org/wmt17/translation-task/training-parallel-nc-v12.tgz": (
            "news-commentary-v12.de-en.{}"
        ),
    },
    "fr": {
        EUROPARL: "europarl-v7.fr-en.{}",
        COMMON_CRAWL: "commoncrawl.fr-en.{}",
        "http://statmt.org/wmt13/training-parallel-un.tgz": "undoc.2000.fr-en.{}",
        "http://statmt.org/wmt14/training-parallel-nc-v9.tgz": "news-commentary-v9.fr-en.{}",
        "http://statmt.org/wmt10/training-giga-fren.tar": "giga-fren.release2.fixed.{}",
    },
}
DEV = "http://data.statmt.org/wmt17/translation-task/dev.tgz"
TEST = "http://statmt.org/wmt14/test-full.tgz"
CLEANING = {"de": (80, 9), "fr": (250, 1.5)}  # maximum length, and maximum ratio of lengths


def reference_name(lang: str) -> str:
    """Return the file name of the test set's published reference translation into *lang*."""
    return f"newstest2014-{lang}en-ref.{lang}.sgm"


def make_corpus(lang: str) -> Corpus[Pairs]:
    downloads = [Download(url, (n.format("en"), n.format(lang))) for url, n in TRAIN[lang].items()]
    downloads.append(Download(DEV, ("newstest2013.en", f"newstest2013.{lang}")))
    test = f"newstest2014-{lang}en-src.en.sgm", reference_name(lang)
    downloads.append(Download(TEST, test))
    *train, valid, test = [files for _, files, _ in downloads]
    max_tokens, max_ratio = CLEANING[lang]
    writer = Pairs(
        ("en", lang),
        bpe_operations=32_764,
        lowercase=False,
        normalized_splits=("train", "valid"),
        aggressive_hyphens=True,
        max_tokens=max_tokens,
        max_ratio=max_ratio,
    )
    documents = {"train": train, "valid": [valid], "test": [test]}
    return Corpus(downloads, partial(read_documents, documents), writer)


def main(arguments: Sequence[str]) -> None:
    prepare_pairs("wmt14", [make_corpus("de"), make_corpus("fr")], arguments)
