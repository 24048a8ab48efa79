"""Flaws in data that make scores misleading; ``prepare`` and reports warn about them.

Pairs, labelled examples and lines are checked in the same way, in the form that ``fairseq-train``
reads.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.data.binarised import FEW_EXAMPLES
from fairseq_odeformers.errors import explain, naming_faults

logger = logging.getLogger(__name__)

MIN_LEAKED_SHARE = 0.01  # warn if at least this share of a split is also in the training set
UNKNOWN_SHARE = 0.1  # warn if at least this share of the tokens is unknown
EXCESS_UNKNOWN_SHARE = (
    0.01  # or at least this share, if it is at least twice the training text's share
)
MAX_LISTED = 5  # maximum number of lines, classes and the like that a message lists
UNK = Dictionary().unk()


class Column(NamedTuple):
    """One text per example of a split: a side of pairs, an input of a classifier, or lines."""

    name: str  # a language, or input0 or input1; empty for lines
    sizes: np.ndarray  # number of tokens per text, including its end
    tokens: np.ndarray  # all texts, concatenated

    def texts(self) -> Iterator[bytes]:
        ends = np.cumsum(self.sizes, dtype=np.int64)
        for start, end in zip((ends - self.sizes).tolist(), ends.tolist()):
            yield self.tokens[start:end].tobytes()

    def unknown(self) -> float:
        """Return the share of ``<unk>`` among the tokens, not counting the ends of texts."""
        return np.count_nonzero(self.tokens == UNK) / max(1, len(self.tokens) - len(self.sizes))


def check_data(data_bin: Path, positions: int | None = None) -> None:
    """Warn about flaws of the data that make scores misleading, each in one line.

    Args:
        positions: maximum number of tokens per text in models by default, or None.
    """
    logger.info("checking the data ...")
    splits = read_splits(data_bin)
    train = splits.get("train", [])
    trained = hash_texts(train)
    long = []
    for split, columns in splits.items():
        if split != "train":
            warn_of_training_texts(split, trained, columns)
            for column, of_train in zip(columns, train):
                where = f"{split}, {column.name}" if len(columns) > 1 else split
                warn_of_column(where, column, of_train)
        sizes = [column.sizes for column in columns]
        lengths = np.sum(sizes, axis=0) if is_classified(columns) else np.max(sizes, axis=0)
        if positions and (lengths > positions).any():
            long.append(f"{(lengths > positions).sum():,} of {len(lengths):,} in {split}")
        if split.startswith("test") and len(lengths) < FEW_EXAMPLES:
            option = "--test-fraction" if is_classified(columns) else "--test"
            drawn = f"; {option} draws more from one file" if len(columns[0].name) else ""
            logger.warning(
                f"{split} has {len(lengths)} examples, too few to tell models apart; use "
                f"{FEW_EXAMPLES} or more{drawn}"
            )
    if long:
        logger.warning(
            f"more than {positions:,} tokens, the default limit of models: {', '.join(long)}; "
            "longer texts are truncated or rejected"
        )


def find_longest(data_bin: Path) -> int:
    """Return the number of tokens of the longest text in validation and test sets, or 0."""
    splits = read_splits(data_bin)
    held_out = (column for name, each in splits.items() if name != "train" for column in each)
    return max((int(column.sizes.max(initial=0)) for column in held_out), default=0)


def find_flaws(
    data_bin: Path, pair: Collection[str], names: Collection[str]
) -> dict[str, dict[str, float]]:
    """Find large shares of unknown words and leaked texts, which make scores misleading.

    If the data are damaged or in a format other than fairseq's default, a warning says so, and the
    result is empty.

    Args:
        pair: languages of a translator.
        names: names of the splits.
    """
    flaws = {}
    try:
        with naming_faults(data_bin):
            splits = read_splits(data_bin, pair)
            trained = hash_texts(splits.get("train", []))
            for split in splits.keys() & names if trained else ():
                seen, total = count_training_texts(trained, splits[split])
                unknown = max(column.unknown() for column in splits[split])
                flaws[split] = {"unknown": unknown, "leaked": seen / max(1, total)}
    except (OSError, ValueError) as error:
        logger.warning(f"unknown words and leaked texts are not checked: {explain(error)}")
    return flaws


def read_splits(data_bin: Path, pair: Collection[str] = ()) -> dict[str, list[Column]]:
    """Read the texts of each split of binarised data.

    Args:
        pair: languages of the pairs to read, if a folder contains several (default: the languages
            of all dictionaries).
    """
    langs = pair or [p.name[len("dict.") : -len(".txt")] for p in data_bin.glob("dict.*.txt")]
    sides = {f".{a}-{b}.{side}": side for a, b in permutations(langs, 2) for side in langs}
    splits = defaultdict(list)
    for index in sorted([*data_bin.glob("*.idx"), *data_bin.glob("input*/*.idx")]):
        ending = next((ending for ending in sides if index.stem.endswith(ending)), "")
        if pair and not ending:
            continue
        name = sides.get(ending, index.parent.name if index.parent != data_bin else "")
        header, data = MMapIndexedDataset.Index(str(index)), index.with_suffix(".bin")
        tokens = np.memmap(data, header.dtype, "r") if data.stat().st_size else np.empty(0, "u2")
        column = Column(name, np.array(header.sizes, np.int64), tokens)
        splits[index.stem.removesuffix(ending)].append(column)
    return splits


def is_classified(columns: Sequence[Column]) -> bool:
    """Return whether the texts of an example are inputs of a classifier and so form one text."""
    return any(column.name.startswith("input") for column in columns)


def hash_texts(columns: Sequence[Column]) -> list[np.ndarray]:
    """Return a hash for each text (N), with few collisions; for pairs, one array per side."""
    texts = [column.texts() for column in columns]
    parts = [zip(*texts)] if is_classified(columns) else texts
    return [np.fromiter(map(hash, part), np.int64) for part in parts]


def count_training_texts(
    trained: Sequence[np.ndarray], columns: Sequence[Column]
) -> tuple[int, int]:
    """Count the texts of a split that are also in the training set, and all texts of the split.

    Empty texts are ignored. For sentence pairs, one common side is enough.

    Args:
        trained: result of :func:`hash_texts` for the training set.
    """
    filled = np.any([column.sizes > 1 for column in columns], axis=0)
    seen = [np.isin(*hashes) for hashes in zip(hash_texts(columns), trained)]
    return int((filled & np.any(seen, axis=0)).sum()), int(filled.sum())


def warn_of_training_texts(
    split: str, trained: Sequence[np.ndarray], columns: Sequence[Column]
) -> None:
    """Warn about texts of a split that are also in the training set, and print their share."""
    count, total = count_training_texts(trained, columns)
    if count:
        what = "pairs" if len(columns) > 1 else "texts"
        shared = "share a side with" if len(trained) > 1 else "are also in"
        logger.log(
            logging.WARNING if count >= MIN_LEAKED_SHARE * total else logging.INFO,
            f"{split}: {count / total:.1%} of the {what} ({count:,} of {total:,}) {shared} the "
            "training set; this inflates the scores",
        )


def warn_of_column(where: str, column: Column, train: Column) -> None:
    """Warn about a large share of ``<unk>``, which is easy to predict, and about empty texts.

    Blank lines in running text are not a flaw.
    """
    share = column.unknown()
    if share >= UNKNOWN_SHARE or share >= EXCESS_UNKNOWN_SHARE and share >= 2 * train.unknown():
        logger.warning(
            f"{where}: {share:.1%} of the tokens are unknown (<unk>); a score that counts them is "
            "not comparable with one on different text"
        )
    empty, total = np.flatnonzero(column.sizes <= 1), len(column.sizes)
    if column.name and len(empty):
        lines = name_lines((empty + 1).tolist())
        logger.warning(
            f"{where}: {len(empty) / total:.1%} of the texts are empty ({len(empty):,} of "
            f"{total:,}: {lines}); fill them, or leave these examples out"
        )


def fold(text: str) -> str:
    """Normalise a text, so that texts that only differ in case and spaces become equal."""
    return " ".join(text.casefold().split())


def name_lines(numbers: Sequence[int]) -> str:
    """Name lines by their numbers, such as ``lines 3, 4, 8, 9, 12 and 2 more``."""
    unit = "line" if len(numbers) == 1 else "lines"
    more = f" and {len(numbers) - MAX_LISTED:,} more" if len(numbers) > MAX_LISTED else ""
    return f"{unit} {', '.join(map(str, numbers[:MAX_LISTED]))}{more}"


def list_few(things: Sequence) -> str:
    """List the first few things, with dots if there are more."""
    more = ["..."] if len(things) > MAX_LISTED else []
    return ", ".join([*map(str, things[:MAX_LISTED]), *more])
