"""The Long Range Arena (Tay et al., 2021): six classifications of long sequences.

Four tasks are in the benchmark's release; IMDb and CIFAR-10 are published on their own. The result
of a task, such as ``text-bin``, has the folders ``input0``, ``input1`` (for pairs) and ``label``
that ``fairseq-train --task long_range_arena`` loads.

- ``listops``: nested expressions, to be evaluated.
- ``text``: film reviews, negative or positive, as bytes. As in the benchmark, ``valid`` is the test
  set, unless ``--valid-fraction`` holds out training reviews.
- ``retrieval``: pairs of papers, as bytes; does one cite the other?
- ``pathfinder``: grey images of 32x32 pixels; does a dashed path join two dots?
- ``pathx``: Path-X, the same with images of 128x128 pixels.
- ``image``: CIFAR-10 as grey images of 32x32 pixels.

An image is 1,024 or 16,384 intensities, row by row, each a symbol of the dictionary (``0`` to
``255``). The other inputs end with ``</s>``. Bytes have the names of fairseq's ``--bpe bytes``,
which can thus print a text. Texts are kept whole. The benchmark truncates texts to 4,000 bytes as
it reads them; here the options of the training do.

The splits of ``pathfinder`` and ``pathx`` (80, 10 and 10%) and of the training images of ``image``
(90 and 10%) are random. The benchmark's own splits come from the shuffling of TensorFlow Datasets.
Here the order and the seed, and so the splits, are the same as in S4 (Gu et al., 2022).
"""

import io
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE
from tqdm import tqdm

from fairseq_odeformers.data.classification import (
    INTENSITIES,
    make_dictionary,
    write_dictionaries,
    write_split,
)
from fairseq_odeformers.files import build, fingerprints, naming_faults

from . import listops
from .archives import extract, fetch, fingerprint, locate, read_files
from .command import add_number, make_parser, parse_options, preparing
from .text_classification import DATASETS, fraction

logger = logging.getLogger(__name__)

BYTES = [BYTE_TO_BCHAR[byte].replace(SPACE, SPACE_ESCAPE) for byte in range(256)]
SEED = 42
CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PATHFINDER = "pathfinder32/curv_contour_length_14"  # 32x32 pixels, the hardest level
PATHX = "pathfinder128/curv_contour_length_14"
BINARY = ("0", "1")
PIXELS = 32 * 32
RECORD = 1 + 3 * PIXELS

RELEASE = "https://storage.googleapis.com/long-range-arena/lra_release.gz"
CIFAR10 = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
LISTOPS_FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
AAN_FILES = tuple(f"new_aan_pairs.{split}.tsv" for split in ("train", "eval", "test"))
CIFAR10_FILES = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
IMDB = DATASETS["imdb"]
IMDB_FILES = (*IMDB.files["train"], *IMDB.files["test"])
PATHFINDER_FILES, PATHX_FILES = (
    (f"{folder}/metadata/[0-9]*.npy", f"{folder}/imgs/*/*.png") for folder in (PATHFINDER, PATHX)
)

Example = tuple[list[np.ndarray], str]  # numbers of the symbols of its inputs, and its class


def read_listops(path: Path) -> Iterator[Example]:
    """Expressions and their values."""
    for tokens, label in listops.read(path):
        yield [np.array([*map(listops.VOCABULARY.index, tokens)])], label


def read_imdb_splits(
    files: dict[str, bytes], valid_fraction: float | None = None
) -> list[list[Example]]:
    """The bytes and the class of each film review.

    Args:
        files: reviews by names such as ``train/pos/17_8.txt``, in the order of their numbers (17).
        valid_fraction: share of each class of the training reviews for ``valid``, those with the
            highest numbers. Reviews of a film have consecutive numbers, so few films are in both
            parts. None for the benchmark's splits, where ``valid`` is ``test``.
    """
    reviews: dict[str, list[Example]] = {"train": [], "test": []}
    for name, text in files.items():
        split, label, _ = name.split("/")
        reviews[split].append(([np.frombuffer(text, np.uint8)], label))
    if valid_fraction is None:
        return [reviews["train"], reviews["test"], reviews["test"]]
    return [*hold_out_last(reviews["train"], valid_fraction), reviews["test"]]


def hold_out_last(examples: list[Example], fraction: float) -> tuple[list[Example], list[Example]]:
    """Split off the last *fraction* of each class; both parts keep the order."""
    counts = Counter(label for _, label in examples)
    left = {label: count - int(fraction * count) for label, count in counts.items()}
    kept: list[Example] = []
    held_out: list[Example] = []
    for example in examples:
        label = example[1]
        (kept if left[label] > 0 else held_out).append(example)
        left[label] -= 1
    if not held_out:
        raise ValueError(
            f"--valid-fraction {fraction}: of {len(examples)} training reviews this leaves none "
            "for validation"
        )
    return kept, held_out


