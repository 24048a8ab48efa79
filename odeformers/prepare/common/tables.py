"""The user's tables of labelled texts or translations; the extension determines the format.

Cells of a ``.csv`` may be quoted. They are separated by commas, or by semicolons or tabs if the
first line contains these. Each line of a ``.jsonl`` is an object with the cells as fields. Cells of
other tables are separated by tabs, and quotation marks are part of the text. An ambiguous table
raises an error.
"""

import csv
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import normalize

from fairseq_odeformers.data.classification import is_class_name
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import MAX_LINE_BYTES, is_blank

from .checks import list_few, name_lines
from .corpus import Files, ending_of, read_text, strip_compression

logger = logging.getLogger(__name__)

Names = Mapping[str, Collection[str]]  # the words that may name each column in a header
Numbered = tuple[int, list[str]]  # the number of a row's first line, and its cells
# Class (None in unlabelled test sets), and the only text or both texts of a pair.
Example = tuple[str | None, list[str]]

TEXT = ("text", "sentence", "review", "comment", "content", "message", "document")
CLASS = ("label", "class", "category", "sentiment", "topic", "target", "rating")
SIDES: Names = {
    "source": ("source", "src", "original", "input"),
    "target": ("target", "tgt", "trg", "translation", "output"),
}
LANGUAGES = {  # names of a language in headers, each in all of these languages
    "de": "deutsch german alemán allemand tedesco duits alemão немецкий",
    "en": "englisch english inglés anglais inglese engels inglês английский",
    "es": "spanisch spanish español espagnol spagnolo spaans espanhol испанский",
    "fr": "französisch french francés français francese frans francês французский",
    "it": "italienisch italian italiano italien italiaans итальянский",
    "nl": "niederländisch dutch neerlandés néerlandais olandese nederlands holandês нидерландский",
    "pt": "portugiesisch portuguese portugués portugais portoghese portugees português "
    "португальский",
    "ru": "russisch russian ruso russe russo русский",
}
MAX_NAME_WORDS = 2  # maximum number of words in a cell that may be the name of a column
PAIRS = (  # names of the two columns of texts in tables of pairs
    *((f"{name}1", f"{name}2") for name in ("sentence", "text", "question")),
    *((f"{name}a", f"{name}b") for name in ("sentence", "text")),
    *(("question", name) for name in ("answer", "context", "sentence")),
    *(("premise", "hypothesis"), ("query", "passage"), ("query", "document")),
)
# Additional words in column names, as in "source text", "gold label" and "is duplicate".
ADDITIONAL_WORDS = {"text", "sentence", "language", "gold", "is"}
ID_NAMES = {"id", "idx", "index"}  # names of an additional column in test sets without classes

JSON = ".jsonl"
SEPARATORS = {"commas": ",", "semicolons": ";", "tabs": "\t"}
QUOTED = re.compile(
    r'"(?:[^"\\]|""|\\.)*"'
)  # a cell with its own quotation marks escaped or doubled


def read_plain(path: Path) -> Iterator[Numbered]:
    """Yield the rows of a table with tabs between cells, where quotation marks are text."""
    for number, line in enumerate(read_text(path), start=1):
        yield number, line.split("\t")


def read_labelled(files: Files, columns: Sequence[str] = ()) -> dict[str, list[Example]]:
    """Read the examples of each split from its table: ``train``, ``test`` and optionally ``valid``.

    Args:
        columns: names or numbers of the columns of classes and of one or two texts; see
            :func:`choose_columns`.

    Raises:
        InputError: a split has two tables; or see :func:`read_examples`.
    """
    tables: dict[str, Path] = {}
    for name, path in files.items():
        split = name.partition(".")[0]
        if tables.setdefault(split, path) != path:
            given = " and ".join(sorted(each.name for each in (tables[split], path)))
            raise InputError(f"{path.parent} has {given}; keep one")
    train = read_examples(tables.pop("train"), columns)
    classes = {label for label, texts in train if not any(map(is_blank, texts))}
    count = len(train[0][1])
    others = {name: read_examples(path, columns, classes, count) for name, path in tables.items()}
    return {"train": train, **others}


