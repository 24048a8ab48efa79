"""Starts commands of fairseq and this package, reads their logs, and calls functions in forks."""

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
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.pool import (
    ExceptionWithTraceback,  # pyright: ignore[reportAttributeAccessIssue]
)
from pathlib import Path
from typing import Any, TextIO

import torch

from odeformers import user_dir

FORK = multiprocessing.get_context("fork")  # a fork need not import torch and fairseq again
THREADS = "OMP_NUM_THREADS"  # the number of torch's threads
MODULES = {
    "fairseq-train": "odeformers.compare.training",
    "fairseq-generate": "fairseq_cli.generate",
    "fairseq-eval-lm": "fairseq_cli.eval_lm",
    "odeformers": "odeformers",
}
# Runs a module without importing any from the current folder, which may be a clone next to the
# installed package. From Python 3.11 on, the option -P does the same.
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
    """Return the end of a name that shows options, such as ``-lr-1e-3``."""
    words = (f"-{key}" if value is True else f"-{key}-{value}" for key, value in options.items())
    return re.sub(r"[^\w.=+-]", "_", "".join(words))


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
            raise ValueError(
                f"{word}: give an option such as --dropout here, and architectures after --archs"
            )
    return options


def parse_architecture(text: str) -> tuple[str, Options]:
    """Parse ``ARCH`` or ``ARCH[--option value ...]``, an architecture and its own options."""
    arch, bracket, rest = text.partition("[")
    if bracket and not rest.endswith("]"):
        raise ValueError(
            f"{text}: the bracket of the options is not closed; quote it: '{arch}[--option value]'"
        )
    return arch, parse_words(shlex.split(rest[:-1]))


def python_command(words: Sequence[str]) -> list[str]:
    """Return the words that start a command, by this Python for commands in :data:`MODULES`.

    The command does not buffer its output; otherwise, warnings would appear in the middle of a
    line.
    """
    name, *arguments = words
    if name not in MODULES:
        return [name, *arguments]
    return [sys.executable, "-u", *START, MODULES[name], *arguments]


def check_program(line: str, key: str) -> None:
    """Check that the program of a command line, given under a key of a recipe, exists."""
    name = next(iter(shlex.split(line)), "")
    if name not in MODULES and not shutil.which(name):
        raise ValueError(f"{key} {line}: there is no program {name!r}")


def end_with_parent() -> None:
    """Make Linux kill this process as soon as its parent ends, even by SIGKILL.

    The parent of a command holds the lock of its run. Only the kernel can end the command when the
    parent is killed, and Python has no function for this.
    """
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG


def call_in_child(function: Callable[[], Any]) -> Any:
    """Call a function in a fork of this process; return its result or raise its error.

    So models that are tried out leave neither memory nor threads in the process that forks runs.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(sender, function))
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise ValueError(
            "the trial of the models was killed, perhaps because memory ran out"
        ) from None
    finally:
        child.kill()
        child.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(sender: Connection, function: Callable[[], Any]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # the logs of the trainings contain them
    if threads := os.environ.get(THREADS):
        torch.set_num_threads(int(threads))
    try:
        result = function()
    except Exception as error:  # with the traceback as its cause, which pickle would drop
        result = ExceptionWithTraceback(error, error.__traceback__)
    sender.send(result)


def log_stats(line: str, kind: str) -> dict[str, str] | None:
    """Parse the statistics of a given kind that fairseq-train logs as JSON in a line, if any.

    The kind is ``train`` (an epoch), ``train_inner`` (some updates), or the name of a validation
    set.
    """
    match = re.search(rf"\| INFO \| {kind} \| (\{{.*\}})$", line)
    return json.loads(match.group(1)) if match else None


class CommandFailed(RuntimeError):
    """A command ended with a status other than 0; the message includes the end of its output."""


def fairseq_command(name: str, *options: object) -> list[str]:
    """Return the words of a command such as ``fairseq-train`` with a plugin (default: this one)."""
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
        assert process.stdout is not None  # a pipe
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
