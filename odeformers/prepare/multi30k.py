"""Multi30k, task 1 (Elliott et al., 2016): image captions in German and English.

The corpus has 29,000 training and 1,014 validation pairs; ``test`` is ``test_2016_flickr`` with
1,000 pairs. Later test sets are prepared if the source has them.
"""

from collections.abc import Sequence
from functools import partial

from .common.corpus import Corpus, Download
from .common.pairs import Pairs, prepare_pairs, read_documents

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LATER_TESTS = {
    "test1": "test_2017_flickr",
    "test2": "test_2018_flickr",
    "test3": "test_2017_mscoco",
}
FILES = {split: (f"{name}.de", f"{name}.en") for split, name in {**SPLITS, **LATER_TESTS}.items()}
CORPUS = Corpus(
    [Download(f"{URL}/{name}.gz", [name]) for names in FILES.values() for name in names],
    partial(read_documents, {split: [names] for split, names in FILES.items()}),
    Pairs(("de", "en"), bpe_operations=8000),
    optional=[name for split in LATER_TESTS for name in FILES[split]],
)


def main(arguments: Sequence[str]) -> None:
    prepare_pairs("multi30k", [CORPUS], arguments)