def read_examples(
    path: Path,
    columns: Sequence[str] = (),
    classes: Collection[str | None] = (),
    count: int = 0,
) -> list[Example]:
    """Read the classes and texts of a table; a table called ``test`` may contain only texts.

    Args:
        columns: see :func:`read_labelled`.
        classes: classes of the training texts, the only ones that other texts may have; empty for
            the training texts themselves.
        count: number of texts per example, 1 or 2; 0 if columns or header determine it.

    Raises:
        InputError: a row has an unknown class; or the first training text is the only one of its
            class, as a header would be; or classes and texts seem to be swapped.
    """
    rows, texts = split_rows(path), columns[1:]
    count = len(texts) or count
    if Path(strip_compression(path.name)).stem == "test" and has_texts_alone(rows, count, columns):
        texts = texts if {*texts} <= {*rows[0][1]} else ()
        return [(None, cells) for _, cells in choose_texts(path, rows, count, texts)]
    names = name_texts(rows[0][1], count)
    names = {"class": CLASS if len(names) == 1 else (*CLASS, "duplicate"), **names}
    chosen = choose_columns(path, rows, names, columns)
    examples: list[Example] = [(to_class(name), cells) for _, (name, *cells) in chosen]
    option = f"--columns {','.join(names).upper()}"
    if not classes:
        check_order(path, examples, option)
    numbers = [number for number, _ in chosen]
    if unlabelled := [n for n, (label, _) in zip(numbers, examples) if not label]:
        missing = "the label is missing; add it, or remove the line"
        raise InputError(f"{path}, {name_lines(unlabelled)}: {missing}")
    blank = [n for n, (_, texts) in zip(numbers, examples) if any(map(is_blank, texts))]
    if blank and not classes:
        what = "a text is empty" if len(examples[0][1]) > 1 else "the text is empty"
        logger.info(f"{path}, {name_lines(blank)}: {what}")
    for number, (cell, *_) in chosen:
        label, place = to_class(cell), f"{path}, line {number}"
        if not is_class_name(label) or QUOTED.fullmatch(label):
            raise InputError(f"{place}: {label[:40]!r} is not a valid class name")
        if classes and label not in classes:
            valid = list_few(sorted(name[:40] for name in classes if name))
            raise InputError(
                f"{place}: {label[:40]} is not one of {valid}; correct the line, "
                f"{show_row(path, *names)}, or add training texts of this class"
            )
    has_header = len(examples) < len(rows)
    first = examples[0][0]
    if not (classes or has_header) and [label for label, _ in examples].count(first) == 1:
        raise InputError(
            f"{path}, line {rows[0][0]}: no other line has the class {first}; if this is a "
            f"header, name its columns {join(names)}, or pass {option} with their names; "
            "otherwise, add texts of the class"
        )
    return examples


def to_class(cell: str) -> str:
    """Return the name of the class in a cell."""
    return normalize("NFC", cell.strip())


def check_order(path: Path, examples: Sequence[Example], option: str) -> None:
    """Check that the columns of classes and texts are not swapped.

    Args:
        option: the option that chooses the columns, for messages.

    Raises:
        InputError: most classes have only one text, and a column has few distinct texts.
    """
    classes = len({label for label, _ in examples})
    columns = [*zip(*(texts for _, texts in examples))]
    distinct = min(len({*column}) for column in columns)
    if classes > max(2 * distinct, len(examples) / (2 * len(columns))):
        raise InputError(
            f"{path}: {classes:,} classes for {distinct:,} distinct texts: the columns seem to "
            f"be swapped; pass {option} with their names or numbers"
        )


