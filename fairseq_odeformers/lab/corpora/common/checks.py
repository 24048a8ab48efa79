"""What finished data are warned of: what makes a score better, or worse, than the model is.

Pairs, labelled examples and lines are looked at in the same way, as ``fairseq-train`` reads them.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.data.binarised import FEW

logger = logging.getLogger(__name__)

LEAK = 0.01  # of a split's texts that the training set has, too: a warning from here on
MANY_UNKNOWN = 0.1  # of the tokens: a warning from here on
SOME_UNKNOWN = 0.01  # or from here on, if it is more than twice the training text's share
SHOWN = 5  # lines that a warning names
BLOCK = 1 << 22  # tokens that are looked at at a time
UNK = Dictionary().unk()


class Column(NamedTuple):
    """A text of each example of a split: one side of pairs, an input of a classifier, or lines."""

    name: str  # a language, or input0 or input1; empty for lines
    sizes: np.ndarray  # tokens of each text, its end included
    tokens: np.ndarray  # of all texts, one after the other

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The sizes and tokens of a part of the texts at a time."""
        ends = np.cumsum(self.sizes, dtype=np.int64)
        first = begin = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, begin + BLOCK, side="right")))
            yield self.sizes[first:last], np.asarray(self.tokens[begin : ends[last - 1]])
            first, begin = last, int(ends[last - 1])


def check_data(data_bin: Path, positions: int | None = None) -> None:
    """Warn of what one has to know of a score on the data, each in one line.

    Args:
        positions: how many tokens of a text its models take by default; None for any number.
    """
    splits = read_splits(data_bin)
    train = splits.get("train", [])
    trained = hash_texts(train)
    for split, columns in splits.items():
        if split != "train":
            warn_of_training_texts(split, trained, columns)
            warn_of_unknown_tokens(split, train, columns)
            warn_of_empty_texts(split, columns)
    if positions:
        warn_of_long_texts(splits, positions)
    sizes = [len(columns[0].sizes) for split, columns in splits.items() if split[:4] == "test"]
    if (size := min(sizes, default=FEW)) < FEW:
        logger.warning(
            f"{data_bin} has a test set of size {size}, too small to tell models apart; give {FEW} "
            "examples or more"
        )


def read_splits(data_bin: Path) -> dict[str, list[Column]]:
    """The texts of each split of binarised data."""
    langs = [path.name[len("dict.") : -len(".txt")] for path in data_bin.glob("dict.*.txt")]
    sides = {f".{a}-{b}.{side}": side for a, b in permutations(langs, 2) for side in langs}
    splits = defaultdict(list)
    for index in sorted(data_bin.glob("*.idx")):
        ending = next((ending for ending in sides if index.stem.endswith(ending)), "")
        splits[index.stem.removesuffix(ending)].append(read_column(sides.get(ending, ""), index))
    for index in sorted(data_bin.glob("input*/*.idx")):
        splits[index.stem].append(read_column(index.parent.name, index))
    return splits


def read_column(name: str, index: Path) -> Column:
    found = MMapIndexedDataset.Index(str(index))
    data = index.with_name(f"{index.stem}.bin")
    tokens = np.memmap(data, found.dtype, "r") if data.stat().st_size else np.empty(0, np.uint16)
    return Column(name, np.array(found.sizes, np.int64), tokens)


def warn_of_training_texts(
    split: str, trained: Sequence[np.ndarray], columns: Sequence[Column]
) -> None:
    """Warn of texts that the training set has, too, and of their share of a split.

    Empty texts are left out. One side of a sentence pair is enough.

    Args:
        trained: what :func:`hash_texts` makes of the training set.
    """
    filled = np.any([column.sizes > 1 for column in columns], axis=0)
    seen = [np.isin(*hashes) for hashes in zip(hash_texts(columns), trained)]
    count, total = (filled & np.any(seen, axis=0)).sum(), filled.sum()
    if count:
        what, shared = ("pairs", "share a side with") if len(seen) > 1 else ("texts", "are also in")
        logger.log(
            logging.WARNING if count >= LEAK * total else logging.INFO,
            f"{split}: {count / total:.1%} of the {what} ({count:,} of {total:,}) {shared} the "
            "training set; scores on them are too good",
        )


