"""Errors in one line: where they occur in a plugin's code, and what may be meant."""

import argparse
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

# The folders of Python's libraries, and of the two packages of this distribution.
LIBRARIES = [
    *map(Path, sysconfig.get_paths().values()),
    *(Path(__file__).parents[1] / name for name in ("fairseq_odeformers", "odeformers")),
]
WANT_OF_MEMORY = ("out of memory", "can't allocate memory")


@contextmanager
def blaming() -> Iterator[None]:
    """Have an error that passes through a plugin's code be one line that points into it.

    Raises:
        ValueError: such an error occurred.
    """
    try:
        yield
    except Exception as error:
        if place_of(error) is None:
            raise
        raise ValueError(describe(error)) from error


def describe(error: Exception) -> str:
    """An error in one line, with its place in a plugin if it has one."""
    message = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()[:200]
        message = ": ".join(filter(None, [error.msg, line]))  # and no place
    if any(text in message for text in WANT_OF_MEMORY):
        message = "out of memory; give smaller sizes or batches"
    if isinstance(error, AttributeError) and error.name:
        if meant := did_you_mean(error.name, dir(error.obj)):
            message = f"{message.rstrip('.')}; {meant}"
    kind = type(error).__name__
    told = f"{kind}: {message}" if message else kind
    place = place_of(error)
    return told if place is None else f"{place}: {told}"


def place_of(error: Exception) -> str | None:
    """The last file and line that an error passes through, and that is of no library.

    The package itself counts as a library.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_of_plugin(frame.filename):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def is_of_plugin(file: str) -> bool:
    """Whether a file of Python is of no library, and so of a plugin or a user."""
    path = Path(file)
    return path.is_file() and not any(map(path.is_relative_to, LIBRARIES))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question whether similar names are meant; "" if no name is similar."""
    known = list(known)
    near = get_close_matches(name, known, 1, 0.9) or get_close_matches(name, known, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else ""


def check_choice(action: argparse.Action, value: object) -> None:
    """Ask whether a choice like an unknown one is meant.

    Raises:
        ArgumentError: one is like it.
    """
    known = [*map(str, action.choices or ())]
    if str(value) not in known and (meant := did_you_mean(str(value), known)):
        raise argparse.ArgumentError(action, f"{value}: {meant}")