def has_texts_alone(rows: Sequence[Numbered], count: int, columns: Sequence[str] = ()) -> bool:
    """Return whether a table lacks classes, by its number of columns or the names in its header.

    Args:
        count: number of texts per example.
        columns: columns of classes and texts; a header may name all texts without the classes.
    """
    header = rows[0][1]
    if columns and {*columns[1:]} <= {*header}:
        return columns[0] not in header
    known = {*ID_NAMES, *chain(*name_texts(header, count).values())}
    words = [find_words(cell) for cell in header]
    return all(len(cells) == count for _, cells in rows) or all(each <= known for each in words)


def choose_texts(
    path: Path,
    rows: Sequence[Numbered],
    count: int,
    columns: Sequence[str] = (),
    classes: Collection[str] = (),
    option: str = "--columns",
) -> list[Numbered]:
    """Choose the texts of a table, and the numbers of their rows' first lines.

    Args:
        count: number of texts per row, 1 or 2.
        columns: names or numbers of the columns of texts, if given. Otherwise, the texts are the
            only columns, the columns that a header names, or the columns after a first one that
            contains classes.
        classes: names of the classes, which distinguish a first row from a header.
        option: the option that names the columns, for messages.
    """
    number, header = rows[0]
    place, names = f"{path}, line {number}", name_texts(header, count)
    named = columns or find_columns(place, header, names, option)
    if not named and (len(header) != count or ending_of(path) == JSON):
        if ending_of(path) == JSON or len(header) > count + 1 or to_class(header[0]) not in classes:
            cells = list_few([cell[:40] for cell in header])
            contain, remedy = "contains the texts", "its name or number"
            if count > 1:
                contain, remedy = "contain the two texts", "their names or numbers, such as A,B"
            raise InputError(
                f"{place}: cannot tell which of the columns {cells} {contain}; pass {option} with "
                f"{remedy}"
            )
        names = {"class": CLASS, **names}
    chosen = choose_columns(path, rows, names, columns)
    return [(number, cells[-count:]) for number, cells in chosen]


def read_unlabelled(
    path: Path,
    count: int,
    classes: Collection[str],
    columns: Sequence[str] = (),
    prepared: Sequence[str] = (),
) -> list[Numbered]:
    """Read the texts of a table to classify; see :func:`choose_texts`. Tabs in cells become spaces.

    Args:
        prepared: names or numbers of the columns of classes and texts in the training texts. They
            apply here too if the header contains the names, or if the column of classes with this
            number contains a class in the first row.
    """
    rows = split_rows(path)
    header = [cell.strip() for cell in rows[0][1]]
    numbered = {str(number): cell for number, cell in enumerate(header, start=1)}
    if prepared and not columns:
        label, *texts = prepared
        labelled = to_class(numbered.get(label, "")) in classes
        holds = {*texts} <= {*header} or labelled and {*texts} <= {*numbered}
        columns = texts if holds else ()
    chosen = choose_texts(path, rows, count, columns, classes, "--column")
    warn_of_header(path, rows, chosen, f"--column {','.join(['NAME'] * count)}")
    return [(number, [text.replace("\t", " ") for text in texts]) for number, texts in chosen]


