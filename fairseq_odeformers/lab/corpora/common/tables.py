"""Tab-separated tables, as they are or as spreadsheets write them: with quotes and a header."""

import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from fairseq_odeformers.files import read_lines

logger = logging.getLogger(__name__)

QUOTED = re.compile(r'"((?:[^"]|"")*)"')  # a field; quotation marks within it are doubled
# What a header calls its columns, besides languages.
NAMES = {
    *("source", "src", "target", "tgt", "trg", "input", "output", "original", "translation"),
    *("label", "class", "category", "sentiment", "topic", "text", "sentence", "review", "comment"),
    *("english", "german", "french", "spanish", "italian", "dutch", "portuguese", "russian"),
}


def split_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line."""
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.rstrip("\r").split("\t")


def read_rows(path: Path, names: Collection[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """The same of a table, without its quotes and its header.

    Args:
        names: what the header may call a column, besides :data:`NAMES`.

    Raises:
        ValueError: some fields are quoted, others have quotation marks that are not.
    """
    quoted = is_quoted(path)
    for number, fields in split_lines(path):
        if quoted:  # all that have a quotation mark
            fields = [f[1:-1].replace('""', '"') if f[:1] == '"' else f for f in fields]
        if number > 1 or not is_header(path, fields, names):
            yield number, fields


def is_header(path: Path, fields: Sequence[str], names: Collection[str] = ()) -> bool:
    """Whether the first line of a table names its columns, which differ."""
    known = {*NAMES, *(name.casefold() for name in names)}
    found = {field.strip().casefold() for field in fields}
    if header := found <= known and len(found) == len(fields):
        logger.info(f"{path}, line 1 is a header: {', '.join(fields)}")
    return header


def is_quoted(path: Path) -> bool:
    """Whether a spreadsheet has written a table, and has thus quoted each field with a quote.

    Raises:
        ValueError: it has quoted some, with doubled quotation marks, and others have single ones.
    """
    first: dict[str, int] = {}  # the number of the first line of each kind
    for number, fields in split_lines(path):
        for field in fields:
            if '"' in field:
                match = QUOTED.fullmatch(field)
                kind = "single" if not match else "doubled" if '""' in match[1] else "quoted"
                first.setdefault(kind, number)
    if "single" in first and "doubled" in first:
        raise ValueError(
            f"{path}, line {first['single']}: a quotation mark that is not doubled, while line "
            f"{first['doubled']} is quoted as by a spreadsheet; save the table without quoting"
        )
    if first and "single" not in first:
        logger.info(f"{path}: quoted as by a spreadsheet, and read accordingly")
    return bool(first) and "single" not in first
