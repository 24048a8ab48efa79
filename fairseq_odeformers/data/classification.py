"""Classification data, binarised as fairseq's ``sentence_prediction`` reads it.

A data set is a folder with the folders ``input0``, ``input1`` if its examples are pairs, and
``label``. Each of them contains a dictionary ``dict.txt`` and the splits ``train``, ``valid`` and
``test``. ``fairseq-preprocess`` makes these files from text with spaces between the tokens; this
module writes them without the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from fairseq.data import Dictionary, FairseqDataset, data_utils
from fairseq.data.indexed_dataset import make_builder

from fairseq_odeformers.errors import InputError

INTENSITIES = [str(intensity) for intensity in range(256)]  # the symbols of pixels


def make_dictionary(symbols: Iterable[str]) -> Dictionary:
    """Make a dictionary of fairseq's special symbols, followed by *symbols* in their order."""
    dictionary = Dictionary()
    for symbol in symbols:
        dictionary.add_symbol(symbol)
    return dictionary


def class_names(labels: Dictionary) -> list[str]:
    """Return the classes without the ``madeupword`` symbols that ``fairseq-preprocess`` adds."""
    names = labels.symbols[labels.nspecial :]
    return [name for name in names if not re.fullmatch(r"madeupword\d{4}", name)]


def classes_of(task) -> list[str]:
    """Return the classes of a task's models, in the order of their probabilities."""
    names = class_names(task.label_dictionary)
    return names[: getattr(task.cfg, "num_classes", len(names))]


def f1_score(hits: float, members: float) -> float:
    """Return F1 of a class in percent, 2 hits / members, or 0 if the class has no members.

    Args:
        hits: number of examples of the class that are predicted to be in it.
        members: number of examples of the class plus number of examples predicted to be in it.
    """
    return 200 * float(hits) / float(members) if members else 0.0


def macro_f1(targets: Sequence, predictions: Sequence, classes: Iterable) -> float:
    """Return the mean of F1 over the classes that the model was trained on, in percent.

    The mean is 100 times scikit-learn's ``f1_score(targets, predictions, labels=classes,
    average="macro", zero_division=0)``: F1 is 0 for a class that occurs neither in the targets (N)
    nor in the predictions (N).
    """
    hits = Counter(true for true, guess in zip(targets, predictions) if true == guess)
    members = Counter(targets) + Counter(predictions)
    return fmean(f1_score(hits[name], members[name]) for name in classes)


def describe_classes(number: int, data: str, classes: Sequence[str]) -> str:
    """Return the error message for a ``--num-classes`` that the data contradict."""
    names = ", ".join(classes)
    return f"--num-classes {number}: {data} has {len(classes)}: {names}; set it to {len(classes)}"


def check_classes(task, *splits: str) -> None:
    """Check that the labels of fairseq's ``sentence_prediction`` fit ``--num-classes``.

    Args:
        task: a ``SentencePredictionTask``; tasks that load other data check them themselves.
        splits: names of the splits to check (default: all that exist).

    Raises:
        ValueError: the labels have more or fewer classes than ``--num-classes``, or a label has
            several words.
    """
    if task.cfg.regression_target:
        return
    classes = [name for name in class_names(task.label_dictionary) if name != "<mask>"]
    if task.cfg.num_classes != len(classes):
        raise ValueError(describe_classes(task.cfg.num_classes, task.cfg.data, classes))
    folder = Path(task.cfg.data, "label")
    for split in splits or sorted(path.stem for path in folder.glob("*.idx")):
        path = folder / split
        labels = data_utils.load_indexed_dataset(str(path), task.label_dictionary)
        check_labels(path, labels, task.label_dictionary)


def check_labels(path: Path, labels: FairseqDataset | None, classes: Dictionary) -> None:
    """Check that each label is one symbol, not a text that ``fairseq-preprocess`` has divided.

    Args:
        path: path of the labels, for the message.
        labels: the labels of a split, each with an end of sentence, or None.

    Raises:
        InputError: a label has several symbols; fairseq would use the first as the class.
    """
    if labels is None:
        return
    for index in np.flatnonzero(np.asarray(labels.sizes) > 2):
        words = [classes[symbol] for symbol in labels[index] if symbol != classes.eos()]
        raise InputError(
            f"{path}, example {index + 1}: the label {' '.join(words)!r} has {len(words)} words; "
            f"join them, as in {'_'.join(words)!r}, and prepare the data again"
        )


def is_class_name(name: str) -> bool:
    """Return whether a class survives when a dictionary is written and read again."""
    return name.splitlines() == class_names(make_dictionary([name])) == [name]


def check_unlabelled(labels: Path, *endings: str) -> None:
    """Check that a split without labels is a test set that lacks all of its label files.

    Args:
        labels: path of the label files without their *endings*.

    Raises:
        FileNotFoundError: the split is not a test set, or only some of its label files are missing.
    """
    missing = [path for ending in endings if not Path(path := f"{labels}{ending}").exists()]
    if len(missing) < len(endings) or not labels.name.startswith("test"):
        raise FileNotFoundError(
            f"{' and '.join(missing)}: no such file; only a test set may lack labels; prepare the "
            "data again"
        )


def write_dictionaries(
    folder: Path, inputs: int, dictionary: Dictionary, classes: Collection[str]
) -> None:
    """Write the ``dict.txt`` of each part of a data set.

    Args:
        folder: folder of the data set.
        inputs: 1, or 2 if the examples are pairs.
        classes: names of the classes, in the order of their numbers; empty if the caller writes
            their dictionary.
    """
    parts = {f"input{index}": dictionary for index in range(inputs)}
    if classes:
        parts["label"] = make_dictionary(classes)
    for part, symbols in parts.items():
        (folder / part).mkdir(parents=True, exist_ok=True)
        symbols.save(str(folder / part / "dict.txt"))


def write_split(
    folder: Path, split: str, examples: Iterable[tuple[Sequence, str | None]]
) -> Counter[str | None]:
    """Write a split of a data set to a *folder* that contains the dictionaries.

    Args:
        examples: for each example, a pair of its inputs (one or two one-dimensional arrays of
            dictionary indices) and the name of its class. The name is None for all examples if
            their classes are unknown.

    Returns:
        The number of examples of each class.

    Raises:
        ValueError: there are no examples.
    """
    examples = iter(examples)
    if (first := next(examples, None)) is None:
        raise ValueError(f"there are no examples for {split}; give one or more")
    labelled = first[1] is not None
    parts = sorted(path.name for path in folder.iterdir() if (path / "dict.txt").exists())
    if not labelled:
        parts = [part for part in parts if part != "label"]
    dictionaries = [Dictionary.load(str(folder / part / "dict.txt")) for part in parts]
    stems = [str(folder / part / split) for part in parts]
    builders = [
        make_builder(f"{stem}.bin", "mmap", len(dictionary))
        for stem, dictionary in zip(stems, dictionaries)
    ]
    labels = dictionaries[-1]  # "label" sorts after "input0" and "input1"
    counts: Counter[str | None] = Counter()
    for inputs, name in chain([first], examples):
        counts[name] += 1
        columns = (*inputs, [labels.indices[name], labels.eos()]) if labelled else inputs
        for builder, ids in zip(builders, columns):
            builder.add_item(torch.as_tensor(ids))
    for builder, stem in zip(builders, stems):
        builder.finalize(f"{stem}.idx")
    return counts