def read_aan(path: Path) -> Iterator[Example]:
    r"""Pairs of papers of the ACL Anthology Network (Radev et al., 2013).

    A line is ``class<TAB>id<TAB>id<TAB>text<TAB>text``. The class, 1 if one paper cites the other,
    is written as 0.0 or 1.0. Nothing is quoted. A text is what Python prints for bytes
    (``b'...\\n...'``); the Long Range Arena's own code takes it literally, as this does.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
            label = columns[0].removesuffix(b".0").decode(errors="replace")
            if len(columns) != 5 or label not in BINARY:
                raise ValueError(
                    f"{path}, line {number}: expected class (0 or 1), two ids and two texts, found "
                    f"{line[:80]!r}"
                )
            yield [np.frombuffer(text, np.uint8) for text in columns[3:]], label


def read_pathfinder_splits(
    files: dict[str, bytes], folder: str = PATHFINDER, width: int = 32
) -> list[Iterator[Example]]:
    """Images of Pathfinder (Linsley et al., 2018) and their classes, in the metadata's order.

    Images are files such as ``imgs/0/sample_7.png``. For each of their folders there is a text, in
    spite of its name, such as ``metadata/0.npy``. A line of it describes an image: folder, file,
    number, class (1 if a path joins the dots), and how the image was drawn::

        imgs/0 sample_7.png 7 1 1.0 14 4 2 0.5 1 1

    An image is decoded when its turn comes; all images of Path-X would fill 3 GB.

    Args:
        folder: of the images and the metadata, in the names of *files*.
        width: of the images, which are as high.
    """
    images: set[str] = set()
    labels: dict[str, str] = {}
    for name, content in files.items():
        if name.endswith(".png"):
            images.add(name.removeprefix(f"{folder}/"))
            continue
        lines = content.decode("utf-8", "backslashreplace").splitlines()
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            if len(columns) < 4 or columns[3] not in BINARY:
                raise ValueError(
                    f"{name}, line {number}: expected folder, file, number, class (0 or 1), "
                    f"found {line[:80]!r}"
                )
            labels["/".join(columns[:2])] = columns[3]
    if unpaired := sorted(labels.keys() ^ images):
        raise ValueError(
            f"{folder} has {len(images):,} images and {len(labels):,} labels; "
            f"{unpaired[0]} is the first without its counterpart"
        )

    def decode(image: tuple[str, str]) -> Example:
        path, label = f"{folder}/{image[0]}", image[1]
        return [_decode_png(files[path], path, width)], label

    return [map(decode, split) for split in split_randomly([*labels.items()], 3)]


def _decode_png(content: bytes, name: str, width: int) -> np.ndarray:
    from PIL import Image

    with naming_faults(name), Image.open(io.BytesIO(content), formats=["PNG"]) as png:
        if png.size != (width, width):
            raise ValueError(f"{png.width}x{png.height} pixels, expected {width}x{width}")
        return np.frombuffer(png.convert("L").tobytes(), dtype=np.uint8)


def read_cifar10_splits(files: dict[str, bytes]) -> list[Sequence[Example]]:
    *train, test = (list(read_cifar10(files[name], name)) for name in CIFAR10_FILES)
    return [*split_randomly(sum(train, []), 2), test]


def read_cifar10(content: bytes, name: str) -> Iterator[Example]:
    """Images of CIFAR-10 (Krizhevsky, 2009), converted to grey, and their classes.

    The file called *name* is a row of records of 3,073 bytes: the class, then the red, the green
    and the blue values of 32x32 pixels, row by row.
    """
    if not content or len(content) % RECORD or max(content[::RECORD]) >= len(CIFAR10_CLASSES):
        raise ValueError(f"{name} is cut off, or has a class that CIFAR-10 does not have")
    for record in np.frombuffer(content, np.uint8).reshape(-1, RECORD):
        yield [convert_to_grey(record[1:].reshape(3, PIXELS))], CIFAR10_CLASSES[record[0]]


def convert_to_grey(rgb: np.ndarray) -> np.ndarray:
    """Intensities, ``uint8[n]``, of the colours ``uint8[3, n]``, as the Long Range Arena has them.

    That is TensorFlow's ``rgb_to_grayscale``: 0.2989 R + 0.587 G + 0.114 B of values from 0 to 1,
    times 255.5 and rounded down.
    """
    weights = np.array([0.2989, 0.587, 0.114], dtype=np.float32)
    return (weights @ (rgb / np.float32(255)) * np.float32(255.5)).astype(np.uint8)


def split_randomly(examples: Sequence, parts: int) -> list[Sequence]:
    """Draw a tenth of *examples* for each part but the first, which has the rest.

    The parts equal torch's ``random_split``.
    """
    tenth = len(examples) // 10
    sizes = [len(examples) - tenth * (parts - 1)] + [tenth] * (parts - 1)
    generator = torch.Generator().manual_seed(SEED)
    drawn = map(examples.__getitem__, torch.randperm(len(examples), generator=generator).tolist())
    return [list(islice(drawn, size)) for size in sizes]


class Task(NamedTuple):
    """How a task is published.

    Attributes:
        url: the archive of the data.
        files: names of the files of the data, or patterns of the names.
        read: returns the examples of ``train``, ``valid`` and ``test`` from the contents of all
            files, or the examples of one split from the path of a large file.
        symbols: the symbols of the inputs' dictionary.
        classes: the classes in the order of their numbers.
        large: whether there is a file for each split, too large to be held in memory.
        parts: 1, or 2 if the examples are pairs.
        eos: whether inputs end with ``</s>``.
    """

    url: str
    files: Sequence[str]
    read: Callable[[Any], Iterable]
    symbols: Sequence[str]
    classes: Sequence[str] = BINARY
    large: bool = False
    parts: int = 1
    eos: bool = True


read_pathx_splits = partial(read_pathfinder_splits, folder=PATHX, width=128)
TASKS = {
    "listops": Task(
        RELEASE, LISTOPS_FILES, read_listops, listops.VOCABULARY, [*listops.DIGITS], large=True
    ),
    "text": Task(IMDB.urls[0], IMDB_FILES, read_imdb_splits, BYTES, ("neg", "pos")),
    "retrieval": Task(RELEASE, AAN_FILES, read_aan, BYTES, large=True, parts=2),
    "pathfinder": Task(RELEASE, PATHFINDER_FILES, read_pathfinder_splits, INTENSITIES, eos=False),
    "pathx": Task(RELEASE, PATHX_FILES, read_pathx_splits, INTENSITIES, eos=False),
    "image": Task(
        CIFAR10, CIFAR10_FILES, read_cifar10_splits, INTENSITIES, CIFAR10_CLASSES, eos=False
    ),
}


def prepare(name: str, source: Path | None, out: Path, valid_fraction: float | None = None) -> Path:
    """Prepare a task of the Long Range Arena: ``{name}-bin`` in *out*.

    *valid_fraction* is for ``text`` alone; see :func:`read_imdb_splits`.
    """
    task, settings = TASKS[name], {}
    if name == "text" and valid_fraction is not None:
        settings = {"valid_fraction": valid_fraction}
        task = task._replace(read=partial(task.read, **settings))
    source = source or fetch([task.url], out)
    if task.large:
        raw = out / "raw" / name
        extract(source, {task.url: task.files}, raw)
        files = {file: raw / file for file in task.files}
        digest = fingerprints(files.values())
    else:
        files = read_files(locate(source, task.url, task.files), task.files)
        digest = fingerprint(files)
    result = out / f"{name}-bin"
    build(result, {"task": name, "from": digest, **settings}, partial(write, task, files))
    return result


def write(task: Task, files: dict[str, Any], folder: Path) -> None:
    """Write the data set of a task from the contents of its files, or the paths of large ones."""
    dictionary = make_dictionary(task.symbols)
    write_dictionaries(folder, task.parts, dictionary, task.classes)
    end = [dictionary.eos()] if task.eos else []

    def encode(examples: Iterable[Example]) -> Iterator[tuple[list[np.ndarray], str]]:
        for parts, label in examples:
            ids = (symbols.astype(int) + dictionary.nspecial for symbols in parts)
            yield [np.append(row, end).astype(int) for row in ids], label

    splits = map(task.read, files.values()) if task.large else task.read(files)
    for split, examples in zip(("train", "valid", "test"), splits):
        examples = tqdm(examples, split, unit=" examples", mininterval=1, disable=None)
        count = write_split(folder, split, encode(examples))
        if not count:
            raise ValueError(f"{', '.join(files)}: no examples for {split}")
        logger.info(f"{split}: {count:,} examples")


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "lra",
        "Prepare the Long Range Arena for fairseq-train --task long_range_arena.",
        source="archive, or folder with the archives under their published names, or with their "
        "contents (default: download the archives)",
        tasks=TASKS,
    )
    add_number(
        parser,
        "--valid-fraction",
        None,
        "text: share of each class of the training reviews to hold out, those with the highest "
        "numbers (default: validate on the test set, as in the benchmark)",
        fraction,
    )
    args = parse_options(parser, arguments)
    tasks = TASKS if "all" in args.tasks else dict.fromkeys(args.tasks)
    if args.valid_fraction is not None and "text" not in tasks:
        parser.error(f"--valid-fraction {args.valid_fraction}: only the task text needs it")
    with preparing(args):
        for name in tasks:
            prepare(name, args.source, args.out, args.valid_fraction)
