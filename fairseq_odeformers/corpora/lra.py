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
other inputs end with ``</s>``. Bytes are called as fairseq's ``--bpe bytes`` calls them, which can
thus print a text. Texts are kept whole: the benchmark cuts at 4,000 bytes when it reads them, which
is up to the options of the training here.

The splits of ``pathfinder`` (80, 10 and 10%) and that of the training images of ``image`` (90 and
10%) are random. The benchmark's own are those of TensorFlow Datasets, which shuffles on its own;
here the order and the seed are those of S4 (Gu et al., 2022), whose splits they thus are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Callable, NamedTuple

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE
from torch.utils.data import random_split
from tqdm import tqdm

from fairseq_odeformers.corpora import aan, cifar10, listops, lra_pathfinder, text_classification
from fairseq_odeformers.corpora.archives import download, unpack
from fairseq_odeformers.corpora.cli import check_source, chosen, make_parser, reporting
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
DEPTH = 3  # folders, in the one that is given, that the data of a task may lie in

Examples = Iterable[tuple[Sequence[np.ndarray], str]]  # indices of the inputs' symbols, and class


class Archive(NamedTuple):
    """A published archive; the SHA-256 is None if it is not known."""

    url: str
    sha256: str | None = None

    @property
    def name(self) -> str:
        return Path(self.url).name


RELEASE = Archive("https://storage.googleapis.com/long-range-arena/lra_release.gz")
IMDB = text_classification.DATASETS["imdb"]
CIFAR10 = Archive(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

LISTOPS_FILES = {
    "train": "basic_train.tsv",
    "valid": "basic_val.tsv",
    "test": "basic_test.tsv",
}
AAN_FILES = {
    "train": "new_aan_pairs.train.tsv",
    "valid": "new_aan_pairs.eval.tsv",
    "test": "new_aan_pairs.test.tsv",
}
CIFAR10_TRAIN = [f"data_batch_{number}.bin" for number in range(1, 6)]
CIFAR10_TEST = "test_batch.bin"


def read_listops(folder: Path, workers: int) -> dict[str, Examples]:
    index = {token: number for number, token in enumerate(listops.VOCABULARY)}
    return {
        split: (
            ([np.array([index[token] for token in tokens])], label)
            for tokens, label in listops.read(folder / file)
        )
        for split, file in LISTOPS_FILES.items()
    }


def read_text(source: Path, workers: int) -> dict[str, Examples]:
    reviews: dict[str, Examples] = {"train": [], "test": []}
    for name, text in text_classification.read_files(source, IMDB).items():
        split, label, _ = name.split("/")
        reviews[split].append(([np.frombuffer(text, np.uint8)], label))
    return {"train": reviews["train"], "valid": reviews["test"], "test": reviews["test"]}


def read_retrieval(folder: Path, workers: int) -> dict[str, Examples]:
    return {
        split: (
            ([np.frombuffer(text, np.uint8) for text in texts], label)
            for texts, label in aan.read(folder / file)
        )
        for split, file in AAN_FILES.items()
    }


def read_pathfinder(source: Path, workers: int) -> dict[str, Examples]:
    images = [([image], label) for image, label in lra_pathfinder.read(source, workers)]
    return split_randomly(images, ("train", "valid", "test"))


def read_image(folder: Path, workers: int) -> dict[str, Examples]:
    train, test = (
        [([image], label) for file in files for image, label in cifar10.read(folder / file)]
        for files in (CIFAR10_TRAIN, [CIFAR10_TEST])
    )
    return {**split_randomly(train, ("train", "valid")), "test": test}


def split_randomly(examples: Sequence, names: Sequence[str]) -> dict[str, Examples]:
    """A tenth of *examples* for each split but the first, which has the others."""
    tenth = len(examples) // 10
    sizes = [len(examples) - tenth * (len(names) - 1)] + [tenth] * (len(names) - 1)
    return dict(zip(names, random_split(examples, sizes, torch.Generator().manual_seed(SEED))))


class Task(NamedTuple):
    """How a task is published.

    Attributes:
        archive: has the data.
        marker: file or folder by which the data are found where they have been unpacked.
        symbols: of the dictionary of the inputs.
        classes: in the order of their numbers.
        read: ``read(source, workers)`` returns the examples of each split. The source is a folder
            with *files*, or, if there are none, the archive or the folder that has the marker.
        files: names of the files that have the data, unless there are too many.
        inputs: 1, or 2 if the examples are pairs.
        eos: whether inputs end with ``</s>``.
    """

    archive: Archive
    marker: str
    symbols: Sequence[str]
    classes: Sequence[str]
    read: Callable[[Path, int], dict[str, Examples]]
    files: Sequence[str] = ()
    inputs: int = 1
    eos: bool = True


TASKS = {
    "listops": Task(
        RELEASE,
        LISTOPS_FILES["train"],
        listops.VOCABULARY,
        listops.DIGITS,
        read_listops,
        tuple(LISTOPS_FILES.values()),
    ),
    "text": Task(
        Archive(*next(iter(IMDB.downloads.items()))),
        "train/pos",
        BYTES,
        tuple(IMDB.classes),
        read_text,
    ),
    "retrieval": Task(
        RELEASE,
        AAN_FILES["train"],
        BYTES,
        aan.CLASSES,
        read_retrieval,
        tuple(AAN_FILES.values()),
        inputs=2,
    ),
    "pathfinder": Task(
        RELEASE,
        f"{lra_pathfinder.LEVEL}/metadata",
        INTENSITIES,
        lra_pathfinder.CLASSES,
        read_pathfinder,
        eos=False,
    ),
    "image": Task(
        CIFAR10,
        CIFAR10_TRAIN[0],
        INTENSITIES,
        cifar10.CLASSES,
        read_image,
        (*CIFAR10_TRAIN, CIFAR10_TEST),
        eos=False,
    ),
}


def prepare(names: Sequence[str], source: Path | None, out: Path, workers: int) -> list[Path]:
    """Prepare tasks of the Long Range Arena.

    A task that cannot be prepared does not keep the others from it. A call that was interrupted
    resumes with the task it was in, and what has been done with the same files is not repeated. The
    result does not depend on *workers*.

    Args:
        names: keys of ``TASKS``.
        source: an archive, or a folder that has the archives under their published names or what
            has been unpacked of them; None to download them.
        out: folder for the results, and for what has been unpacked, in ``raw``.
        workers: number of processes.

    Returns:
        The folder of each task.

    Raises:
        ValueError: some tasks could not be prepared; the message says which, and why: a file is
            missing, damaged, or has something else than it should.
    """
    results = []
    failures = []
    for name in names:
        try:
            results.append(_prepare_task(name, source, out, workers))
            logger.info(f"{results[-1]} is ready for fairseq-train")
        except (ValueError, OSError) as error:
            logger.error(f"{name}: {error}")
            failures.append(f"{name}: {error}")
    if failures:
        raise ValueError("; ".join(failures))
    return results


def _prepare_task(name: str, source: Path | None, out: Path, workers: int) -> Path:
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
        lambda folder: write(task, data, folder, workers),
    )
    return result


