"""Multi30k, task 1 (Elliott et al., 2016): image captions in German and English.

The corpus has 29,000 training and 1,014 validation pairs; ``test`` is ``test_2016_flickr``, 1,000
pairs. Later test sets are prepared if the source has them.
"""

from collections.abc import Sequence

from .common.corpus import Corpus
from .common.pairs import Documents, Pairs, prepare_pairs
from .common.source import Download, Source

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LATER = {"test1": "test_2017_flickr", "test2": "test_2018_flickr", "test3": "test_2017_mscoco"}
DOCUMENTS = Documents(
    {split: [(f"{name}.de", f"{name}.en")] for split, name in {**SPLITS, **LATER}.items()}
)
CORPUS = Corpus(
    Source(
        [Download(f"{URL}/{name}.gz", [name]) for name in DOCUMENTS.names],
        optional=[f"{name}.{lang}" for name in LATER.values() for lang in ("de", "en")],
    ),
    DOCUMENTS.read,
    Pairs(("de", "en"), bpe_operations=8000),
    extracted=True,
)


def main(arguments: Sequence[str]) -> None:
    prepare_pairs("multi30k", [CORPUS], arguments)
