"""Read and check texts, with the same rules for all commands and loaders.

The rules concern empty texts, texts that are longer than a model accepts, and texts with symbols
that the dictionary lacks.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import count
from numbers import Integral, Number
from pathlib import Path
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import FORMATS, decode_lines, read_lines, replacing

logger = logging.getLogger(__name__)
WARNED: set[str] = set()  # warnings that have been printed
EXCERPT_LENGTH = 40  # number of characters of a text that messages show

Item = TypeVar("Item")
Result = TypeVar("Result")


class TooLong(ValueError):
    """An error raised for a text with more tokens than the model has positions.

    Attributes:
        fault: the message without its remedy; commands have a different one, ``--truncate``.
    """

    def __init__(self, fault: str, remedy: str):
        super().__init__(f"{fault}; {remedy}")
        self.fault = fault


def check_is_file(source: str) -> None:
    """Check that ``--text`` is a file of text, or ``-`` for standard input.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: by its name, the file has a different format, such as a spreadsheet's.
    """
    if source != "-" and (not os.path.exists(source) or os.path.isdir(source)):
        fault = "a folder" if os.path.isdir(source) else "no such file"
        raise FileNotFoundError(f"--text {source}: {fault}; give a file with one text per line")
    if fault := FORMATS.get(Path(source).suffix.lower()):
        raise InputError(f"--text {source}: {fault}")


def read_texts(source: str) -> tuple[str, list[str]]:
    """Read the lines of ``--text``, a file or ``-`` for standard input.

    Returns:
        The name of the file in messages, and its lines.

    Raises:
        FileNotFoundError: see :func:`check_is_file`.
        InputError: see :func:`check_is_file`; or by its name, the file is a table; or standard
            input is closed.
    """
    check_is_file(source)
    if source == "-":
        name = "standard input"
        if sys.stdin is None:  # the command was started with <&-
            raise InputError("standard input is closed; give --text FILE")
        lines = decode_lines(sys.stdin.buffer, name)
    elif is_table(source) and Path(source).suffix != ".tsv":  # a .tsv file may hold plain lines
        raise InputError(f"--text {source}: a table; save its column of texts, one text per line")
    else:
        name, lines = source, read_lines(Path(source))
    return name, [line.rstrip("\r") for line in lines]


def is_table(path: str) -> bool:
    """Return whether a file, compressed or not, is a table by its name."""
    return not {".csv", ".tsv", ".jsonl"}.isdisjoint(map(str.lower, Path(path).suffixes[-2:]))


def encode_lines(
    encode: Callable[[Item, str], Result],
    texts: Sequence[Item],
    name: str,
    numbers: Sequence[int] | None = None,
) -> list[Result | None]:
    """Call *encode* with each text, or row of texts, and its place.

    Args:
        name: name of the file in messages.
        numbers: line numbers of the texts (default: 1, 2, ...).

    Returns:
        The results; the result of a text that is too long is None, and a warning reports the text.

    Raises:
        InputError: *encode* rejects a text for another reason; the message names the line.
    """
    results = []
    for number, text in zip(numbers or count(1), texts):
        place = f"{name}, line {number}"
        try:
            results.append(encode(text, place))
        except TooLong as error:
            print(f"{place}: {error.fault}; shorten it, or use --truncate", file=sys.stderr)
            results.append(None)
        except ValueError as error:
            raise InputError(f"{place}: {error}") from error
    return results


def apply_to_texts(
    function: Callable[[list[str]], Sequence[Result]],
    texts: str | Iterable[str],
    make_empty: Callable[[], Result],
) -> Any:
    """Apply a function to one text or to several texts.

    Args:
        function: maps several texts to their results.
        make_empty: makes the empty result of a text of spaces.

    Returns:
        The result of a text, or a list of the results of several texts.

    Raises:
        TypeError: see :func:`check_texts`.
    """
    if isinstance(texts, str):
        return apply_to_texts(function, [texts], make_empty)[0]
    texts = check_texts(texts)
    words = [text for text in texts if text.strip()]
    results = iter(function(words) if words else [])
    return [next(results) if text.strip() else make_empty() for text in texts]


def check_texts(texts: Any, pairs: bool = False) -> list:
    """Check the texts of any collection and return them in its order.

    Args:
        pairs: whether an item may also be a sequence of texts, such as a pair; it becomes a list.

    Raises:
        TypeError: see :func:`check_sequence`; or an item is not a text, such as a missing value.
        InputError: see :func:`check_text`.
    """
    items = check_sequence(texts)
    if pairs:
        items = [check_sequence(item) if is_sequence(item) else item for item in items]
    for number, item in enumerate(items, start=1):
        for part in item if pairs and isinstance(item, list) else [item]:
            check_text(part, f"text {number} of {len(items)}: ")
    return items


def check_sequence(texts: Any) -> list:
    """Return the items of a list, an array, a column of a table (a Series) or another iterable.

    Raises:
        TypeError: the texts have no order, as in a set; or iteration would yield the names of
            columns, as with a dictionary or a DataFrame.
    """
    columns = texts if isinstance(texts, Mapping) else getattr(texts, "columns", None)
    if columns is not None:
        example = (f", such as texts[{name!r}]" for name in columns if has_text(texts[name]))
        names = ", ".join(map(repr, [*columns][:8]))
        raise TypeError(
            f"a {type(texts).__name__} of {names}: give the texts of one of its columns"
            f"{next(example, '')}"
        )
    if not is_sequence(texts):
        raise TypeError(f"{cut(repr(texts))}: give a text or a sequence of texts")
    return [*texts]


def is_sequence(texts: Any) -> bool:
    """Return whether an object may contain texts, and in an order."""
    single = isinstance(texts, (str, bytes, Set)) or getattr(texts, "ndim", 1) == 0  # a 0-d array
    return isinstance(texts, Iterable) and not single


def has_text(column: Any) -> bool:
    """Return whether a column of a table begins with a string."""
    return isinstance(column, Iterable) and isinstance(next(iter(column), None), str)


def check_text(text: Any, place: str = "") -> str:
    """Check a text and return it.

    Args:
        place: prefix of the error message.

    Raises:
        TypeError: the text is not a string.
        InputError: the text contains surrogates, such as from ``surrogateescape`` for invalid
            bytes.
    """
    if not isinstance(text, str):
        remedy = 'fill or drop missing values, as a Series by fillna("") or dropna()'
        if isinstance(text, Iterable) or (isinstance(text, Number) and text == text):
            remedy = "pass a str"  # a missing number is nan
        raise TypeError(f"{place}{cut(repr(text))} is not a string; {remedy}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        part = text[error.start : error.end]
        remedy = "decode the text with its encoding, or with errors='replace'"
        raise InputError(
            f"{cut(repr(text))}: {part!r} is not a valid character; {remedy}"
        ) from error
    return text


def check_whole(name: str, value: Any) -> None:
    """Check an argument that counts something.

    Raises:
        InputError: the value is not a positive integer.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name} {value!r}: give a whole number from 1")


