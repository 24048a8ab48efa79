"""The Long Range Arena (Tay et al., 2021): six classification tasks with long sequences.

Four tasks are in the benchmark's release; IMDb and CIFAR-10 are published separately. The result
for a task, such as ``text-bin``, contains the folders ``input0``, ``input1`` (for pairs) and
``label`` that ``fairseq-train --task long_range_arena`` loads.

- ``listops``: nested expressions, to be evaluated.
- ``text``: film reviews as bytes; negative or positive? As in the benchmark, ``valid`` is the test
  set, unless ``--valid-fraction`` holds out training reviews.
- ``retrieval``: pairs of papers as bytes; does one cite the other?
- ``pathfinder``: grey images of 32x32 pixels; does a dashed path join two dots?
- ``pathx``: Path-X, the same question for images of 128x128 pixels.
- ``image``: CIFAR-10 as grey images of 32x32 pixels.

An image is a row-major sequence of 1,024 or 16,384 intensities, symbols of the dictionary (``0`` to
``255``). The other inputs end with ``</s>``. Bytes are named as in fairseq's ``--bpe bytes``, which
can thus print a text. Texts are not truncated. The benchmark truncates texts to 4,000 bytes when it
reads them; here, options of ``fairseq-train`` truncate them.

The splits of ``pathfinder`` and ``pathx`` (80, 10 and 10%) and of the training images of ``image``
(90 and 10%) are random. The benchmark's own splits come from shuffling in TensorFlow Datasets.
Here, the order and the seed, and therefore the splits, are the same as in S4 (Gu et al., 2022).
"""

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import starmap
from pathlib import Path

import numpy as np
import torch
from fairseq.data.encoders.byte_utils import BYTE_TO_BCHAR, SPACE, SPACE_ESCAPE

from fairseq_odeformers.data.classification import INTENSITIES
from fairseq_odeformers.errors import InputError

from . import listops
from .common.command import add_number, fraction, make_parser, parse_options, preparing, step
from .common.corpus import Corpus, Download, Files, fingerprint, fingerprint_each, open_binary
from .common.labels import Labels, hold_out
from .text_classification import IMDB

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
LISTOPS_FILES = ("basic_train.tsv", "basic_val.tsv", "basic_test.tsv")
SPLITS = ("train", "valid", "test")
AAN_FILES = tuple(f"new_aan_pairs.{split}.tsv" for split in ("train", "eval", "test"))
CIFAR10 = Download(
    "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"),
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
)

Example = tuple[Sequence, str]  # the symbols of each input as numbers, and the class
Examples = Mapping[str, Iterable[Example]]  # the examples of each split


def read_each(read: Callable[[Path], Iterable[Example]], files: Files) -> Examples:
    """Read the examples of ``train``, ``valid`` and ``test``, each from one file."""
    return dict(zip(SPLITS, map(read, files.values())))


def read_listops(path: Path) -> Iterable[Example]:
    return starmap(listops.to_numbers, listops.read(path))


def read_imdb(files: Files, valid_fraction: float | None = None) -> Examples:
    """Read the bytes and the class of each film review.

    Args:
        files: reviews with names such as ``train/pos/17_8.txt``, in the order of their numbers
            (here, 17).
        valid_fraction: share of the training reviews of each class that becomes ``valid``. These
            are the reviews with the highest numbers: reviews of a film have consecutive numbers, so
            few films are in both parts. None chooses the benchmark's splits, where ``valid`` is
            ``test``.
    """
    reviews: dict[str, list[Example]] = {"train": [], "test": []}
    for name, path in files.items():
        split, label, _ = name.split("/")
        reviews[split].append(([np.frombuffer(read_bytes(path), np.uint8)], label))
    train, valid = reviews["train"], reviews["test"]
    if valid_fraction is not None:
        labels = (label for _, label in train)
        train, valid = hold_out(train, labels, valid_fraction, lambda places: places[::-1])
    return {"train": train, "valid": valid, "test": reviews["test"]}


