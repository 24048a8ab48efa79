"""The parser of all commands, types of their arguments, and options that several commands share.

Error messages have one line and suggest similar options. Functions import the plugin, and with it
fairseq and torch, only when they need it, because the help of ``odeformers`` does not.
"""

import argparse
import os
import re
import tempfile
from argparse import Action, ArgumentParser, ArgumentTypeError
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

DATA = "the binarised data, data-bin of odeformers prepare"
MAX_WORKERS = 1024  # maximum number of processes that a command starts
# argparse's message about an option without a value, and the replacement.
NO_VALUE = (
    "expected one argument",
    "no value follows; give one that does not begin with a hyphen",
)


class Parser(argparse.ArgumentParser):
    """A parser of a command, and of its subcommands."""

    def parse_args(self, args=None, namespace=None):
        """Parse all arguments; the parser of the subcommand reports unknown ones."""
        namespace, others = self.parse_known_args(args, namespace)
        parser = self
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                parser = action.choices.get(getattr(namespace, action.dest), self)
        if others:
            parser.error(f"unrecognized arguments: {' '.join(others)}")
        return namespace

    def error(self, message: str) -> NoReturn:
        """End the program with a message, without the usage that argparse prints before it.

        The message suggests similar options for an unknown option.
        """
        from fairseq_odeformers.errors import did_you_mean

        for word in message.partition("unrecognized arguments: ")[2].split():
            option = word.partition("=")[0]
            if suggestion := did_you_mean(option, self._option_string_actions):
                message += f"; {option}: {suggestion}"
            elif os.path.exists(word) and "--text" in self._option_string_actions:
                message += f"; did you mean --text {word}?"
        if missing := re.search("arguments are required: ([^-,][^,]*)", message):
            message += "; name it before the options"
            for action in self._actions:
                if action.choices and action.help and missing[1] in (action.metavar, action.dest):
                    message += f": {action.help}"
        message = message.replace(*NO_VALUE)
        self.exit(2, f"{self.prog}: error: {message} (see {self.prog} --help)\n")

    def _check_value(self, action, value):
        """Check a choice, and suggest similar names for an unknown one."""
        if action.choices and value not in action.choices:
            if "--from" in self._option_string_actions and os.path.exists(value):
                names = ", ".join(action.choices)
                fault = f"a path goes after --from; name {names}"
                raise argparse.ArgumentError(action, f"{value}: {fault}")
            from fairseq_odeformers.options import check_choice

            check_choice(self, action, value)

    def _parse_optional(self, arg_string):
        """Treat a time such as -1m as a value, so that the option before it can report an error."""
        if re.fullmatch(r"-[\d.]+[a-z]", arg_string):
            return None
        return super()._parse_optional(arg_string)


def check_exists(path: str | os.PathLike, wanted: str) -> None:
    """Check that a path exists.

    Args:
        wanted: description of the file or folder that the path should lead to.

    Raises:
        FileNotFoundError: the path does not exist.
    """
    if not os.path.lexists(path):
        raise FileNotFoundError(f"{path}: no such file or folder; give {wanted}")


# --- types of arguments ------------------------------------------------------------------------


def integer(text: str, minimum: int = 0, maximum: int | None = None) -> int:
    """Parse a whole number from *minimum* to *maximum*, as the ``type`` of an argument.

    Args:
        maximum: largest number (default: the largest size that torch accepts).
    """
    from fairseq_odeformers.options import MAX_SIZE

    maximum = MAX_SIZE if maximum is None else maximum
    if not text.isdecimal() or not minimum <= float(text) <= maximum:
        raise ArgumentTypeError(f"{text}: give a whole number from {minimum} to {maximum:,}")
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
        raise ArgumentTypeError(f"{text}: give 0 or more")
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


positive_int = partial(integer, minimum=1)
workers = partial(integer, minimum=1, maximum=MAX_WORKERS)


# --- options that several commands share -------------------------------------------------------


def add_user_dir(parser: ArgumentParser) -> None:
    """Add fairseq's option ``--user-dir``; a folder is imported when the option is parsed."""
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        action=ImportPlugin,
        default=[],
        help="folder of a plugin that registers your own models or tasks",
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
        from fairseq_odeformers.registry import import_plugins

        import_plugins([str(values)])
        setattr(namespace, self.dest, [*getattr(namespace, self.dest), values])
