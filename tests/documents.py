"""Small corpora of documents that blank lines separate, as made by fairseq-preprocess."""

import numpy as np
from helpers import EOS
from make_checkpoints import make_dictionary, write_rows

SYMBOLS = 4  # fairseq's symbols precede the words


def draw_documents(count, lines=8, words=5, seed=0):
    """Documents with disjoint words: their lines, as lists of the numbers of words."""
    draw = np.random.RandomState(seed)
    return [
        [
            (SYMBOLS + number * words + draw.randint(words, size=draw.randint(3, 7))).tolist()
            for _ in range(lines)
        ]
        for number in range(count)
    ]


def write_documents(folder, blank=True, words=5, **splits):
    """Binarised splits, which are lists of documents, and their dictionary.

    Args:
        blank: whether a blank line follows each document.
    """
    folder.mkdir(parents=True, exist_ok=True)
    make_dictionary(words * max(map(len, splits.values()))).save(str(folder / "dict.txt"))
    for split, documents in splits.items():
        rows = [
            [*line, EOS] for document in documents for line in [*document, *([[]] if blank else [])]
        ]
        write_rows(folder / split, rows)
    return folder
