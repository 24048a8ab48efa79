"""Multi30k, task 1 (Elliott et al., 2016): image captions in German and English.

The corpus has 29,000 training and 1,014 validation pairs; the test set is ``test_2016_flickr``.
"""

from pathlib import Path

from fairseq_odeformers.corpora import cli
from fairseq_odeformers.corpora.parallel_text import Files

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
LANGS = ("de", "en")
SPLITS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
NAMES = [f"{name}.{lang}" for name in SPLITS.values() for lang in LANGS]


def parallel_files(raw: Path, out: Path) -> Files:
    return {split: (raw / f"{name}.de", raw / f"{name}.en") for split, name in SPLITS.items()}


if __name__ == "__main__":
    downloads = {f"{URL}/{name}.gz": [name] for name in NAMES}
    corpus = cli.Corpus(LANGS, downloads, parallel_files)
    cli.main("multi30k", [corpus], bpe_operations=8000)
