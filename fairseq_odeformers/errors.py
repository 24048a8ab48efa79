"""Errors in one line: the input at fault, the place in a plugin's code, and what was meant."""

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

# The folders of Python's libraries, and of the two packages of this distribution.
LIBRARIES = [
    *map(Path, sysconfig.get_paths().values()),
    *(Path(__file__).parents[1] / name for name in ("fairseq_odeformers", "odeformers")),
]
MEMORY_MESSAGES = ("out of memory", "can't allocate memory")


class InputError(ValueError):
    """The user's input is wrong. The message of one line names it and can be read on its own.

    Code that knows the fault but not the input raises a ValueError: a model refuses the value of an
    option, whichever checkpoint or command line has it. :class:`naming_faults` adds the input.
    """


class naming_faults:
    """Turn errors about an input into an :class:`InputError` of one line that names the input.

    Any error of a library counts as a fault of the input: damaged bytes may raise anything, from a
    KeyError to a MemoryError. Errors that name what is at fault pass unchanged: an InputError, and
    one about a file or a library unless it occurs in a plugin's code.

    Args:
        name: the file, the option or the model.
        fault: the statement about *name*; the error follows in brackets, see :func:`explain`.
    """

    def __init__(self, name: str | Path, fault: str = "cannot be read"):
        self.name, self.fault = name, fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Exception, SystemExit)) and not is_complete(error):
            raise InputError(f"{self.name} {self.fault} ({explain(error)})") from error


def is_complete(error: BaseException) -> bool:
    """Whether an error says what is at fault, and passes :class:`naming_faults`."""
    if isinstance(error, SystemExit):
        return not isinstance(error.code, str)  # a status, as after a signal, and no message
    named = isinstance(error, OSError) and error.filename is not None
    if named or isinstance(error, (FileNotFoundError, ImportError)):
        return place_of(error) is None
    return isinstance(error, InputError)


def explain(error: BaseException) -> str:
    """An error in one line, with its place in a plugin's code if it has one.

    A library may raise an error of its own where the system refuses to read or write; the system's
    error says more.
    """
    place, cause = place_of(error), error
    while cause is not None and getattr(cause, "errno", None) is None:
        cause = cause.__context__
    error = cause or error
    lines = (line.strip() for line in str(error).split("\n"))
    text = next((line for line in lines if line and not line.endswith(":")), "")
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()[:200]
        text = ": ".join(filter(None, [error.msg, line]))  # without the place
    if any(words in text for words in MEMORY_MESSAGES):
        text = "out of memory; give smaller sizes or batches"
    if isinstance(error, AttributeError) and error.name:
        if meant := did_you_mean(error.name, dir(error.obj)):
            text = f"{text.rstrip('.')}; {meant}"
    if place or " " not in text:
        text = ": ".join(filter(None, [place, type(error).__name__, text]))
    return text


def place_of(error: BaseException) -> str | None:
    """The last file and line in a plugin's or a user's code that an error passes through.

    The function that handles the error does not count.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)[1:]):
        if is_of_plugin(frame.filename):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def is_of_plugin(file: str) -> bool:
    """Whether a Python file belongs to a plugin or a user, not to a library."""
    path = Path(file)
    return path.is_file() and not any(map(path.is_relative_to, LIBRARIES))


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """The remedy for an unknown name: ask whether a similar or a longer one is meant.

    Args:
        names: the known names, the likeliest first.
        otherwise: the remedy if no name is similar.
    """
    names, part = list(names), name.strip("-")
    longer = [other for other in names if part in other] if len(part) > 2 else []
    longer.sort(key=lambda other: not other.strip("-").startswith(part))
    near = get_close_matches(name, names, 1, 0.9) or longer[:3]
    near = near or get_close_matches(name, names, cutoff=0.7)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
