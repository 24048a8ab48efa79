"""The Long Range Arena (Tay et al., 2021): five classifications of long sequences.

Three tasks are in the benchmark's release; IMDb and CIFAR-10 are published on their own. The result
of a task, for instance ``text-bin``, has in ``input0``, ``input1`` (for pairs) and ``label`` what
``fairseq-train --task long_range_arena`` loads.

- ``listops``: nested expressions, to be evaluated.
- ``text``: film reviews, negative or positive, as bytes. As in the benchmark, ``valid`` is the test
  set, for there is no other.
- ``retrieval``: pairs of papers, as bytes; does one cite the other?
- ``pathfinder``: grey images of 32x32 pixels; does a dashed path join two dots?
- ``image``: CIFAR-10 as grey images of 32x32 pixels.

An image is 1,024 intensities, row by row, each a symbol of the dictionary (``0`` to ``255``). The
other inputs end with ``</s>``. Bytes have the names of fairseq's ``--bpe bytes``, which can thus
print a text. Texts are kept whole. The benchmark cuts them at 4,000 bytes when it reads them; here
the options of the training do.

The splits of ``pathfinder`` (80, 10 and 10%) and of the training images of ``image`` (90 and 10%)
are random. The benchmark's own splits come from the shuffling of TensorFlow Datasets. Here the
order and the seed, and so the splits, are the same as in S4 (Gu et al., 2022).
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE
from torch.utils.data import random_split
from tqdm import tqdm

from fairseq_odeformers.corpora import listops, lra_readers
from fairseq_odeformers.corpora.archives import download, unpack
from fairseq_odeformers.corpora.cli import check_overlap, choose_tasks, make_parser, preparing
from fairseq_odeformers.corpora.text_classification import DATASETS
from fairseq_odeformers.data.classification import (
    INTENSITIES,
    make_dictionary,
    write_dictionaries,
    write_split,
)
from fairseq_odeformers.files import build, fingerprints

logger = logging.getLogger(__name__)

BYTES = [BYTE_TO_BCHAR[byte].replace(SPACE, SPACE_ESCAPE) for byte in range(256)]
SEED = 42
DEPTH = 3  # how many folders below the given one the data of a task may be

Examples = Iterable[lra_readers.Example]


class Archive(NamedTuple):
    """A published archive; the SHA-256 is None if it is not known."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return Path(self.url).name


RELEASE = Archive("https://storage.googleapis.com/long-range-arena/lra_release.gz")
CIFAR10 = Archive(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)
IMDB = Archive(*next(iter(DATASETS["imdb"].downloads.items())))
LISTOPS_FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
AAN_FILES = tuple(f"new_aan_pairs.{split}.tsv" for split in ("train", "eval", "test"))
CIFAR10_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")


def read_listops(folder: Path) -> dict[str, Examples]:
    return _by_split(lra_readers.listops_examples(folder / file) for file in LISTOPS_FILES)


def read_text(source: Path) -> dict[str, Examples]:
    reviews = lra_readers.imdb_examples(source)
    return _by_split([reviews["train"], reviews["test"], reviews["test"]])


def read_retrieval(folder: Path) -> dict[str, Examples]:
    return _by_split(lra_readers.aan_examples(folder / file) for file in AAN_FILES)


def read_pathfinder(source: Path) -> dict[str, Examples]:
    return _by_split(split_randomly(lra_readers.pathfinder_examples(source), 3))


def read_image(folder: Path) -> dict[str, Examples]:
    *train, test = (list(lra_readers.cifar10_examples(folder / file)) for file in CIFAR10_FILES)
    return _by_split([*split_randomly(sum(train, []), 2), test])


def _by_split(examples: Iterable[Examples]) -> dict[str, Examples]:
    return dict(zip(("train", "valid", "test"), examples))


def split_randomly(examples: Sequence, parts: int) -> list[Examples]:
    """A tenth of *examples* for each part but the first, which has the others."""
    tenth = len(examples) // 10
    sizes = [len(examples) - tenth * (parts - 1)] + [tenth] * (parts - 1)
    return random_split(examples, sizes, torch.Generator().manual_seed(SEED))


class Task(NamedTuple):
    """How a task is published.

    Attributes:
        archive: has the data.
        marker: file or folder by which the data are found where they have been unpacked.
        symbols: of the dictionary of the inputs.
        classes: in the order of their numbers.
        read: ``read(source)`` returns the examples of each split. The source is a folder with
            *files*, or, if there are none, the archive or the folder that has the marker.
        files: names of the files that have the data, unless there are too many.
        inputs: 1, or 2 if the examples are pairs.
        eos: whether inputs end with ``</s>``.
    """

    archive: Archive
    marker: str
    symbols: Sequence[str]
    classes: Sequence[str]
    read: Callable[[Path], dict[str, Examples]]
    files: Sequence[str] = ()
    inputs: int = 1
    eos: bool = True


