"""Tables, tab-separated or in a ``.csv``, plain or of a spreadsheet: with quotes and a header."""

import csv
import logging
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from fairseq_odeformers.files import read_lines

from .corpus import strip_compression

logger = logging.getLogger(__name__)

# A cell of a spreadsheet. Within quotes it may have tabs or line breaks, and quotation marks, which
# are doubled.
CELL = re.compile(r'(?:^|(?<=\t))("(?:[^"]|"")*"|[^"\t\n]*)(?=\t|\Z)')
# What a header calls its columns, besides languages.
NAMES = {
    *("source", "src", "target", "tgt", "trg", "input", "output", "original", "translation"),
    *("label", "class", "category", "sentiment", "topic", "text", "sentence", "review", "comment"),
    *("english", "german", "french", "spanish", "italian", "dutch", "portuguese", "russian"),
}


def is_csv(path: Path) -> bool:
    """Whether the columns of a table are separated by commas, by the ending of its name."""
    return strip_compression(path.name).lower().endswith(".csv")


def show_row(path: Path, *columns: str) -> str:
    """How a table's row is to be written, for messages."""
    return ("," if is_csv(path) else "<tab>").join(columns)


def split_commas(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line and the fields of each row; line breaks become spaces."""
    table = csv.reader((line + "\n" for line in read_lines(path)), strict=True)
    number = 1
    try:
        for row in table:
            yield number, [re.sub(r"\r?\n", " ", field) for field in row] or [""]
            number = table.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {number}: {error}; correct the row's quotes") from error


def split_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line."""
    for number, line in enumerate(read_lines(path), start=1):
        yield number, line.rstrip("\r").split("\t")


def read_rows(path: Path, names: Collection[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line and the fields of each row, without quotes and header.

    A row is a line, unless a spreadsheet has quoted a cell with line breaks, which become spaces.

    Args:
        names: what the header may call a column, besides :data:`NAMES`.

    Raises:
        ValueError: some fields are quoted, others have quotation marks that are not.
    """
    split = split_commas if is_csv(path) else split_cells if is_quoted(path) else split_lines
    rows = split(path)
    for number, fields in rows:
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
    for number, row in join_lines(path):
        if '"' in row:
            cells = CELL.findall(row)
            # A column of texts alone may have a quotation mark here and another lines below.
            fits = "\t".join(cells) == row and ("\n" not in row or len(cells) > 1)
            first.setdefault("quoted" if fits else "single", number)
            if any('""' in cell[1:-1] for cell in cells):
                first.setdefault("doubled", number)
    if "single" in first and "doubled" in first:
        raise ValueError(
            f"{path}, line {first['single']}: a quotation mark that is not doubled, or opens a "
            f"cell without end, while line {first['doubled']} is quoted as by a spreadsheet; "
            "correct the line, or save the table without quoting"
        )
    if quoted := "quoted" in first and "single" not in first:
        logger.info(f"{path}: quoted as by a spreadsheet, and read accordingly")
    elif first:
        logger.info(f"{path}: quotation marks, such as in line {first['single']}, are text")
    return quoted


def join_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The number of the first line and the text of each row; a line break may be within quotes.

    A tab ends the row of the line before, as no cell has both: the quotation mark is text.
    """
    first, row, is_open = 0, [], False
    for number, line in enumerate(read_lines(path), start=1):
        if is_open and "\t" in line.partition('"')[0]:
            yield first, "\n".join(row)
            is_open = False
        if not is_open:
            first, row = number, []
        row.append(line.rstrip("\r"))
        is_open ^= line.count('"') % 2
        if not is_open:
            yield first, "\n".join(row)
    if is_open:
        yield first, "\n".join(row)


def split_cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line and the cells of each row that a spreadsheet has written."""
    for number, row in join_lines(path):
        cells = (cell.replace("\n", " ") for cell in CELL.findall(row))
        yield number, [c[1:-1].replace('""', '"') if c[:1] == '"' else c for c in cells]
