"""Multi30k, task 1 (Elliott et al., 2016): image captions in German and English.

The corpus has 29,000 training and 1,014 validation pairs; ``test`` is ``test_2016_flickr``, 1,000
pairs. Later test sets are prepared if the source has them.
"""

from collections.abc import Sequence

from .parallel_text import Preparation
from .translation import Corpus, prepare_published

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
LANGS = ("de", "en")
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LATER = {"test1": "test_2017_flickr", "test2": "test_2018_flickr", "test3": "test_2017_mscoco"}


def list_names(splits: dict[str, str]) -> list[str]:
    return [f"{name}.{lang}" for name in splits.values() for lang in LANGS]


CORPUS = Corpus(
    Preparation(LANGS, bpe_operations=8000),
    {f"{URL}/{name}.gz": [name] for name in list_names({**SPLITS, **LATER})},
    {split: [(f"{name}.de", f"{name}.en")] for split, name in {**SPLITS, **LATER}.items()},
    optional=list_names(LATER),
)


def main(arguments: Sequence[str]) -> None:
    prepare_published("multi30k", [CORPUS], arguments)
