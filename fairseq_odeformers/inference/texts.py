"""Texts of commands and loaders: their lines, and one rule for empty, long and unknown ones.

A text may be longer than a model takes, or have symbols that its dictionary does not have.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import count
from numbers import Integral
from pathlib import Path
from typing import Any, TypeVar

import torch
from fairseq.data import Dictionary
from torch import Tensor

from fairseq_odeformers.files import decode_lines, read_lines, replacing

logger = logging.getLogger(__name__)
WARNED: set[str] = set()  # warnings that were printed
SHOWN = 40  # letters of a text in a message

Result = TypeVar("Result")


class TooLong(ValueError):
    """A text has more tokens than the model has positions, and is not truncated.

    Attributes:
        fault: the message without the remedy, ``--truncate`` in commands.
    """

    def __init__(self, fault: str, remedy: str):
        super().__init__(f"{fault}; {remedy}")
        self.fault = fault


def check_is_file(source: str) -> None:
    """Check that ``--text`` is a file, or ``-`` for standard input.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if source != "-" and (not os.path.exists(source) or os.path.isdir(source)):
        fault = "a folder" if os.path.isdir(source) else "no such file"
        raise FileNotFoundError(f"--text {source}: {fault}; give a file with a text per line")


def read_texts(source: str) -> tuple[str, list[str]]:
    """The lines of the file of ``--text``, or of standard input for ``-``; its name in messages.

    Raises:
        FileNotFoundError: see :func:`check_is_file`.
        ValueError: the file is a table, by its name.
    """
    check_is_file(source)
    if source == "-":
        name = "standard input"
        lines = decode_lines(sys.stdin.buffer, name)
    elif is_table(source) and Path(source).suffix != ".tsv":  # a .tsv file may have plain lines
        raise ValueError(f"--text {source}: a table; save the column of texts, a text per line")
    else:
        name, lines = source, read_lines(Path(source))
    return name, [line.rstrip("\r") for line in lines]


def is_table(path: str) -> bool:
    """Whether a file has the name of a table, compressed or not."""
    return not {".csv", ".tsv", ".jsonl"}.isdisjoint(map(str.lower, Path(path).suffixes[-2:]))


def encode_lines(
    encode: Callable[[str, str], Result],
    texts: list[str],
    name: str,
    numbers: Sequence[int] | None = None,
) -> list[Result | None]:
    """The result of *encode* for each line and its place; None, with a warning, if it is too long.

    Args:
        name: the file of the lines, in messages.
        numbers: line numbers of the texts (default: from 1 on).

    Raises:
        ValueError: *encode* refuses a line for another reason; the message names the line.
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
            raise ValueError(f"{place}: {error}") from error
    return results


def apply_to_texts(
    function: Callable[[list[str]], Sequence[Result]],
    texts: str | Iterable[str],
    make_empty: Callable[[], Result],
) -> Any:
    """Apply a function to a text, or to each of several; a text of spaces has an empty result.

    Args:
        function: from several texts to their results.
        make_empty: makes the result of a text of spaces.

    Returns:
        A result, or a list of them.

    Raises:
        TypeError: see :func:`check_texts`.
    """
    if isinstance(texts, str):
        return apply_to_texts(function, [texts], make_empty)[0]
    texts = check_texts(texts)
    words = [text for text in texts if text.strip()]
    results = iter(function(words) if words else [])
    return [next(results) if text.strip() else make_empty() for text in texts]


def check_texts(texts: Any) -> list[str]:
    """The texts of any collection, in its order.

    Raises:
        TypeError: see :func:`check_sequence` and :func:`check_text`.
    """
    return [*map(check_text, check_sequence(texts))]


def check_sequence(texts: Any) -> list:
    """The items of a list, an array, a column of a table (a Series) or another iterable.

    Raises:
        TypeError: the texts have no order, as in a set; or the names of columns would be taken for
            texts, as in a dictionary or a DataFrame.
    """
    columns = texts if isinstance(texts, Mapping) else getattr(texts, "columns", None)
    if columns is not None:
        one = next((f", such as texts[{name!r}]" for name in columns if has_text(texts[name])), "")
        names = ", ".join(map(repr, [*columns][:8]))
        raise TypeError(
            f"a {type(texts).__name__} of {names}: give the texts of one of its columns{one}"
        )
    single = isinstance(texts, (bytes, Set)) or getattr(texts, "ndim", 1) == 0  # an array of one
    if single or not isinstance(texts, Iterable):
        raise TypeError(f"{cut(repr(texts))}: give a text or a sequence of texts")
    return [*texts]


def has_text(column: Any) -> bool:
    """Whether a column of a table begins with a string."""
    return isinstance(column, Iterable) and isinstance(next(iter(column), None), str)


def check_text(text: Any) -> str:
    """The same text.

    Raises:
        TypeError: the text is not a string.
        ValueError: a part of it is no character, as what ``surrogateescape`` makes of wrong bytes.
    """
    if not isinstance(text, str):
        raise TypeError(f"{cut(repr(text))}: give a text or a sequence of texts")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        part = text[error.start : error.end]
        remedy = "decode the text with its encoding, or with errors='replace'"
        raise ValueError(f"{cut(repr(text))}: {part!r} is no character; {remedy}") from error
    return text


def check_whole(name: str, value: Any) -> None:
    """Check an argument that is a number of things.

    Raises:
        ValueError: the value is not a whole number from 1.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} {value!r}: give a whole number from 1")


def allows_truncation(cfg) -> bool:
    """Whether a task truncates the long texts of its data set, by its options."""
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
) -> Tensor:
    """Tokens (T); if there are more than *longest*, the first of them and the last *ending*.

    Args:
        cfg: options of the task, which may allow truncation.
        always: truncate whatever they say, and warn of the first text.
        place: name of the text in this warning.

    Raises:
        TooLong: there are more, but truncation is not allowed.
    """
    if len(tokens) <= longest:
        return tokens
    if not (always or allows_truncation(cfg)):
        option = "truncate_source=True" if "truncate_source" in cfg else "shorten_method='truncate'"
        raise TooLong(
            f"{dictionary.string(tokens[:SHOWN])[:SHOWN]!r}... has {len(tokens)} tokens, more than "
            f"{longest}, the longest that the model takes",
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
    """Warn of symbols that the dictionary does not have.

    Per dictionary, it reports the first text with some of them, and the first with only them.

    Args:
        parts: each symbol's part of the text, if they are at hand.
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
        shown = f" (unknown: {' '.join(words)})" if unknown else ""
        logger.warning(
            f"{place}: the model knows {known or 'none'} of the {len(symbols)} symbols; "
            f"{advice}{shown}"
        )


def cut(text: str) -> str:
    """What a message shows of a text: its beginning."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."


def write_table(rows: Iterable[Sequence[str]], path: Path | None) -> None:
    """Write or print a table, tab-separated; warn of characters that will be printed escaped."""
    table = "".join("\t".join(row) + "\n" for row in rows)
    if path is None:
        encoding = sys.stdout.encoding or "utf-8"
        try:
            table.encode(encoding)
        except UnicodeEncodeError as error:
            shown = ascii(table[error.start])
            print(
                f"standard output is in {encoding}, where some characters are escaped, the first "
                f"as {shown}; give --output FILE, or set PYTHONIOENCODING=utf-8",
                file=sys.stderr,
            )
        return print(table, end="")
    with replacing(path) as temporary:
        temporary.write_text(table, encoding="utf-8")
    print(f"wrote {path}")
