"""The files of the Long Range Arena's tasks, as they are published.

An example is the symbols of its inputs, by their numbers, and the name of its class.
"""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fairseq_odeformers.corpora import listops
from fairseq_odeformers.corpora.archives import members, naming_damage
from fairseq_odeformers.corpora.text_classification import DATASETS, read_files

Example = tuple[list[np.ndarray], str]

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PATHFINDER = "pathfinder32/curv_contour_length_14"  # 32x32 pixels, the hardest level
BINARY = ("0", "1")
PIXELS = 32 * 32
RECORD = 1 + 3 * PIXELS


def listops_examples(path: Path) -> Iterator[Example]:
    """Expressions and their values."""
    index = {token: number for number, token in enumerate(listops.VOCABULARY)}
    for tokens, label in listops.read(path):
        yield [np.array([index[token] for token in tokens])], label


def imdb_examples(source: Path) -> dict[str, list[Example]]:
    """The bytes and the class of each film review of ``train`` and ``test``."""
    reviews: dict[str, list[Example]] = {"train": [], "test": []}
    for name, text in read_files(source, DATASETS["imdb"]).items():
        split, label, _ = name.split("/")
        reviews[split].append(([np.frombuffer(text, np.uint8)], label))
    return reviews


def aan_examples(path: Path) -> Iterator[Example]:
    r"""Pairs of papers of the ACL Anthology Network (Radev et al., 2013).

    A line is ``class<TAB>id<TAB>id<TAB>text<TAB>text``. The class, 1 if one paper cites the other,
    is written as 0.0 or 1.0. Nothing is quoted. A text is what Python prints for bytes
    (``b'...\\n...'``); the Long Range Arena's own code takes it literally, and so does this.

    Raises:
        ValueError: a line is different.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
            label = columns[0].decode("utf-8", "backslashreplace").removesuffix(".0")
            if len(columns) != 5 or label not in BINARY:
                raise ValueError(
                    f"{path}, line {number}: expected class (0 or 1), two ids and two texts, found "
                    f"{len(columns)} columns and class {label!r}"
                )
            yield [np.frombuffer(text, np.uint8) for text in columns[3:]], label


def pathfinder_examples(source: Path) -> list[Example]:
    """Images of Pathfinder (Linsley et al., 2018) and their classes, in the metadata's order.

    Images are files such as ``imgs/0/sample_7.png``. For each of their folders there is a text, in
    spite of its name, such as ``metadata/0.npy``. A line of it describes an image: folder, file,
    number, class (1 if a path joins the dots), and how the image was drawn::

        imgs/0 sample_7.png 7 1 1.0 14 4 2 0.5 1 1

    Args:
        source: a folder or archive that has the folder ``PATHFINDER``.

    Raises:
        ValueError: there is no metadata, or a line is not as above; an image is not a PNG of 32x32
            pixels; an image has no label, or a label no image.
    """
    metadata: dict[int, list[tuple[str, str]]] = {}
    images: dict[str, np.ndarray] = {}
    patterns = (f"{PATHFINDER}/metadata/*.npy", f"{PATHFINDER}/imgs/*/*.png")
    for path, stream in members(source, patterns):
        name = f"{path} in {source}"
        with naming_damage(name):
            content = stream.read()
        if path.suffix == ".png":
            images["/".join(path.parts[-3:])] = _decode_png(content, name)
        elif number := re.fullmatch(r"\d+", path.stem):
            metadata[int(number[0])] = list(_parse_metadata(content, name))
    if not metadata:
        raise ValueError(f"{source} has no {PATHFINDER}/metadata/*.npy")
    labels = {path: label for number in sorted(metadata) for path, label in metadata[number]}
    if unpaired := sorted(labels.keys() ^ images.keys()):
        raise ValueError(
            f"{source} has {len(images):,} images but {len(labels):,} labels of {PATHFINDER}; "
            f"the first without the other is {unpaired[0]}"
        )
    return [([images[path]], label) for path, label in labels.items()]


def _parse_metadata(content: bytes, name: str) -> Iterator[tuple[str, str]]:
    lines = content.decode("utf-8", "backslashreplace").splitlines()
    for number, line in enumerate(lines, start=1):
        columns = line.split()
        if len(columns) < 4 or columns[3] not in BINARY:
            raise ValueError(
                f"{name}, line {number}: expected folder, file, number, class (0 or 1), "
                f"found {line[:80]!r}"
            )
        yield "/".join(columns[:2]), columns[3]


def _decode_png(content: bytes, name: str) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as png:
            if png.size != (32, 32):
                raise ValueError(f"{png.width}x{png.height} pixels, expected 32x32")
            return np.frombuffer(png.convert("L").tobytes(), dtype=np.uint8)
    except (Image.DecompressionBombError, OSError, SyntaxError, ValueError, EOFError) as error:
        raise ValueError(f"{name}: {error}") from error


def cifar10_examples(path: Path) -> Iterator[Example]:
    """Images of CIFAR-10 (Krizhevsky, 2009), made grey, and their classes.

    The file is a row of records of 3,073 bytes: the class, then the red, the green and the blue
    values of 32x32 pixels, row by row.

    Raises:
        ValueError: the file is cut off, or has a class that CIFAR-10 does not have.
    """
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) == 0 or len(content) % RECORD:
        raise ValueError(
            f"{path} has {len(content):,} bytes, expected a multiple of {RECORD:,}, the bytes of "
            "an image"
        )
    for number, record in enumerate(content.reshape(-1, RECORD), start=1):
        if record[0] >= len(CIFAR10_CLASSES):
            raise ValueError(f"{path}, record {number}: class {record[0]}, expected 0 to 9")
        yield [grey(record[1:].reshape(3, PIXELS))], CIFAR10_CLASSES[record[0]]


def grey(rgb: np.ndarray) -> np.ndarray:
    """Intensities, ``uint8[n]``, of the colours ``uint8[3, n]``, as the Long Range Arena has them.

    That is TensorFlow's ``rgb_to_grayscale``: 0.2989 R + 0.587 G + 0.114 B of values from 0 to 1,
    times 255.5 and rounded down.
    """
    weights = np.array([0.2989, 0.587, 0.114], dtype=np.float32)
    return (weights @ (rgb / np.float32(255)) * np.float32(255.5)).astype(np.uint8)
