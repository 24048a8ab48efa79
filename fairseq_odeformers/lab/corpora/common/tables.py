"""Your tables of labelled texts or of pairs: tab-separated, or a ``.csv``.

How a table is read is decided once, by all of its lines: what separates its cells, whether a
spreadsheet has quoted them, and whether the first row is a header, which names the columns.
"""

import csv
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from unicodedata import normalize

from fairseq_odeformers.data.classification import is_class_name
from fairseq_odeformers.files import LONGEST_LINE, is_blank

from .checks import list_few
from .corpus import Files, read_text, strip_compression

logger = logging.getLogger(__name__)

Names = Mapping[str, Collection[str]]  # of each column, the words that a header may call it by
Row = tuple[int, list[str]]  # the number of its first line, and its cells
Text = tuple[str | None, str]  # class and text; a test set may be without classes
Pair = tuple[str, str]

LABELLED: Names = {
    "class": ("label", "class", "category", "sentiment", "topic", "target", "rating"),
    "text": ("text", "sentence", "review", "comment", "content", "message", "document"),
}
KEYS = ("id", "idx", "index")  # what a header may call a column besides
SIDES: Names = {
    "source": ("source", "src", "original", "input"),
    "target": ("target", "tgt", "trg", "translation", "output"),
}
LANGUAGES = {  # their names in headers, by their codes
    **{"en": ("english", "englisch"), "de": ("german", "deutsch"), "fr": ("french", "français")},
    **{"es": ("spanish", "español"), "it": ("italian", "italiano"), "nl": ("dutch", "nederlands")},
    **{"pt": ("portuguese", "português"), "ru": ("russian", "русский")},
}
CODES = "ar bg cs da el et fi he hi hr hu id ja ko lt lv nb no pl ro sk sl sr sv th tr uk vi zh"
# What the headers of pairs may say besides.
BESIDE = {"text", "sentence", "language", *LANGUAGES, *CODES.split(), *chain(*LANGUAGES.values())}

SEPARATORS = ",;\t"  # of a .csv, by the language of the spreadsheet
# Quoted cells that have a quotation mark, or a tab.
DOUBLED = re.compile(r'(?:^|\t)"(?:[^"]|"")*""(?:[^"]|"")*"(?=\t|$)')
TAB_WITHIN = re.compile(r'(?:^|\t)"(?:[^"]|"")*\t')


def is_table(path: Path) -> bool:
    """Whether a path leads to a table, by its name, and not to a folder or an archive."""
    ending = Path(strip_compression(path.name)).suffix.lower()
    return path.is_file() and ending in (".tsv", ".csv", ".txt")


def is_csv(path: Path) -> bool:
    """Whether a table is a ``.csv``, by its name."""
    return strip_compression(path.name).lower().endswith(".csv")


def show_row(path: Path, *columns: str) -> str:
    """How a table's row is to be written, for messages."""
    return ("," if is_csv(path) else "<tab>").join(columns)


def read_plain(path: Path) -> Iterator[Row]:
    """The rows of a published table: the cells of each line, between tabs, whatever they are."""
    for number, line in enumerate(read_text(path), start=1):
        yield number, line.split("\t")


def read_labelled(files: Files) -> dict[str, list[Text]]:
    """The texts of each split, from one table each: ``train``, ``test`` and perhaps ``valid``.

    Raises:
        ValueError: a split has two tables; see :func:`read_texts`; or the tables begin with the
            same row, and no other training text has its class.
    """
    splits: dict[str, list[Text]] = {}
    classes: Counter[str | None] = Counter()  # of the training texts
    for name, path in files.items():
        split = name.partition(".")[0]
        if split in splits:
            raise ValueError(f"{path.parent} has {split}.csv and {split}.tsv; keep one")
        splits[split] = read_texts(path, classes)
        classes = classes or Counter(label for label, text in splits[split] if not is_blank(text))
    first = splits["train"][0]
    if classes[first[0]] == 1 and all(texts[0] == first for texts in splits.values()):
        raise ValueError(
            f"{next(iter(files.values()))}, line 1: {first[0]!r} looks like a header; remove it in "
            "each file, or name its columns class and text"
        )
    return splits