def read_pairs(
    path: Path, langs: Sequence[str], columns: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Read the rows of a table of pairs, each as source and target.

    Args:
        columns: names or numbers of both columns; see :func:`choose_columns`.

    Raises:
        InputError: the file is empty or has only one column, or a row lacks these columns.
    """
    rows = split_rows(path)
    if all(len(cells) == 1 for _, cells in rows):
        pair = show_row(path, *SIDES)
        raise InputError(
            f"{path} has one column; if it is one of two files, pass the second one as well; if it "
            f"is a table, its lines are {pair}"
        )
    chosen = choose_columns(path, rows, name_sides(langs), columns)
    warn_of_header(path, rows, chosen, "--columns SOURCE,TARGET")
    return [(source, target) for _, (source, target) in chosen]


def warn_of_header(
    path: Path, rows: Sequence[Numbered], chosen: Sequence[Numbered], option: str
) -> None:
    """Warn if the first of the chosen texts seem to be a header that names them in different words.

    Args:
        option: the option that takes the names, for the message.
    """
    number, first = chosen[0]
    if len(chosen) == len(rows) and all(0 < len(cell.split()) <= MAX_NAME_WORDS for cell in first):
        what = "pair" if len(first) == 2 else "text"
        logger.warning(
            f"{path}, line {number}: {' | '.join(first)[:80]} is the first {what}; if it is a "
            f"header, pass {option}, as named in it"
        )


def name_sides(langs: Sequence[str]) -> Names:
    """Return the words that may name both sides of pairs in a header, including languages."""
    called = [f"{lang} {LANGUAGES.get(lang.casefold()[:2], '')}" for lang in langs]
    own = [find_words(names) for names in called]
    return {side: {*SIDES[side], *(own[n] - own[1 - n])} for n, side in enumerate(SIDES)}


def name_texts(header: Sequence[str], count: int = 0) -> Names:
    """Return the words that may name the columns of texts in a header.

    Args:
        count: number of texts per row; 0 for two if the header names a pair, and otherwise one.
    """
    words = [find_words(cell) for cell in header]
    pairs = [pair for pair in PAIRS if all({name} in words for name in pair)]
    if count == 1 or not (count or pairs):
        return {"text": TEXT}
    first, second = map(set, zip(*(pairs or PAIRS)))
    return {"text1": first.union(TEXT) - second, "text2": second}


def find_words(cell: str) -> set[str]:
    """Find the words in a header's cell, without the regions of languages such as ``de-AT``.

    A number or letter that distinguishes columns belongs to its word, as in ``text 1``.
    """
    name = re.sub(r"\b([a-z]{2})[-_][a-z]{2}\b", r"\1", normalize("NFC", cell).casefold())
    name = re.sub(r"[\W_]+([12ab])$", r"\1", name)
    return {*re.findall(r"[^\W_]+", name)}


def find_columns(
    place: str, cells: Sequence[str], names: Names, option: str = "--columns"
) -> list[int]:
    """Find the places of the columns *names* in a header; the list is empty for other cells.

    Args:
        place: place of the cells, for messages.
        option: the option that names the columns, for messages.

    Raises:
        InputError: the cells name some of the columns, but not each exactly once.
    """
    words = [find_words(cell) for cell in cells]
    vocabulary = ADDITIONAL_WORDS.union(*names.values())
    matches = [
        [n for n, own in enumerate(words) if own <= vocabulary and own.intersection(called)]
        for called in names.values()
    ]
    places = [*chain(*matches)]
    if places and not (len(places) == len({*places}) and all(len(each) == 1 for each in matches)):
        one = "them" if len(names) > 1 else "one"
        raise InputError(
            f"{place}: the header {', '.join(cells)[:80]} does not tell the columns apart; name "
            f"{one} {join(names)}, put such a header above this line, or pass {option}"
        )
    return places


def join(names: Iterable[str]) -> str:
    """Join the names of columns, for messages."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def show_row(path: Path, *cells: str) -> str:
    """Format a correct row of a table, for messages."""
    if ending_of(path) == JSON:
        return json.dumps(dict.fromkeys(cells, "..."))
    return ("," if ending_of(path) == ".csv" else "<tab>").join(cells)


def choose_columns(
    path: Path, rows: Sequence[Numbered], names: Names, chosen: Sequence[str] = ()
) -> list[Numbered]:
    """Choose the cells of the columns *names* in each row below the header.

    Without a header, rows consist of these columns, in this order.

    Args:
        chosen: columns chosen by the user, by their names in the header or their numbers from 1;
            numbers can also choose from a table without a header.

    Raises:
        InputError: the header is ambiguous, or a row has too few or too many cells.
    """
    number, header = rows[0]
    place = f"{path}, line {number}"
    if chosen:
        columns = place_columns(place, header, chosen)
        has_header = ending_of(path) == JSON or not {*chosen}.isdisjoint(map(str.strip, header))
    else:
        columns = find_columns(place, header, names)
        has_header = bool(columns)
    if not columns:
        check_width(path, rows, names)
    if has_header:
        what = f"{path}: its fields are" if ending_of(path) == JSON else f"{place} is a header:"
        logger.info(f"{what} {', '.join(header)}")
        rows = rows[1:]
    else:
        logger.info(f"{path} has no header; its first row is {' | '.join(header)[:80]}")
    if not columns:
        header, columns = list(names), [*range(len(names))]
    if not rows:
        raise InputError(f"{path} has no rows below its header")
    for number, cells in rows:
        if not max(columns) < len(cells) <= len(header):
            remedy = ", or put its cells in quotes" if ending_of(path) == ".csv" else ""
            raise InputError(
                f"{path}, line {number}: expected {len(header)} columns, "
                f"{show_row(path, *header)}, found {len(cells)}; correct the line{remedy}"
            )
    return [(number, [cells[column] for column in columns]) for number, cells in rows]


def place_columns(place: str, header: Sequence[str], chosen: Sequence[str]) -> list[int]:
    """Find the places of columns that the user has chosen by names or numbers.

    Raises:
        InputError: a column does not exist, or is chosen twice.
    """
    numbers = {str(number): number - 1 for number in range(1, len(header) + 1)}
    places = {cell.strip(): at for at, cell in reversed([*enumerate(header)])}
    for name in chosen:
        if name not in {*places, *numbers}:
            cells = list_few([cell[:40] for cell in header])
            raise InputError(
                f"{place}: there is no column {name}; use a name from the header, {cells}, or a "
                f"number from 1 to {len(header)}"
            )
    chosen_places = [places[name] if name in places else numbers[name] for name in chosen]
    if len({*chosen_places}) < len(chosen_places):
        raise InputError(f"{place}: {','.join(chosen)}: name each column once")
    return chosen_places


def check_width(path: Path, rows: Sequence[Numbered], names: Names) -> None:
    """Check that a table without a recognised header consists of the columns *names*.

    Raises:
        InputError: the table has different columns; the message names the option to choose them.
    """
    number, first = rows[0]
    same = [len(cells) for _, cells in rows].count(len(first)) > len(rows) / 2
    if ending_of(path) == JSON or len(first) > len(names) and same:
        columns = ",".join(names).upper()
        if columns == "CLASS,TEXT":
            columns += " (pairs: CLASS,TEXT1,TEXT2)"
        raise InputError(
            f"{path}, line {number}: cannot tell which of the columns "
            f"{list_few([c[:40] for c in first])} are {join(names)}; pass --columns {columns} with "
            "their names or numbers"
        )


def split_rows(path: Path) -> list[Numbered]:
    """Split a table into rows of cells, without blank lines and blank last columns.

    A blank line of a table with one column is an empty text. Line breaks in cells become spaces.

    Raises:
        InputError: the file is empty, or its quotes or separators are ambiguous.
    """
    lines = [line.replace("\r", " ") for line in read_text(path)]
    if ending_of(path) == JSON:
        return read_objects(path, lines)
    if ending_of(path) == ".csv":
        declared = re.fullmatch(r'"?sep=(.)"?\W*', lines[0]) if lines else None  # Excel knows it
        separator = declared[1] if declared else find_separator(path, lines)
        rows = list(split_quoted(path, lines, separator))[bool(declared) :]
    else:
        rows = [(number, line.split("\t")) for number, line in enumerate(lines, start=1)]
    if any(len(cells) > 1 for _, cells in rows):
        while rows and not any(map(str.strip, rows[-1][1])):
            rows.pop()
        filled = [row for row in rows if len(row[1]) > 1 or row[1][0].strip()]
        if skipped := len(rows) - len(filled):
            logger.info(f"{path}: blank lines skipped: {skipped:,}")
        rows = filled
    if not rows:
        raise InputError(f"{path} is empty; give a file with rows")
    if ending_of(path) != ".csv":
        check_unquoted(path, lines, rows)
    ends = (end for _, cells in rows for end, cell in enumerate(cells, 1) if cell.strip())
    width = max(chain([2], ends))
    return [(n, [cell.replace("\n", " ") for cell in cells[:width]]) for n, cells in rows]


def read_objects(path: Path, lines: Sequence[str]) -> list[Numbered]:
    """Read the fields of the object in each line; the first row contains their names.

    Fields of nested objects count as well, as in ``{"translation": {"de": ...}}``.

    Raises:
        InputError: a line is not an object, or its fields differ from the first line's.
    """
    rows: list[Numbered] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            content = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place}: not JSON ({error}); write one object per line") from error
        if not isinstance(content, dict):
            raise InputError(f'{place}: not an object; write one per line, {{"FIELD": ...}}')
        fields: dict[str, str] = {}
        for name, value in content.items():
            inner = value if isinstance(value, dict) else {name: value}
            fields |= {key: to_cell(each) for key, each in inner.items()}
        if not rows:
            rows.append((number, [*fields]))
        names = rows[0][1]
        if {*fields} != {*names}:
            differing = list_few(sorted({*fields} ^ {*names}))
            raise InputError(
                f"{place}: the fields differ from line {rows[0][0]} ({differing}); give all "
                "objects the same fields"
            )
        rows.append((number, [fields[name] for name in names]))
    if not rows:
        raise InputError(f"{path} is empty; give a file with one object per line")
    return rows


