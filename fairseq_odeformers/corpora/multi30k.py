"""Multi30k, task 1 (Elliott et al., 2016): image captions in German and English.

The corpus has 29,000 training and 1,014 validation pairs; ``test`` is ``test_2016_flickr``, 1,000
pairs. Later test sets are prepared if the data that are given have them.
"""

from pathlib import Path

from fairseq_odeformers.corpora import cli
from fairseq_odeformers.corpora.parallel_text import Files

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
LANGS = ("de", "en")
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LATER = {"test1": "test_2017_flickr", "test2": "test_2018_flickr", "test3": "test_2017_mscoco"}


def parallel_files(raw: Path, out: Path) -> Files:
    """Source and target file of each split; of a later test set, if both are there."""
    files = {
        split: (raw / f"{name}.de", raw / f"{name}.en")
        for split, name in {**SPLITS, **LATER}.items()
    }
    return {
        split: pair
        for split, pair in files.items()
        if split in SPLITS or all(path.exists() for path in pair)
    }


def downloads(splits: dict[str, str]) -> dict[str, list[str]]:
    names = [f"{name}.{lang}" for name in splits.values() for lang in LANGS]
    return {f"{URL}/{name}.gz": [name] for name in names}


if __name__ == "__main__":
    corpus = cli.Corpus(LANGS, downloads(SPLITS), parallel_files, optional=downloads(LATER))
    cli.main("multi30k", [corpus], bpe_operations=8000)