TASKS = {
    "listops": Task(
        *(RELEASE, LISTOPS_FILES[0], listops.VOCABULARY, listops.DIGITS),
        *(read_listops, LISTOPS_FILES),
    ),
    "text": Task(IMDB, "train/pos", BYTES, ("neg", "pos"), read_text),
    "retrieval": Task(
        *(RELEASE, AAN_FILES[0], BYTES, lra_readers.BINARY, read_retrieval, AAN_FILES), inputs=2
    ),
    "pathfinder": Task(
        *(RELEASE, f"{lra_readers.PATHFINDER}/metadata", INTENSITIES, lra_readers.BINARY),
        read_pathfinder,
        eos=False,
    ),
    "image": Task(
        *(CIFAR10, CIFAR10_FILES[0], INTENSITIES, lra_readers.CIFAR10_CLASSES),
        *(read_image, CIFAR10_FILES),
        eos=False,
    ),
}


def prepare(names: Sequence[str], source: Path | None, out: Path) -> list[Path]:
    """Prepare tasks of the Long Range Arena.

    If a task cannot be prepared, the others still are. A call that was interrupted
    resumes with the task it was in, and a result that was made of the same files is kept.

    Args:
        names: keys of ``TASKS``.
        source: an archive, or a folder that has the archives under their published names or what
            has been unpacked of them; None to download them.
        out: folder for the results, and for what has been unpacked, in ``raw``.

    Returns:
        The folder of each task.

    Raises:
        ValueError: some tasks could not be prepared; the message says which, and why: a file is
            missing, damaged, or not as published.
    """
    results = []
    failures = []
    for name in names:
        try:
            results.append(_prepare_task(name, source, out))
            logger.info(f"{results[-1]} is ready for fairseq-train")
        except (ValueError, OSError) as error:
            logger.error(f"{name}: {error}")
            failures.append(f"{name}: {error}")
    if failures:
        raise ValueError("; ".join(failures))
    return results


def _prepare_task(name: str, source: Path | None, out: Path) -> Path:
    task = TASKS[name]
    if source is None:
        data = out / "download" / task.archive.name
        download(task.archive.url, data, task.archive.sha256)
    else:
        data = locate(source, task)
    if task.files and data.is_file():
        archive, data = data, out / "raw" / name
        recipe = {"from": fingerprints([archive])}
        build(data, recipe, lambda folder: unpack(archive, task.files, folder))
    inputs = [data / file for file in task.files] or [data]
    result = out / f"{name}-bin"
    build(
        result,
        {"task": name, "from": fingerprints(inputs)},
        lambda folder: write(task, data, folder),
    )
    return result


def locate(source: Path, task: Task) -> Path:
    """The folder in *source* that has the data of a task, or else the archive that has them.

    Raises:
        ValueError: there is neither.
    """
    if source.is_file():
        return source
    for path in (task.marker, task.archive.name):
        for depth in range(DEPTH + 1):
            for found in sorted(source.glob("*/" * depth + path)):
                return found if path == task.archive.name else found.parents[path.count("/")]
    raise ValueError(f"{source} has no {task.marker} and no {task.archive.name}")


def write(task: Task, source: Path, folder: Path) -> None:
    """Write a task's data set to *folder*.

    Raises:
        ValueError: a file is not as published, or a split has no examples.
    """
    dictionary = make_dictionary(task.symbols)
    write_dictionaries(folder, task.inputs, dictionary, task.classes)
    for split, examples in task.read(source).items():
        progress = tqdm(examples, desc=split, unit=" examples", mininterval=1)
        count = write_split(folder, split, _binarized(progress, dictionary, task.eos))
        if not count:
            raise ValueError(f"{source} has no examples for {split}")
        logger.info(f"{split}: {count:,} examples")


def _binarized(examples: Examples, dictionary: Dictionary, eos: bool) -> Examples:
    end = np.full(int(eos), dictionary.eos())
    for inputs, label in examples:
        ids = (np.append(symbols.astype(int) + dictionary.nspecial, end) for symbols in inputs)
        yield tuple(ids), label


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "lra",
        "Prepare the Long Range Arena for fairseq-train --task long_range_arena.",
        out="data/lra",
        result="TASK-bin",
        source="archive, or folder that has the archives under their published names or what has "
        "been unpacked of them (default: download them)",
    )
    parser.add_argument(
        "tasks", metavar="TASK", nargs="*", help=f"{', '.join(TASKS)} (default: all of them)"
    )
    args = parser.parse_args(arguments)
    tasks = choose_tasks(parser, args.tasks, TASKS)
    check_overlap(parser, args.source, args.out / "raw")
    with preparing(args.out):
        prepare(tasks, args.source, args.out)
