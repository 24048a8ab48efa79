"""Pairs of papers of the ACL Anthology Network (Radev et al., 2013), of the Long Range Arena.

A line is ``class<TAB>id<TAB>id<TAB>text<TAB>text``; the class, 1 if one paper cites the other, is
written as 0.0 or 1.0. Nothing is quoted. A text is what Python prints for bytes (``b'...\\n...'``);
the Long Range Arena's own code takes it literally, and so does this.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CLASSES = ("0", "1")


def read(path: Path) -> Iterator[tuple[tuple[bytes, bytes], str]]:
    """The two texts and the class of each line of a file.

    Raises:
        ValueError: a line has something else.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.removesuffix(b"\n").removesuffix(b"\r").split(b"\t")
            if len(columns) != 5:
                raise ValueError(
                    f"{path}, line {number} has {len(columns)} columns, expected 5: class, two ids "
                    "and two texts"
                )
            name = columns[0].decode("utf-8", "backslashreplace").removesuffix(".0")
            if name not in CLASSES:
                raise ValueError(f"{path}, line {number}: class {name!r}, expected 0 or 1")
            yield (columns[3], columns[4]), name
