"""Errors in one line: their place in a plugin's code, and suggestions for misspelt names."""

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
    """Turn an error from a plugin's code into one line that points into this code.

    Raises:
        ValueError: the block raised an error that passes through a plugin's code.
    """
    try:
        yield
    except Exception as error:
        if place_of(error) is None:
            raise
        raise ValueError(describe(error)) from error


def describe(error: Exception) -> str:
    """Describe an error in one line, with its place in a plugin's code if it has one."""
    message = next(iter(str(error).strip().splitlines()), "")
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()[:200]
        message = ": ".join(filter(None, [error.msg, line]))  # without the place
    if any(text in message for text in WANT_OF_MEMORY):
        message = "out of memory; give smaller sizes or batches"
    if isinstance(error, AttributeError) and error.name:
        if meant := did_you_mean(error.name, dir(error.obj)):
            message = f"{message.rstrip('.')}; {meant}"
    kind = type(error).__name__
    description = f"{kind}: {message}" if message else kind
    place = place_of(error)
    return description if place is None else f"{place}: {description}"


def place_of(error: Exception) -> str | None:
    """The last file and line outside of libraries that an error passes through.

    This package itself counts as a library.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_of_plugin(frame.filename):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def is_of_plugin(file: str) -> bool:
    """Whether a Python file belongs to a plugin or a user, not to a library."""
    path = Path(file)
    return path.is_file() and not any(map(path.is_relative_to, LIBRARIES))


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Ask whether a similar one of *names* is meant; "" if no name is similar."""
    names = list(names)
    near = get_close_matches(name, names, 1, 0.9) or get_close_matches(name, names, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else ""


def check_choice(action: argparse.Action, value: object) -> None:
    """Suggest similar choices for an unknown one.

    Raises:
        ArgumentError: *value* is not a choice, but similar to one.
    """
    choices = [*map(str, action.choices or ())]
    if str(value) not in choices and (meant := did_you_mean(str(value), choices)):
        raise argparse.ArgumentError(action, f"{value}: {meant}")