def read_bytes(path: Path) -> bytes:
    with open_binary(path) as file:
        return file.read()


def read_aan(path: Path) -> Iterator[Example]:
    r"""Yield pairs of papers of the ACL Anthology Network (Radev et al., 2013).

    A line is ``class<TAB>id<TAB>id<TAB>text<TAB>text``. The class, 1 if one paper cites the other,
    is written as 0.0 or 1.0. Nothing is quoted. A text looks like bytes printed by Python
    (``b'...\\n...'``). Like the Long Range Arena's own code, this function uses it literally.
    """
    with open_binary(path) as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
            label = columns[0].removesuffix(b".0").decode(errors="replace")
            if len(columns) != 5 or label not in BINARY:
                raise InputError(
                    f"{path}, line {number}: expected class (0 or 1), two ids and two texts, found "
                    f"{line[:80]!r}"
                )
            yield [np.frombuffer(text, np.uint8) for text in columns[3:]], label


def read_pathfinder(files: Files, folder: str = PATHFINDER, width: int = 32) -> Examples:
    """Read images of Pathfinder (Linsley et al., 2018) and their classes, in the metadata's order.

    Images are files such as ``imgs/0/sample_7.png``. For each of their folders, there is a file
    such as ``metadata/0.npy``, which is text despite its name. A line in it describes an image:
    folder, file, number, class (1 if a path joins the dots), and parameters of the drawing::

        imgs/0 sample_7.png 7 1 1.0 14 4 2 0.5 1 1

    Images are decoded one at a time, because all images of Path-X would fill 3 GB.

    Args:
        folder: folder of the images and the metadata, in the names of *files*.
        width: width and height of the images.
    """
    from PIL import Image

    images = {name.removeprefix(f"{folder}/") for name in files if name.endswith(".png")}
    labels: dict[str, str] = {}
    for path in (path for name, path in files.items() if not name.endswith(".png")):
        lines = read_bytes(path).decode("utf-8", "backslashreplace").splitlines()
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            if len(columns) < 4 or columns[3] not in BINARY:
                raise InputError(
                    f"{path}, line {number}: expected folder, file, number, class (0 or 1), found "
                    f"{line[:80]!r}"
                )
            labels["/".join(columns[:2])] = columns[3]
    if unpaired := sorted(labels.keys() ^ images):
        raise InputError(
            f"{folder} has {len(images):,} images and {len(labels):,} labels; "
            f"{unpaired[0]} is the first without its counterpart"
        )

    def decode(image: tuple[str, str]) -> Example:
        path = files[f"{folder}/{image[0]}"]
        with open_binary(path) as file, Image.open(file, formats=["PNG"]) as png:
            if png.size != (width, width):
                raise ValueError(f"{png.width}x{png.height} pixels, expected {width}x{width}")
            return [np.frombuffer(png.convert("L").tobytes(), dtype=np.uint8)], image[1]

    splits = split_randomly([*labels.items()], 3)
    return {split: map(decode, part) for split, part in zip(SPLITS, splits)}


def read_cifar10(files: Files) -> Examples:
    *train, test = (list(read_images(files[name])) for name in CIFAR10.files)
    return dict(zip(SPLITS, [*split_randomly(sum(train, []), 2), test]))


def read_images(path: Path) -> Iterator[Example]:
    """Yield images of CIFAR-10 (Krizhevsky, 2009), converted to grey, and their classes.

    A file is a sequence of records of 3,073 bytes: the class, then the red, the green and the blue
    values of 32x32 pixels in row-major order.
    """
    content = read_bytes(path)
    if not content or len(content) % RECORD or max(content[::RECORD]) >= len(CIFAR10_CLASSES):
        fault = "is truncated, or has a class that CIFAR-10 does not have; give the complete file"
        raise InputError(f"{path} {fault}")
    for record in np.frombuffer(content, np.uint8).reshape(-1, RECORD):
        yield [convert_to_grey(record[1:].reshape(3, PIXELS))], CIFAR10_CLASSES[record[0]]


