"""Types of command-line arguments, and options that several commands share."""

import os
import tempfile
from argparse import Action, ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_odeformers.options import LARGEST
from fairseq_odeformers.registry import import_plugins

MOST_WORKERS = 1024  # maximum number of processes that a command starts


def integer(text: str, least: int = 0, most: int = LARGEST) -> int:
    """Parse a whole number from *least* to *most*, as the ``type`` of an argument."""
    if not text.isdecimal() or not least <= float(text) <= most:
        raise ArgumentTypeError(f"{text}: give a whole number from {least} to {most:,}")
    return int(text)


def real_number(text: str) -> float:
    """Parse a number, as the ``type`` of an argument."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentTypeError(f"{text}: give a number") from None


def non_negative(text: str) -> float:
    """Parse a finite number of 0 or more, as the ``type`` of an argument."""
    if not 0 <= (number := real_number(text)) < float("inf"):
        raise ArgumentTypeError(f"{text}: give a number from 0 on")
    return number


def output_path(text: str) -> Path:
    """Parse the path of a file or folder to write, in an existing folder."""
    if not Path(text).absolute().parent.is_dir():
        raise ArgumentTypeError(f"{text}: there is no folder {Path(text).parent}; make it first")
    check_writable(text, Path(text).absolute().parent)
    return Path(text)


def output_file(text: str) -> Path:
    """Parse the path of a file to write, in an existing folder."""
    if Path(text).is_dir():
        raise ArgumentTypeError(f"{text}: is a folder; give a file, such as {Path(text, 'out')}")
    return output_path(text)


def output_folder(text: str) -> Path:
    """Parse the path of a folder to write to; it need not exist."""
    for path in (Path(text), *Path(text).parents):
        if path.exists() and not path.is_dir():
            parent = "" if path == Path(text) else f"{path} "
            raise ArgumentTypeError(f"{text}: {parent}is a file; give a folder")
    folders = (Path(text).absolute(), *Path(text).absolute().parents)
    check_writable(text, next(filter(Path.is_dir, folders)))
    return Path(text)


def check_writable(text: str, folder: Path) -> None:
    """Check that a result can be written, by creating a folder in *folder*, before long work.

    Permissions are not enough, for example in /proc. The new folder is removed, and the times of
    *folder* are restored.

    Raises:
        ArgumentTypeError: the result cannot be written.
    """
    if Path(text).exists() and not (Path(text).is_file() or Path(text).is_dir()):
        return  # a device or a pipe
    times = folder.stat()
    try:
        os.rmdir(tempfile.mkdtemp(dir=folder))
    except OSError as error:
        raise ArgumentTypeError(f"{text}: cannot be written ({error.strerror})") from error
    with suppress(OSError):  # the folder may belong to another user, as /tmp does
        os.utime(folder, ns=(times.st_atime_ns, times.st_mtime_ns))


positive_int = partial(integer, least=1)
workers = partial(integer, least=1, most=MOST_WORKERS)


def add_user_dir(parser: ArgumentParser) -> None:
    """Add fairseq's option ``--user-dir``; a folder is imported when the option is parsed."""
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        action=ImportPlugin,
        default=[],
        help="folder of your own plugin with the model or task",
    )


def add_margin(parser: ArgumentParser) -> None:
    """Add the option for the difference below which models count as equivalent."""
    parser.add_argument(
        "--margin",
        type=non_negative,
        metavar="N",
        help="call a model equivalent if the interval of its difference includes zero and lies "
        "within this margin: in points of accuracy, F1, BLEU or chrF, or in percent of the "
        "baseline's score for perplexity and others (default: 1 point, 2 percent)",
    )


class ImportPlugin(Action):
    """The action of an option that imports the given folders and collects them."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        import_plugins([str(values)])
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])


def name_differences(values: Mapping[str, tuple[Any, Any]]) -> tuple[str, ...]:
    """Describe the values that changed, such as ``--lr 0.1 → 0.2``; None and "" are ``unset``.

    Args:
        values: pairs of the former and the present value, by name.
    """

    def show(value: Any) -> str:
        return "unset" if value is None or value is False or value == "" else str(value)

    texts = {name: (show(then), show(now)) for name, (then, now) in values.items()}
    return tuple(f"{name} {then} → {now}" for name, (then, now) in texts.items() if then != now)