def read_texts(path: Path, classes: Collection[str | None] = ()) -> list[Text]:
    """The rows of a table of classes and texts; a test set may have texts alone.

    In plain lines, what follows the first tab is text.

    Args:
        classes: of the training texts, which others may have as well; any if there are none.

    Raises:
        ValueError: a line is not such a row, or has another class.
    """
    is_test = strip_compression(path.name) in ("test.tsv", "test.csv")
    rows = read_table(path, LABELLED, ["class"] if is_test else [], KEYS)
    layout = show_row(path, "CLASS", "TEXT")
    if not rows:
        raise ValueError(f"{path}: there are no lines; give {layout}")
    if is_test and all(len(cells) == 1 for _, cells in rows):
        return [(None, text) for _, [text] in rows]
    texts: list[Text] = []
    for number, (label, *parts) in rows:
        place, label = f"{path}, line {number}", normalize("NFC", label.strip())
        if not (label and parts):
            line = "\t".join([label, *parts])
            raise ValueError(f"{place}: {line[:40]!r} is not a class and text; give {layout}")
        if len(parts) > 1 and is_csv(path):
            raise ValueError(f"{place}: {len(parts) + 1} columns; put a text with commas in quotes")
        if not is_class_name(label):
            raise ValueError(f"{place}: no class can be called {label!r}")
        if classes and label not in classes:
            known = list_few(sorted(name[:40] for name in classes if name))
            raise ValueError(
                f"{place}: {label[:40]} is not one of {known}; correct the line, {layout}, "
                "or add training texts of it"
            )
        texts.append((label, "\t".join(parts)))
    return texts


def read_pairs(path: Path, langs: Sequence[str]) -> list[Pair]:
    """The rows of a table of sentences and their translations, in this order.

    Raises:
        ValueError: a line is not such a row, or there is none.
    """
    pairs, layout = [], show_row(path, "source", "target")
    for number, cells in read_table(path, name_sides(langs), others=BESIDE):
        if len(cells) != 2:
            raise ValueError(f"{path}, line {number}: give two columns, {layout}, not {len(cells)}")
        pairs.append((cells[0], cells[1]))
    if not pairs:
        raise ValueError(f"{path} is empty; give a pair per line, {layout}")
    return pairs


def name_sides(langs: Sequence[str]) -> Names:
    """The words that headers may call the two sides of pairs by, also for their languages."""
    own = [{*find_words(lang), *LANGUAGES.get(lang.casefold()[:2], ())} for lang in langs]
    return {side: {*SIDES[side], *(own[n] - own[1 - n])} for n, side in enumerate(SIDES)}


def find_words(cell: str) -> set[str]:
    """The words of a header's cell, but for regions of languages, as in ``de-AT``."""
    name = re.sub(r"\b([a-z]{2})[-_][a-z]{2}\b", r"\1", cell.casefold())
    return {*re.findall(r"[^\W_]+", name)}


def find_columns(
    place: str,
    cells: Sequence[str],
    names: Names,
    optional: Collection[str] = (),
    others: Collection[str] = (),
) -> list[int]:
    """The places of the columns *names* if the cells are a header; otherwise none.

    A header names each of them once, or else it has nothing but names.

    Args:
        place: of the header, in messages.
        optional: what it need not name.
        others: further words that may be in a header.

    Raises:
        ValueError: it does not tell the columns apart.
    """
    known = {*others, *chain(*names.values())}
    words = [find_words(cell) for cell in cells]
    nothing_else = all(own <= known for own in words)
    found: dict[str, list[int]] = {}
    for name in names:
        called = {*names[name]}
        found[name] = [n for n, own in enumerate(words) if own & called and own <= known]
        if nothing_else and name in optional and not found[name]:
            del found[name]
    places = [*chain(*found.values())]
    if places and all(map(len, found.values())) and len({*places}) == len(found) == len(places):
        logger.info(f"{place} is a header: {', '.join(cells)}")
        return places
    if nothing_else and any(words) and len({*map(str.casefold, cells)}) == len(cells):
        raise ValueError(
            f"{place}: the header {', '.join(cells)} does not tell the columns apart; call them "
            f"{' and '.join(names)}"
        )
    return []


def read_table(
    path: Path, names: Names, optional: Collection[str] = (), others: Collection[str] = ()
) -> list[Row]:
    """The rows of a table, without its header.

    Below a header, the cells are in the order of *names*, without those of further columns;
    otherwise they are as they come. Line breaks in cells become spaces. Blank columns and rows at
    the ends of a table are left out.

    Args:
        names, optional, others: see :func:`find_columns`.

    Raises:
        ValueError: the quotes or the columns of a line are wrong, or the header is unclear.
    """
    rows = split_rows(path)
    if any(len(cells) > 1 for _, cells in rows):
        while rows and not any(map(str.strip, rows[-1][1])):
            rows.pop()
    ends = (end for _, cells in rows for end, cell in enumerate(cells, 1) if cell.strip())
    width = max(ends, default=0)
    rows = [(number, cells[: max(width, 2)]) for number, cells in rows]
    if not rows:
        return []
    number, header = rows[0]
    columns = find_columns(f"{path}, line {number}", header, names, optional, others)
    return [*choose_columns(path, rows[1:], columns, len(header))] if columns else rows


def choose_columns(
    path: Path, rows: Iterable[Row], columns: Sequence[int], width: int
) -> Iterator[Row]:
    """The rows with some of their columns; cells beyond the header follow its last one.

    Args:
        width: of the header.
    """
    for number, cells in rows:
        beyond = cells[width:]
        if len(cells) <= max(columns) or beyond and columns[-1] < width - 1:
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns, where the header has {width}; "
                "correct the line, or put its cells in quotes"
            )
        yield number, [*(cells[column] for column in columns), *beyond]