def convert_to_grey(rgb: np.ndarray) -> np.ndarray:
    """Convert colours ``uint8[3, n]`` to intensities ``uint8[n]``, as in the Long Range Arena.

    This is TensorFlow's ``rgb_to_grayscale``: 0.2989 R + 0.587 G + 0.114 B with values from 0 to 1,
    times 255.5 and rounded down.
    """
    weights = np.array([0.2989, 0.587, 0.114], dtype=np.float32)
    return (weights @ (rgb / np.float32(255)) * np.float32(255.5)).astype(np.uint8)


def split_randomly(examples: Sequence, parts: int) -> list[Sequence]:
    """Draw a tenth of *examples* for each part except the first, as torch's ``random_split``."""
    tenth = len(examples) // 10
    sizes = [len(examples) - tenth * (parts - 1)] + [tenth] * (parts - 1)
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(len(examples), generator=generator).split(sizes)
    return [[examples[number] for number in part.tolist()] for part in order]


def pathfinder_corpus(folder: str, width: int) -> Corpus[Labels]:
    """Make the corpus of the images and metadata in a folder of the release."""
    names = [f"{folder}/metadata/[0-9]*.npy", f"{folder}/imgs/*/*.png"]
    read = partial(read_pathfinder, folder=folder, width=width)
    return Corpus([Download(RELEASE, names)], read, images(BINARY))


def images(classes: Sequence[str]) -> Labels:
    return Labels(classes, symbols=INTENSITIES, eos=False)


CORPORA = {
    "listops": Corpus(
        [Download(RELEASE, LISTOPS_FILES)], partial(read_each, read_listops), listops.WRITER
    ),
    "text": Corpus([IMDB], read_imdb, Labels(("neg", "pos"), symbols=BYTES)),
    "retrieval": Corpus(
        [Download(RELEASE, AAN_FILES)],
        partial(read_each, read_aan),
        Labels(BINARY, inputs=2, symbols=BYTES),
    ),
    "pathfinder": pathfinder_corpus(PATHFINDER, 32),
    "pathx": pathfinder_corpus(PATHX, 128),
    "image": Corpus([CIFAR10], read_cifar10, images(CIFAR10_CLASSES)),
}


def prepare(name: str, args: argparse.Namespace) -> None:
    """Write the examples of a task."""
    corpus = CORPORA[name]
    files = corpus.files(args.source, args.out, f"raw/{name}")
    share = args.valid_fraction if name == "text" else None
    settings = {} if share is None else {"valid_fraction": share}
    file_per_split = name in ("listops", "retrieval")
    digest = [*fingerprint_each(files).items()] if file_per_split else fingerprint(files)

    def make(folder: Path) -> None:
        corpus.writer.write_numbers(corpus.read(files, **settings), folder)

    inputs = {"task": name, "from": digest, **settings}
    step(f"{name}: writing the examples", args.out / f"{name}-bin", inputs, make)


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "lra",
        "Prepare the Long Range Arena for fairseq-train --task long_range_arena.",
        source="archive, or folder with the archives under their published names or with their "
        "contents (default: download the archives)",
        tasks=CORPORA,
    )
    what = (
        "share of the training reviews of each class to hold out for validation in the task text "
        "(default: validate on the test set, as in the benchmark)"
    )
    add_number(parser, "--valid-fraction", None, what, fraction)
    args = parse_options(parser, arguments)
    tasks = CORPORA if "all" in args.tasks else dict.fromkeys(args.tasks)
    if args.valid_fraction is not None and "text" not in tasks:
        parser.error(f"--valid-fraction {args.valid_fraction}: only the task text needs it")
    with preparing(args):
        for name in tasks:
            prepare(name, args)