def hash_texts(columns: Sequence[Column]) -> list[np.ndarray]:
    """A number for each text (N), which hardly any other text has.

    The sides of sentence pairs are texts of their own; the inputs of a classifier make one text.
    """
    hashes = [hash_column(column) for column in columns]
    joined = any(column.name.startswith("input") for column in columns)
    return [np.sum(hashes, axis=0, dtype=np.uint64)] if joined else hashes


def hash_column(column: Column) -> np.ndarray:
    """The sum of its tokens (N), each times a random number of its place, modulo 2^64."""
    longest = int(column.sizes.max(initial=0))
    seed = sum(map(ord, column.name))  # the inputs of a classifier must not be interchangeable
    factors = 2 * np.random.default_rng(seed).integers(1 << 63, size=longest, dtype=np.uint64) + 1
    hashes = [np.empty(0, np.uint64)]
    for sizes, tokens in column.blocks():
        starts = np.cumsum(sizes) - sizes
        places = np.arange(len(tokens)) - np.repeat(starts, sizes)
        terms = (tokens.astype(np.uint64) + np.uint64(1)) * factors[places]
        sums = np.append(np.zeros(1, np.uint64), np.cumsum(terms))
        hashes.append(sums[starts + sizes] - sums[starts])
    return np.concatenate(hashes)


def warn_of_unknown_tokens(split: str, train: Sequence[Column], columns: Sequence[Column]) -> None:
    """Warn of a split with many tokens ``<unk>``, which a language model predicts with ease."""
    for column, trained in zip(columns, train):
        share = unknown_share(column)
        some = share >= SOME_UNKNOWN and share >= 2 * unknown_share(trained)
        if some or share >= MANY_UNKNOWN:
            logger.warning(
                f"{name(split, column, columns)}: {share:.1%} of the tokens are unknown (<unk>); a "
                "score that counts them is not comparable with one on other text"
            )


def unknown_share(column: Column) -> float:
    """The share of ``<unk>`` in the tokens but the ends of the texts."""
    unknown = sum(np.count_nonzero(tokens == UNK) for _, tokens in column.blocks())
    return unknown / max(1, len(column.tokens) - len(column.sizes))


def warn_of_empty_texts(split: str, columns: Sequence[Column]) -> None:
    """Warn of sentences and inputs without tokens; lines of running text may be blank."""
    for column in columns:
        empty, total = np.flatnonzero(column.sizes <= 1), len(column.sizes)
        if column.name and len(empty):
            lines = ", ".join(map(str, empty[:SHOWN] + 1)) + ", ..." * (len(empty) > SHOWN)
            logger.warning(
                f"{name(split, column, columns)}: {len(empty) / total:.1%} of the texts are empty "
                f"({len(empty):,} of {total:,}, line {lines}); fill them, or leave these examples "
                "out"
            )


def warn_of_long_texts(splits: Mapping[str, Sequence[Column]], positions: int) -> None:
    """Warn of examples with more tokens than models take, over all inputs of a classifier."""
    found = []
    for split, columns in splits.items():
        join = np.sum if columns[0].name.startswith("input") else np.max
        long = join([column.sizes for column in columns], axis=0) > positions
        if long.any():
            found.append(f"{long.sum():,} of {len(long):,} in {split}")
    if found:
        logger.warning(
            f"more than {positions:,} tokens, which models take by default: {', '.join(found)}; "
            "longer texts are truncated or refused"
        )


def name(split: str, column: Column, columns: Sequence[Column]) -> str:
    """Which texts are meant, for a message."""
    return f"{split}, {column.name}" if len(columns) > 1 else split