def locate(source: Path, task: Task) -> Path:
    """The folder in *source* that has the data of a task, or else the archive that has them.

    Raises:
        ValueError: there is none of the two.
    """
    if source.is_file():
        return source
    for path in (task.marker, task.archive.name):
        for depth in range(DEPTH + 1):
            for found in sorted(source.glob("*/" * depth + path)):
                return found if path == task.archive.name else found.parents[path.count("/")]
    raise ValueError(f"{source} has no {task.marker} and no {task.archive.name}")


def write(task: Task, source: Path, folder: Path, workers: int) -> None:
    """Write a task's data set to *folder*.

    Raises:
        ValueError: *source* has something else than it should, or no examples for a split.
    """
    dictionary = make_dictionary(task.symbols)
    write_dictionaries(folder, task.inputs, dictionary, task.classes)
    for split, examples in task.read(source, workers).items():
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


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; an error ends the program with a message of one line."""
    parser = make_parser(
        "lra",
        source="archive, or folder that has the archives under their published names or what has "
        "been unpacked of them (default: download them)",
        out="where to put the results, in DIR/TASK-bin (default: %(default)s)",
        description="Prepare the Long Range Arena for fairseq-train --task long_range_arena.",
    )
    parser.set_defaults(out=Path("data", "lra"))
    parser.add_argument(
        "tasks", metavar="TASK", nargs="*", help=f"{', '.join(TASKS)} (default: all of them)"
    )
    args = parser.parse_args(arguments)
    tasks = chosen(parser, args.tasks, TASKS)
    check_source(parser, args.source, args.out / "raw")
    libraries = ["PIL"] if "pathfinder" in tasks else []
    with reporting(parser.prog, args.out, *libraries):
        prepare(tasks, args.source, args.out, args.workers)
