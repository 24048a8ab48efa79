"""One-line errors that name the input at fault, the place in a plugin's code, and a remedy."""

import sysconfig
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

# Code outside these folders belongs to a plugin or to the user.
LIBRARIES = [
    *map(Path, sysconfig.get_paths().values()),
    *(Path(__file__).parents[1] / name for name in ("fairseq_odeformers", "odeformers")),
]
MEMORY_MESSAGES = ("out of memory", "can't allocate memory")


class InputError(ValueError):
    """An error raised for bad input; its one-line message names the input.

    Code that knows the fault but not the input raises a ValueError: a model rejects the value of an
    option, but does not know which checkpoint or command line it is from. :class:`naming_faults`
    adds the input.
    """


class ExpressionError(ValueError):
    """An error about the text of an option that fairseq evaluates; it does not name the option."""


def blames_input(error: BaseException) -> bool:
    """Return whether the message of an error tells the user how to correct the input.

    Such an error is an :class:`InputError`, an :class:`ExpressionError`, or an error of a model or
    of fairseq that begins with the name of an option.
    """
    is_about_option = isinstance(error, ValueError) and str(error).startswith("--")
    return is_about_option or isinstance(error, (InputError, ExpressionError))


class naming_faults:
    """Context manager that turns errors about an input into an :class:`InputError` with its name.

    Any error raised by a library is blamed on the input: damaged bytes may cause anything from a
    KeyError to a MemoryError. Errors that already name what is at fault pass unchanged: an
    InputError, or an error about a file or a missing library unless a plugin's code raised it.

    Args:
        name: the file, the option or the model.
        fault: the rest of the sentence after *name*; the text of :func:`explain` follows in
            parentheses.
    """

    def __init__(self, name: str | Path, fault: str = "cannot be read"):
        self.name, self.fault = name, fault

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (Exception, SystemExit)) and not is_complete(error):
            raise InputError(f"{self.name} {self.fault} ({explain(error)})") from error


def is_complete(error: BaseException) -> bool:
    """Return whether an error already names what is at fault, for :class:`naming_faults`."""
    if isinstance(error, SystemExit):
        return not isinstance(error.code, str)  # a status has no message to complete
    names_file = isinstance(error, OSError) and error.filename is not None
    if names_file or isinstance(error, (FileNotFoundError, ImportError)):
        return place_of(error) is None
    return isinstance(error, InputError)


def explain(error: BaseException) -> str:
    """Describe an error in one line, with its place in a plugin's code if it has one.

    If a library raised the error because the system refused to read or write, the system's error
    is described instead, since it says more.
    """
    place, cause = place_of(error), error
    while cause is not None and getattr(cause, "errno", None) is None:
        cause = cause.__context__
    error = cause or error
    lines = (line.strip() for line in str(error).split("\n"))
    text = next((line for line in lines if line and not line.endswith(":")), "")
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()[:200]
        text = ": ".join(filter(None, [error.msg, line]))  # str(error) repeats the place
    if any(words in text for words in MEMORY_MESSAGES):
        text = "out of memory; use smaller sizes or batches"
    if isinstance(error, AttributeError) and error.name:
        if suggestion := did_you_mean(error.name, dir(error.obj)):
            text = f"{text.rstrip('.')}; {suggestion}"
    if place or " " not in text:
        text = ": ".join(filter(None, [place, type(error).__name__, text]))
    return text


def place_of(error: BaseException) -> str | None:
    """Return the last file and line of a plugin's or a user's code in the traceback of an error.

    The function that handles the error is left out.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    for frame in reversed(traceback.extract_tb(error.__traceback__)[1:]):
        if is_of_plugin(frame.filename):
            return f"{frame.filename}, line {frame.lineno}"
    return None


def is_of_plugin(file: str) -> bool:
    """Return whether a Python file belongs to a plugin or a user, not to a library."""
    path = Path(file)
    return path.is_file() and not any(map(path.is_relative_to, LIBRARIES))


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return a suggestion for an unknown name, such as ``did you mean rk4?``.

    Args:
        name: the unknown name, possibly with leading hyphens.
        names: all known names, the likeliest first.
        otherwise: the remedy if no name is similar.
    """
    names, part = list(names), name.strip("-")
    longer = [other for other in names if part in other] if len(part) > 2 else []
    longer.sort(key=lambda other: not other.strip("-").startswith(part))
    matches = get_close_matches(name, names, 1, 0.9) or longer[:3]
    first = name.partition("_")[0]  # of an architecture: most often its family
    alike = [other for other in names if other.partition("_")[0] == first]
    matches = matches or get_close_matches(name, alike, cutoff=0.7)
    matches = matches or get_close_matches(name, names, cutoff=0.7)
    return f"did you mean {' or '.join(matches)}?" if matches else otherwise
