"""Labelled examples, for fairseq's ``sentence_prediction`` and ``long_range_arena``."""

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import category, normalize

import numpy as np
from fairseq.data import Dictionary
from tqdm import tqdm

from fairseq_odeformers.data.classification import make_dictionary, write_dictionaries, write_split
from fairseq_odeformers.parser import did_you_mean

logger = logging.getLogger(__name__)

RARE = 0.2  # of the mean number of texts per class; a class with fewer may be misspelt
FEWEST = 2  # training texts of a class: a warning up to here
SHOWN = 5  # classes that a warning names

Encoded = tuple[Sequence[Any], str | None]  # indices of each input's symbols, and the class


@dataclass(frozen=True)
class Labels:
    """Writes labelled examples.

    Attributes:
        classes: in the order of their numbers; none if the labels are scores, written otherwise.
        inputs: 1, or 2 if the examples are pairs.
        symbols: of the inputs, if their examples are numbers of symbols.
        eos: whether such inputs end with ``</s>``.
    """

    classes: Sequence[str]
    inputs: int = 1
    symbols: Sequence[str] = ()
    eos: bool = True

    def write_numbers(self, splits: Mapping[str, Iterable], folder: Path) -> None:
        """Write examples: the numbers (T) of each input's symbols, and the class."""
        dictionary = make_dictionary(self.symbols)
        end = [dictionary.eos()] if self.eos else []

        def encode(examples: Iterable) -> Iterator[Encoded]:
            for parts, label in examples:
                ids = (np.asarray(part).astype(int) + dictionary.nspecial for part in parts)
                yield [np.append(row, end).astype(int) for row in ids], label

        encoded = {split: encode(examples) for split, examples in splits.items()}
        self.write(encoded, dictionary, folder)

    def write(
        self,
        splits: Mapping[str, Iterable[Encoded]],
        dictionary: Dictionary,
        folder: Path,
        places: Mapping[str, str] | None = None,
    ) -> None:
        """Write the dictionaries and the splits of a data set.

        Args:
            splits: the examples of each; a split whose first example has no class has none at all.
            dictionary: of the inputs.
            places: where a class is first used, for messages; such as ``train.tsv, line 3``.

        Raises:
            ValueError: a split has no examples, or the training set a single class.
        """
        write_dictionaries(folder, self.inputs, dictionary, self.classes)
        counts: dict[str, Counter] = {}
        for split, examples in splits.items():
            examples = iter(tqdm(examples, split, unit=" texts", mininterval=1, disable=None))
            if (first := next(examples, None)) is None:
                raise ValueError(f"there are no examples for {split}")
            counts[split] = Counter()
            counted = count_classes(chain([first], examples), counts[split])
            write_split(folder, split, counted, first[1] is not None)
            logger.info(f"{split}: {describe(counts[split], self.classes)}")
            if split == "train" and self.classes:
                check_number(counts[split], "the training set")
        labelled = {split: count for split, count in counts.items() if None not in count}
        if self.classes:
            warn_of_classes(self.classes, labelled, places or {})


def count_classes(examples: Iterable[Encoded], counts: Counter) -> Iterator[Encoded]:
    for example in examples:
        counts[example[1]] += 1
        yield example


def describe(counts: Counter, classes: Sequence[str]) -> str:
    each = ", ".join(f"{counts[name]:,} {name}" for name in classes if counts[name])
    return f"{sum(counts.values()):,} examples ({each or 'without classes'})"


def check_number(classes: Iterable[str], where: object) -> None:
    """Check that there is something to tell apart.

    Raises:
        ValueError: there is one class, or none.
    """
    if len(names := list(classes)) < 2:
        found = f"one class, {names[0]}" if names else "no class"
        raise ValueError(f"{where} has {found}; give examples of two classes or more")


def warn_of_classes(
    classes: Sequence[str], counts: Mapping[str, Counter], places: Mapping[str, str]
) -> None:
    """Warn of classes that are hardly learned or tested, or misspelt; each in one line.

    These are classes with one or two training texts, or without a text in another split; rare ones
    whose name is like another's; and classes that look alike: their names differ in spaces,
    invisible characters, or the case of letters.

    Args:
        counts: of the classes of each split with labels.
        places: where each is first used, for the message.
    """
    trained = counts["train"]
    mean = sum(trained.values()) / len(classes)
    looks, warned = defaultdict(list), {}
    for name in classes:
        count = trained[name]
        absent = [split for split, others in counts.items() if not others[name]]
        rare = count <= RARE * mean
        meant = did_you_mean(name, {*classes} - {name}) if rare or count <= FEWEST else ""
        if count <= FEWEST or absent or meant:
            number = f"{count:,} text{'s' * (count != 1)} in train"
            missing = f" and none in {', '.join(absent)}" if absent and count else ""
            warned[name] = f"class {name} has {number}{missing}" + (f"; {meant}" if meant else "")
    for name in classes:
        seen = "".join(char for char in normalize("NFKC", name) if category(char) != "Cf")
        looks[" ".join(seen.split()).casefold()].append(name)
    alike = [names for names in looks.values() if len(names) > 1]
    for names in alike:
        rarest = min(names, key=lambda name: trained[name])
        place = f"{places[rarest]}: " if rarest in places else ""
        logger.warning(f"{place}classes that look alike: {', '.join(map(ascii, names))}")
    others = {name: said for name, said in warned.items() if not any(name in a for a in alike)}
    for name, said in list(others.items())[:SHOWN]:
        logger.warning(f"{places[name]}: {said}" if name in places else said)
    if len(others) > SHOWN:
        logger.warning(f"{len(others) - SHOWN:,} more classes have as few texts")
