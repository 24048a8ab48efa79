"""CIFAR-10 (Krizhevsky, 2009) in its binary version, as grey images.

A file is a row of records of 3,073 bytes: the class, then the red, the green and the blue values of
32x32 pixels, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
PIXELS = 32 * 32
RECORD = 1 + 3 * PIXELS


def read(path: Path) -> Iterator[tuple[np.ndarray, str]]:
    """The grey image, ``uint8[1024]``, and the class of each record of a file.

    Raises:
        ValueError: the file is cut off, or has a class that CIFAR-10 does not have.
    """
    content = np.fromfile(path, dtype=np.uint8)
    if len(content) == 0 or len(content) % RECORD:
        raise ValueError(
            f"{path} has {len(content):,} bytes, expected a multiple of {RECORD:,}, the bytes of "
            "an image"
        )
    records = content.reshape(-1, RECORD)
    for number, record in enumerate(records, start=1):
        if record[0] >= len(CLASSES):
            raise ValueError(
                f"{path}, record {number}: class {record[0]}, expected 0 to {len(CLASSES) - 1}"
            )
        yield grey(record[1:].reshape(3, PIXELS)), CLASSES[record[0]]


def grey(rgb: np.ndarray) -> np.ndarray:
    """Intensities, ``uint8[n]``, of the colours ``uint8[3, n]``, as the Long Range Arena has them.

    That is TensorFlow's ``rgb_to_grayscale``: 0.2989 R + 0.587 G + 0.114 B of values from 0 to 1,
    times 255.5 and rounded down.
    """
    weights = np.array([0.2989, 0.587, 0.114], dtype=np.float32)
    return (weights @ (rgb / np.float32(255)) * np.float32(255.5)).astype(np.uint8)
