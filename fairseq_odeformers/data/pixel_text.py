"""Images as text, one line of intensities per image, in the format published with Mega."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from fairseq.data import Dictionary, ListDataset

from fairseq_odeformers.errors import InputError


def read_numbers(path: Path) -> list[np.ndarray]:
    """Read lines of numbers from 0 to 255, all of the same length.

    Raises:
        InputError: a line contains anything else or has a different length; the message names the
            file and the line.
    """
    rows = []
    with open(path, encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                rows.append(np.frombuffer(bytes(map(int, line.split())), dtype=np.uint8))
            except ValueError as error:
                raise InputError(
                    f"{path}, line {number}: expected numbers from 0 to 255 ({error}); "
                    "download the archive again"
                ) from error
            if not 0 < len(rows[-1]) == len(rows[0]):
                raise InputError(
                    f"{path}, line {number}: {len(rows[-1])} numbers, expected {len(rows[0])}; "
                    "download the archive again"
                )
    if not rows:
        raise InputError(f"{path} has no lines; download the archive again")
    return rows


class PixelTextDataset(ListDataset):
    """The images in a file, as indices of a dictionary with the symbols ``0`` to ``255``."""

    def __init__(self, path: Path, dictionary: Dictionary):
        rows = read_numbers(path)
        super().__init__(rows, np.array([len(row) for row in rows]))
        self.first = dictionary.index("0")

    def __getitem__(self, index):
        return torch.from_numpy(self.dataset[index].astype(np.int64)) + self.first
