"""Processes: commands of fairseq and of this package, their options and logs, and forks."""

import ctypes
import json
import multiprocessing
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.pool import (
    ExceptionWithTraceback,  # pyright: ignore[reportAttributeAccessIssue]
)
from pathlib import Path
from typing import Any, TextIO

import torch

from fairseq_odeformers.errors import InputError
from odeformers import user_dir

FORK = multiprocessing.get_context("fork")  # a fork need not import torch and fairseq again
THREADS = "OMP_NUM_THREADS"  # the number of torch's threads
MODULES = {
    "fairseq-train": "odeformers.compare.training",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-eval-lm": "fairseq_cli.eval_lm",
    "odeformers": "odeformers",
}
# Runs a module without importing modules from the current folder, since this may be a clone while
# another version of the package is installed. From Python 3.11 on, the option -P does the same.
RUN_MODULE = (
    "import runpy, sys; del sys.path[0], sys.argv[0]; "
    "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)
START = ["-P", "-m"] if sys.version_info >= (3, 11) else ["-c", RUN_MODULE]


Options = dict[str, Any]  # a command's options by name without "--"; True is a switch


def to_words(options: Options) -> list[str]:
    """Convert options to the words of a command line."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words


def name_options(options: Options) -> str:
    """Return a suffix for a name that shows options, such as ``-lr-1e-3``."""
    words = (f"-{key}" if value is True else f"-{key}-{value}" for key, value in options.items())
    return re.sub(r"[^\w.=+-]", "_", "".join(words))


def name_differences(values: Mapping[str, tuple[Any, Any]]) -> tuple[str, ...]:
    """Describe the values that changed, such as ``--lr 0.1 → 0.2``; None and "" are ``unset``.

    Args:
        values: pairs of the former and the present value, by name.
    """

    def show(value: Any) -> str:
        return "unset" if value is None or value is False or value == "" else str(value)

    texts = {name: (show(then), show(now)) for name, (then, now) in values.items()}
    return tuple(f"{name} {then} → {now}" for name, (then, now) in texts.items() if then != now)


def parse_words(words: Iterable[str]) -> Options:
    """Parse the words of a command line as options; an option without a value is a switch."""
    options: Options = {}
    name = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else True
        elif name is not None and options[name] is True:
            options[name] = word
        else:
            raise InputError(
                f"{word}: give an option such as --dropout here, and architectures after --archs"
            )
    return options


def parse_architecture(text: str) -> tuple[str, Options]:
    """Parse ``ARCH`` or ``ARCH[--option value ...]``, an architecture and its own options."""
    arch, bracket, options = text.partition("[")
    if bracket and not options.endswith("]"):
        raise InputError(
            f"{text}: the bracket of the options is not closed; quote it: '{arch}[--option value]'"
        )
    return arch, parse_words(shlex.split(options[:-1]))


def python_command(words: Sequence[str]) -> list[str]:
    """Return the words that start a command, with this Python for commands in :data:`MODULES`.

    Output is not buffered; otherwise, warnings would appear in the middle of a line.
    """
    name, *arguments = words
    if name not in MODULES:
        return [name, *arguments]
    return [sys.executable, "-u", *START, MODULES[name], *arguments]


def check_program(line: str, key: str) -> None:
    """Check that the program of a command line exists; *key* is its key in a recipe.

    Raises:
        InputError: there is no such program.
    """
    name = next(iter(shlex.split(line)), "")
    if name not in MODULES and not shutil.which(name):
        raise InputError(f"{key} {line}: there is no program {name!r}")


def end_with_parent() -> None:
    """Make Linux kill this process as soon as its parent ends, even by SIGKILL.

    The parent of a command holds the lock of its run. If the parent is killed, only the kernel can
    end the command, and Python has no function to request this.
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


def call_in_child(function: Callable[[], Any]) -> Any:
    """Call a function in a fork of this process; return its result or raise its error.

    Models that are tried out this way leave neither memory nor threads in this process, so that it
    can fork the runs later.

    Raises:
        ValueError: the fork was killed.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(sender, function))
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise ValueError(
            "the process that measures the models was killed, perhaps because memory ran out"
        ) from None
    finally:
        child.kill()
        child.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(sender: Connection, function: Callable[[], Any]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # the logs of the runs contain the warnings
    if threads := os.environ.get(THREADS):
        torch.set_num_threads(int(threads))
    try:
        result = function()
    except Exception as error:  # pickle would drop its traceback
        result = ExceptionWithTraceback(error, error.__traceback__)
    sender.send(result)


def log_stats(line: str, kind: str) -> dict[str, str] | None:
    """Parse the statistics that a line of fairseq-train's log contains as JSON, or return None.

    Args:
        kind: ``train`` (an epoch), ``train_inner`` (some updates), or the name of a validation set.
    """
    match = re.search(rf"\| INFO \| {kind} \| (\{{.*\}})$", line)
    return json.loads(match.group(1)) if match else None


class CommandFailed(RuntimeError):
    """An error raised if a command fails; the message includes its status and last output."""


def fairseq_command(name: str, *options: object) -> list[str]:
    """Return the words of a command such as ``fairseq-train``, with ``--user-dir`` for this plugin.

    Args:
        options: options of the command; another ``--user-dir`` takes precedence.
    """
    program = os.path.relpath(Path(sys.executable).with_name(name))
    plugin = () if "--user-dir" in options else ("--user-dir", os.path.relpath(user_dir()))
    return [program, *map(str, options), *plugin]


def stream(command: list[str], log: TextIO) -> Iterator[str]:
    """Run a command, write its output to a log, and yield it line by line.

    Closing the generator ends the command.

    Raises:
        CommandFailed: the status of the command is not 0.
    """
    tail: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None  # because it is a pipe
        try:
            for line in process.stdout:
                log.write(line)
                tail.append(line)
                yield line
        except BaseException:  # the generator is closed, or interrupted
            process.terminate()
            raise
    if status := process.returncode:
        raise CommandFailed(
            f"{command[0]} ended with status {status}; the end of its output:\n{''.join(tail)}"
        )
