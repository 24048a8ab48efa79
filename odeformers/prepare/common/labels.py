"""Labelled examples for the tasks ``sentence_prediction`` and ``long_range_arena``."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from fairseq.data import Dictionary

from fairseq_odeformers.data.classification import make_dictionary, write_dictionaries, write_split
from fairseq_odeformers.errors import InputError, did_you_mean

from .checks import MAX_LISTED, check_data, fold
from .command import show_progress

logger = logging.getLogger(__name__)

POSITIONS = 512  # maximum number of tokens per text in sentence_prediction by default
RARE_CLASS_SIZE = 2  # warn if a class has at most this number of training texts

Item = TypeVar("Item")
Encoded = tuple[Sequence[Any], str | None]  # indices of the symbols of each input, and the class


@dataclass(frozen=True)
class Labels:
    """Writer of labelled examples.

    Attributes:
        classes: names of classes, in the order of their numbers; empty if the labels are scores,
            which the corpus writes itself.
        inputs: 1, or 2 if the examples are pairs.
        symbols: symbols of the inputs of :meth:`write_numbers`.
        eos: whether these inputs end with ``</s>``.
        positions: see :func:`.check_data`.
    """

    classes: Sequence[str]
    inputs: int = 1
    symbols: Sequence[str] = ()
    eos: bool = True
    positions: int | None = None

    def write_numbers(self, splits: Mapping[str, Iterable], folder: Path) -> None:
        """Write examples of each split that consist of numbers of symbols (T) and a class."""
        dictionary = make_dictionary(self.symbols)
        end = [dictionary.eos()] if self.eos else []

        def encode(examples: Iterable) -> Iterator[Encoded]:
            for parts, label in examples:
                ids = (np.asarray(part).astype(int) + dictionary.nspecial for part in parts)
                yield [np.append(row, end).astype(int) for row in ids], label

        self.write(
            {split: encode(examples) for split, examples in splits.items()}, dictionary, folder
        )

    def write(
        self, splits: Mapping[str, Iterable[Encoded]], dictionary: Dictionary, folder: Path
    ) -> None:
        """Write the dictionaries and the splits of a data set, and warn about flaws.

        Args:
            splits: examples of each split.
            dictionary: dictionary of the inputs.

        Raises:
            ValueError: a split has no examples.
            InputError: the training set has only one class.
        """
        write_dictionaries(folder, self.inputs, dictionary, self.classes)
        counts: dict[str, Counter] = {}
        for split, examples in splits.items():
            count = write_split(folder, split, show_progress(examples, split, " texts"))
            counts[split] = count
            each = ", ".join(f"{count[name]:,} {name}" for name in self.classes if count[name])
            unit = "pairs" if self.inputs == 2 else "examples"
            logger.info(f"{split}: {count.total():,} {unit} ({each or 'without classes'})")
            if split == "train" and self.classes and len(count) < 2:
                raise InputError(
                    f"the training set has one class, {next(iter(count))}; add examples of at "
                    "least two classes"
                )
        labelled = {split: count for split, count in counts.items() if None not in count}
        if self.classes:
            warn_of_classes(self.classes, labelled)
        check_data(folder, self.positions)


def warn_of_classes(classes: Sequence[str], counts: Mapping[str, Counter]) -> None:
    """Warn about similar classes, rare classes, and classes that a split lacks.

    Args:
        counts: number of examples of each class, for each split with labels.
    """
    warnings = [*find_alike(classes), *find_rare(classes, counts)]
    for warning in warnings[:MAX_LISTED]:
        logger.warning(warning)
    if len(warnings) > MAX_LISTED:
        logger.warning(f"{len(warnings) - MAX_LISTED:,} more classes are similar or have few texts")


def find_alike(classes: Sequence[str]) -> Iterator[str]:
    alike: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        alike[normalise_class(name)].append(name)
    for names in alike.values():
        if len(names) > 1:
            yield f"classes {', '.join(names)} only differ in case, spaces or zeros; are they one?"


def find_rare(classes: Sequence[str], counts: Mapping[str, Counter]) -> Iterator[str]:
    for name in classes:
        count = counts["train"][name]
        absent = ", ".join(split for split, others in counts.items() if not others[name])
        if count <= RARE_CLASS_SIZE or absent:
            number = "1 text" if count == 1 else f"{count:,} texts"
            missing = f" and none in {absent}" if absent and count else ""
            meant = (
                did_you_mean(name, sorted({*classes} - {name})) if count <= RARE_CLASS_SIZE else ""
            )
            yield "; ".join(filter(None, [f"class {name} has {number} in train{missing}", meant]))


def normalise_class(name: str) -> str:
    """Remove case, insignificant spaces and zeros from the name of a class."""
    with suppress(ValueError):
        return str(float(name))
    return fold(name)


def hold_out(
    examples: Sequence[Item],
    classes: Iterable[Any],
    fraction: float,
    order: Callable[[list[int]], Sequence[int] | np.ndarray],
    split: str = "valid",
) -> tuple[list[Item], list[Item]]:
    """Split off *fraction* of each class; both parts keep the order.

    Args:
        classes: classes of the examples.
        order: function that sorts the places of a class; the first ones are held out.
        split: name of the split for which texts are held out.

    Raises:
        InputError: nothing would be held out.
    """
    places = defaultdict(list)
    for place, name in enumerate(classes):
        places[name].append(place)
    drawn = {p for each in places.values() for p in order(each)[: int(len(each) * fraction)]}
    if not drawn:
        raise InputError(
            f"--{split}-fraction {fraction}: from {len(examples)} training texts, this draws none "
            f"for {split}; add texts to each class, or raise the share"
        )
    others = [example for place, example in enumerate(examples) if place not in drawn]
    return others, [examples[place] for place in sorted(drawn)]