def allows_truncation(cfg) -> bool:
    """Return whether the options of a task let it truncate the long texts of its data set."""
    shorten = getattr(cfg, "shorten_method", "none")
    return shorten != "none" or getattr(cfg, "truncate_source", False)


def truncate(
    tokens: Tensor,
    longest: int,
    cfg,
    dictionary: Dictionary,
    ending: int = 0,
    always: bool = False,
    place: str = "a text",
    limit: str = "the longest that the model takes",
) -> Tensor:
    """Truncate tokens (T) to *longest*: keep the first tokens and the last *ending*.

    Args:
        cfg: options of the task; they may allow truncation.
        always: truncate even if the options do not allow it, and warn about the first text.
        place: name of the text in this warning.
        limit: description of *longest* in messages.

    Raises:
        TooLong: there are more tokens than *longest*, but truncation is not allowed.
    """
    if len(tokens) <= longest:
        return tokens
    if not (always or allows_truncation(cfg)):
        option = "truncate_source=True" if "truncate_source" in cfg else "shorten_method='truncate'"
        excerpt = dictionary.string(tokens[:EXCERPT_LENGTH])[:EXCERPT_LENGTH]
        raise TooLong(
            f"{excerpt!r}... has {len(tokens)} tokens, more than {longest}, {limit}",
            f"shorten it, or load the model with {option}",
        )
    if not allows_truncation(cfg) and (key := f"more than {longest} tokens") not in WARNED:
        WARNED.add(key)
        logger.warning(
            f"{place} has {len(tokens):,} tokens, and the model takes {longest:,}: the others are "
            "left out; later texts are not reported"
        )
    return torch.cat([tokens[: longest - ending], tokens[len(tokens) - ending :]])


def warn_of_unknown(
    dictionary: Dictionary, symbols: Sequence[int] | Tensor, place: str, parts: Sequence[str] = ()
) -> None:
    """Warn about symbols that the dictionary lacks.

    For each dictionary, one warning reports the first text that contains unknown symbols, and one
    reports the first text that consists only of unknown symbols.

    Args:
        parts: each symbol's part of the text, if known.
    """
    known = sum(int(symbol != dictionary.unk()) for symbol in symbols)
    unknown = [part for symbol, part in zip(symbols, parts) if symbol == dictionary.unk()]
    first = " ".join(dictionary.symbols[dictionary.nspecial :][:8])
    advice = "later texts are not reported"
    if not known:
        advice = "the result is meaningless, so give text like the data set's"
    if known < len(symbols) and (key := f"{advice} {first}") not in WARNED:
        WARNED.add(key)
        words = (cut(word) for word in [*dict.fromkeys(unknown)][:8])
        examples = f" (unknown: {' '.join(words)})" if unknown else ""
        logger.warning(
            f"{place}: the model knows {known or 'none'} of the {len(symbols)} symbols; "
            f"{advice}{examples}"
        )


def cut(text: str) -> str:
    """Truncate a text to the beginning that a message shows."""
    return text if len(text) <= EXCERPT_LENGTH else f"{text[:EXCERPT_LENGTH]}..."


def write_table(rows: Iterable[Sequence[str]], path: Path | None) -> None:
    """Write or print a tab-separated table; warn about characters that will be printed escaped."""
    table = "".join("\t".join(row) + "\n" for row in rows)
    if path is None:
        encoding = sys.stdout.encoding or "utf-8"
        try:
            table.encode(encoding)
        except UnicodeEncodeError as error:
            escaped = ascii(table[error.start])
            print(
                f"standard output is in {encoding}, where some characters are escaped, the first "
                f"as {escaped}; give --output FILE, or set PYTHONIOENCODING=utf-8",
                file=sys.stderr,
            )
        return print(table, end="")
    with replacing(path) as temporary:
        temporary.write_text(table, encoding="utf-8")
    print(f"wrote {path}")