def to_cell(value: Any) -> str:
    """Convert a field to text; null becomes an empty text, and line breaks become spaces."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return re.sub(r"\r\n|[\r\n]", " ", text)


def find_separator(path: Path, lines: Sequence[str]) -> str:
    """Find the separator of the cells of a ``.csv``: the comma, semicolon or tab in its first line.

    Blank lines above it do not count.

    Raises:
        InputError: the line contains several of these separators outside quotes.
    """
    number, first = next((row for row in enumerate(lines, start=1) if row[1].strip()), (1, ""))
    outside = re.sub(r'"[^"]*("|$)', "", first)
    present = [name for name in SEPARATORS if SEPARATORS[name] in outside] or ["commas"]
    if len(present) > 1:
        raise InputError(
            f"{path}, line {number}: {' or '.join(present)} may separate the cells; begin the "
            "file with a header, such as class,text, or with the line sep=, or sep=;"
        )
    return SEPARATORS[present[0]]


def split_quoted(path: Path, lines: Iterable[str], separator: str) -> Iterator[Numbered]:
    """Yield the rows of a table with cells that may be quoted.

    Raises:
        InputError: quotes are not closed, or text follows them.
    """
    csv.field_size_limit(MAX_LINE_BYTES)
    ended = (line + "\n" for line in lines)
    table = csv.reader(ended, delimiter=separator, skipinitialspace=True, strict=True)
    number = 1
    try:
        for cells in table:
            yield number, cells or [""]
            number = table.line_num + 1
    except csv.Error as error:
        raise InputError(f"{path}, line {number}: {error}; correct the row's quotes") from error


def check_unquoted(path: Path, lines: Sequence[str], rows: Sequence[Numbered]) -> None:
    """Check that quotes belong to the text, and that no spreadsheet has put them around cells.

    Signs of a spreadsheet are doubled quotes in a quoted cell, a column of only quoted
    cells, and quotes around tabs or line breaks if all quotes in the table can be read this way.

    Raises:
        InputError: the table shows such a sign.
    """
    body = rows[1:] or rows
    signs = [n for n, cells in rows if any(QUOTED.fullmatch(c) and '""' in c[1:-1] for c in cells)]
    for column in range(len(rows[0][1])):
        if all(QUOTED.fullmatch("".join(cells[column : column + 1])) for _, cells in body):
            signs.append(body[0][0])
    with suppress(ValueError):
        as_quoted = list(split_quoted(path, lines, "\t"))
        signs += [number for number, cells in as_quoted if re.search("[\t\n]", "".join(cells))]
    if signs:
        raise InputError(
            f"{path}, line {min(signs)}: quoted as by a spreadsheet, but between tabs, quotes are "
            "text; name the file .csv, or remove the quotes"
        )
