"""Tab-separated tables, as they are or as spreadsheets write them: with quotes and a header."""

import logging
import re
from collections.abc import Collection, Iterator

from .source import File

logger = logging.getLogger(__name__)

QUOTED = re.compile(r'"((?:[^"]|"")*)"')  # a field; quotation marks within it are doubled
# What a header calls its columns, besides languages.
NAMES = {
    *("source", "src", "target", "tgt", "trg", "input", "output", "original", "translation"),
    *("label", "class", "category", "sentiment", "topic", "text", "sentence", "review", "comment"),
    *("english", "german", "french", "spanish", "italian", "dutch", "portuguese", "russian"),
}


def read_rows(file: File, names: Collection[str] = ()) -> Iterator[tuple[int, list[str]]]:
    """The number and the fields of each line of a table but its header.

    Args:
        names: what the header may call a column, in lower case, besides :data:`NAMES`.

    Raises:
        ValueError: some fields are quoted, others have quotation marks that are not.
    """
    quoted = is_quoted(file)
    for number, line in enumerate(file.lines(), start=1):
        fields = line.rstrip("\r").split("\t")
        if quoted:
            fields = [unquote(field) for field in fields]
        if number == 1 and {field.strip().casefold() for field in fields} <= {*NAMES, *names}:
            logger.info(f"{file.name}, line 1 is a header: {', '.join(fields)}")
        else:
            yield number, fields


def unquote(field: str) -> str:
    match = QUOTED.fullmatch(field)
    return match[1].replace('""', '"') if match else field


def is_quoted(file: File) -> bool:
    """Whether a spreadsheet has written a table, and has thus quoted each field with a quote.

    Raises:
        ValueError: it has quoted some, with doubled quotation marks, and others have single ones.
    """
    quoted = doubled = single = 0  # the first line with such a field
    for number, line in enumerate(file.lines(), start=1):
        if '"' in line:
            for field in line.rstrip("\r").split("\t"):
                if match := QUOTED.fullmatch(field):
                    quoted = quoted or number
                    doubled = doubled or number * ('""' in match[1])
                elif '"' in field:
                    single = single or number
    if doubled and single:
        raise ValueError(
            f"{file.name}, line {single}: a quotation mark that is not doubled, while line "
            f"{doubled} is quoted as by a spreadsheet; save the table without quoting"
        )
    if quoted and not single:
        logger.info(f"{file.name}, line {quoted}: quoted as by a spreadsheet, and read accordingly")
    return bool(quoted) and not single