def split_rows(path: Path) -> list[Row]:
    """The rows of a table and their cells, whose quotes are left out if a spreadsheet wrote them.

    Raises:
        ValueError: some cells of a table are quoted, others have quotation marks that are not.
    """
    lines = [line.replace("\r", " ") for line in read_text(path)]
    if is_csv(path):
        if lines and (given := re.fullmatch(r'"?sep=(.)"?\W*', lines[0])):  # a line of Excel's own
            return [(n + 1, row) for n, row in split_quoted(path, lines[1:], given[1])]
        return split_quoted(path, lines, find_separator(path, lines))
    if is_quoted(path, lines):
        return split_quoted(path, lines, "\t")
    return [(number, line.split("\t")) for number, line in enumerate(lines, start=1)]


def split_quoted(path: Path, lines: Iterable[str], separator: str) -> list[Row]:
    """The rows of a table whose cells may be quoted, as a spreadsheet does."""
    csv.field_size_limit(LONGEST_LINE)
    table = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=True)
    rows, number = [], 1
    try:
        for cells in table:
            rows.append((number, [cell.replace("\n", " ") for cell in cells] or [""]))
            number = table.line_num + 1
    except csv.Error as error:
        raise ValueError(f"{path}, line {number}: {error}; correct the row's quotes") from error
    return rows


def find_separator(path: Path, lines: Sequence[str]) -> str:
    """What separates the columns of a ``.csv``: all of its rows have as many, two or more.

    Where several do, one column has the fewest different cells, such as classes.
    """
    fewest = {}
    for separator in SEPARATORS:
        with suppress(ValueError):
            rows = [cells for _, cells in split_quoted(path, lines, separator) if any(cells)]
            clean = all(is_clean(row, separator) for _, row in join_rows(lines))
            if clean and len({*map(len, rows)}) == 1 < len(rows[0]):
                fewest[separator] = min(len({*column}) for column in zip(*rows))
    chosen = min(fewest, key=lambda separator: fewest[separator], default=SEPARATORS[0])
    if chosen != SEPARATORS[0]:
        logger.info(f"{path}: columns are separated by {chosen!r}")
    return chosen


def join_rows(lines: Sequence[str]) -> Iterator[Row]:
    """The lines of each row, if all quotation marks are a spreadsheet's: an even number of them."""
    first, row, is_open = 1, [], False
    for number, line in enumerate(lines, start=1):
        row.append(line)
        is_open ^= line.count('"') % 2
        if not is_open or number == len(lines):
            yield first, row
            first, row = number + 1, []


def is_clean(row: Sequence[str], separator: str) -> bool:
    """Whether a row is as a spreadsheet writes it, with quoted cells where they have a mark."""
    cell = rf'(?:"(?:[^"]|"")*"|[^"{separator}\n]*)'
    text = "\n".join(row)
    return '"' not in text or bool(re.fullmatch(f"{cell}(?:{separator}{cell})*", text))


def is_quoted(path: Path, lines: Sequence[str]) -> bool:
    """Whether a spreadsheet has quoted cells of a tab-separated table.

    Raises:
        ValueError: it has quoted some, with doubled quotation marks, and others have single ones.
    """
    rows = [(number, row) for number, row in join_rows(lines) if any(row)]
    marked = next((number for number, row in rows if '"' in "".join(row)), 0)
    single = next((number for number, row in rows if not is_clean(row, "\t")), 0)
    alone = (number for number, line in enumerate(lines, 1) if is_clean([line], "\t"))
    doubled = next((number for number in alone if DOUBLED.search(lines[number - 1])), 0)
    if single and doubled:
        raise ValueError(
            f"{path}, line {single}: a quotation mark that is not doubled, or opens a cell without "
            f"end, while line {doubled} is quoted as by a spreadsheet; correct the line, or save "
            "the table without quoting"
        )
    if quoted := not single and is_spreadsheet([row for _, row in rows]):
        logger.info(f"{path}: quoted as by a spreadsheet, and read accordingly")
    elif marked:
        logger.info(f"{path}: quotation marks, such as in line {single or marked}, are text")
    return quoted


def is_spreadsheet(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the quotes of clean rows are not text: one has to be there, or a column has them all.

    A cell needs them for a quotation mark, a tab, or a line break. But a line with a tab may be a
    row itself, and its marks single ones of two texts.
    """
    several = [row for row in rows if len(row) > 1]
    if any("\t" not in line for row in several for line in row[1:]):
        return all("\t" in "".join(row) for row in rows)
    if any(DOUBLED.search("\n".join(row)) for row in rows):
        return True
    if any(TAB_WITHIN.search(row[0]) for row in rows if len(row) == 1):
        return True
    first, last = (row[0].startswith('"') for row in rows), (row[-1].endswith('"') for row in rows)
    return len(several) < len(rows) and (all(first) or all(last))
