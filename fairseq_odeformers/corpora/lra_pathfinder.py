"""Pathfinder (Linsley et al., 2018), of the Long Range Arena: does a dashed path join two dots?

The release has images of several sizes and of three levels of difficulty. The benchmark's task is
that of 32x32 pixels and of the hardest level. A level has images, such as ``imgs/0/sample_7.png``,
and for each of their folders a text, in spite of its name, such as ``metadata/0.npy``. A line of it
describes an image: folder, file, number, class (1: joined), and how the image was drawn::

    imgs/0 sample_7.png 7 1 1.0 14 4 2 0.5 1 1
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Callable

import numpy as np
from tqdm import tqdm

from fairseq_odeformers.corpora.archives import members, reading
from fairseq_odeformers.corpora.processes import map_in_processes

LEVEL = "pathfinder32/curv_contour_length_14"
CLASSES = ("0", "1")
SIZE = (32, 32)


def read(source: Path, workers: int) -> list[tuple[np.ndarray, str]]:
    """The image, ``uint8[1024]``, and the class of each line of the metadata, in their order.

    Args:
        source: the folder of the level, or an archive that has it.
        workers: number of processes.

    Raises:
        ValueError: there is no metadata, or a line is not as above; an image is cut off or not of
            32x32 pixels; an image has no label, or a label no image.
    """
    metadata: dict[int, list[tuple[str, str]]] = {}

    def images() -> Iterator[tuple[str, str, bytes]]:
        """Name in the source, path and content of each image; collects the metadata in passing."""
        for name, stream in tqdm(members(source), desc=source.name, unit=" files", mininterval=1):
            path = (source / name).as_posix().partition(f"{LEVEL}/")[2]
            number = re.fullmatch(r"metadata/(\d+)\.npy", path)
            if not (number or path.startswith("imgs/")):
                continue
            with reading(name, source):
                content = stream.read()
            if number:
                metadata[int(number[1])] = list(parse(content, f"{name} in {source}"))
            else:
                yield name, path, content

    pixels = dict(map_in_processes(_decoder, (source,), images(), workers))
    if not metadata:
        raise ValueError(f"{source} has no {LEVEL}/metadata/*.npy")
    labels = {path: label for number in sorted(metadata) for path, label in metadata[number]}
    if unpaired := sorted(labels.keys() ^ pixels.keys()):
        raise ValueError(
            f"{source} has {len(pixels):,} images but {len(labels):,} labels of {LEVEL}; "
            f"the first without the other is {unpaired[0]}"
        )
    return [(np.frombuffer(pixels[path], dtype=np.uint8), labels[path]) for path in labels]


def parse(metadata: bytes, name: str) -> Iterator[tuple[str, str]]:
    """Path and class of the image of each line.

    Raises:
        ValueError: a line has something else; the message says it is of *name*.
    """
    lines = metadata.decode("utf-8", "backslashreplace").splitlines()
    for number, line in enumerate(lines, start=1):
        columns = line.split()
        if len(columns) < 4 or columns[3] not in CLASSES:
            raise ValueError(
                f"{name}, line {number}: expected folder, file, number, class (0 or 1), "
                f"found {line[:80]!r}"
            )
        yield "/".join(columns[:2]), columns[3]


def _decoder(source: Path) -> Callable[[tuple[str, str, bytes]], tuple[str, bytes]]:
    from PIL import Image

    def decode(image: tuple[str, str, bytes]) -> tuple[str, bytes]:
        name, path, content = image
        try:
            with Image.open(io.BytesIO(content), formats=["PNG"]) as png:
                grey = png.convert("L") if png.size == SIZE else png
        except Image.DecompressionBombError as error:
            raise ValueError(f"{name} in {source}: {error}") from error
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise ValueError(f"{name} in {source} is no PNG image, or cut off") from error
        if grey.size != SIZE:
            raise ValueError(
                f"{name} in {source} has {grey.width}x{grey.height} pixels, expected 32x32"
            )
        return path, grey.tobytes()

    return decode
