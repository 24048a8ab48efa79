"""The markup of the evaluation sets of WMT and IWSLT: one ``<seg id="...">`` a line."""

import re
from collections.abc import Iterator
from pathlib import Path

from fairseq_odeformers.files import read_lines

SEGMENT_TAG = re.compile(r'<seg id="[0-9]+">\s*|\s*</seg>\s*')


def segments(path: Path) -> Iterator[str]:
    """The segments of an evaluation set, as published (entities such as ``&amp;`` included)."""
    for line in read_lines(path):
        if "<seg id" in line:
            yield SEGMENT_TAG.sub("", line)


def test_sentences(path: Path) -> Iterator[str]:
    """The segments with the typewriter's apostrophe, which is the one in training text."""
    return map(plain_apostrophes, segments(path))


def plain_apostrophes(text: str) -> str:
    return text.replace("’", "'")
