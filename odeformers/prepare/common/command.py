"""Shared code of all commands ``odeformers prepare NAME``: options, log, lock, and steps."""

import argparse
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from tqdm import tqdm

from fairseq_odeformers.files import (
    FORMATS,
    build,
    check_path,
    check_regular,
    replacing,
)
from odeformers.parser import Parser, output_folder, positive_int, real_number, workers

from .settings import SETTINGS, SOURCE, check_settings, check_sources, name_source

logger = logging.getLogger(__name__)

SPLIT_NAMES = {"train": "training", "valid": "validation", "test": "test"}  # in words
PROGRESS_INTERVAL = 30  # seconds between lines of progress without a terminal

Item = TypeVar("Item")


def make_parser(
    name: str,
    description: str,
    source: str | None = None,
    tasks: Iterable[str] = (),
    out: str | None = None,
    outs: str = "",
    required: bool = False,
    several: bool = False,
) -> argparse.ArgumentParser:
    """Make the parser of ``odeformers prepare {name}``, with the options that all corpora share.

    Args:
        source: help of ``--from``; None if the corpus is generated.
        tasks: tasks to choose from, if the corpus consists of several.
        out: default of ``--out`` if it is not ``data/{name}``; it may refer to other options.
        outs: the possible values of *out* for the help, if it refers to other options.
        required: whether ``--from`` must be given.
        several: whether ``--from`` accepts several paths, given as a list.
    """
    out = out or f"data/{name}"
    parser = Parser(prog=f"odeformers prepare {name}", description=description, allow_abbrev=False)
    parser.set_defaults(default_out=out, source=None, corpus=name)
    if tasks:
        what = f"tasks to prepare: {', '.join(tasks)} (default: all)"
        choices = [*tasks, "all"]
        parser.add_argument(
            "tasks", metavar="TASK", nargs="*", choices=choices, default="all", help=what
        )
    if source:
        more: dict[str, Any] = {"nargs": "+"} if several else {}
        add_path(parser, "--from", source, dest="source", required=required, **more)
    folder = "TASK-bin" if tasks else "data-bin"
    what = f"output folder; the data are written to PATH/{folder} (default: {outs or out})"
    parser.add_argument("--out", metavar="PATH", type=output_folder, help=what)
    what = "number of processes or threads (default: one per CPU core)"
    parser.add_argument("--workers", metavar="N", type=workers, default=os.cpu_count(), help=what)
    return parser


def add_number(
    parser: argparse._ActionsContainer,
    option: str,
    default: float | None,
    help: str,
    kind: Callable[[str], float] = positive_int,
) -> None:
    """Add an option for a number; its help ends with the default, if any."""
    help += "" if default is None else " (default: %(default)s)"
    parser.add_argument(option, metavar="N", type=kind, default=default, help=help)


def add_path(parser: argparse._ActionsContainer, option: str, help: str, **settings) -> None:
    """Add an option for a file or folder that must exist."""
    parser.add_argument(option, metavar="PATH", type=existing_path, help=help, **settings)


def add_columns(
    parser: argparse.ArgumentParser, first: str, second: str, pairs: bool = False
) -> None:
    """Add an option for the two columns of a table.

    Args:
        pairs: whether the table may have two columns like the second.
    """
    names, metavar = f"{first} and {second}", f"{first},{second}".upper()
    if pairs:
        names = f"{first} and {second}, or {first} and both {second}s of pairs,"
        metavar += f"[,{second.upper()}2]"
    what = (
        f"columns of {names} in a table, given by names in the header or by numbers from 1 "
        "(default: columns with common names)"
    )
    kind = partial(column_names, counts=[2, 3] if pairs else [2])
    parser.add_argument("--columns", metavar=metavar, type=kind, help=what)


def column_names(text: str, counts: Collection[int]) -> str:
    """Parse an option that names columns of a table."""
    if len(names := split_columns(text)) not in counts or not all(names):
        more = ", or label,text1,text2" if 3 in counts else ""
        what = " or ".join({2: "two", 3: "three"}[count] for count in counts)
        raise argparse.ArgumentTypeError(
            f"{text}: give {what} names or numbers, such as label,text{more}"
        )
    return text


def split_columns(text: str | None) -> list[str]:
    """Return the names or numbers of ``--columns``."""
    return [name.strip() for name in text.split(",")] if text else []


def existing_path(text: str) -> Path:
    """Parse an option that names a file or folder that can be read more than once."""
    path = Path(text)
    if not (path.is_file() or path.is_dir()):
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder; give an existing one")
    return path


def fraction(text: str) -> float:
    """Parse an option that is a share of the texts."""
    value = real_number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"{text}: give a number from 0 to below 1")
    return value


def parse_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse all options; the default of ``--out`` is filled in from the other options."""
    args = parser.parse_args(arguments)
    args.out = args.out or Path(args.default_out.format(**vars(args)))
    check_path(args.out, "--out", ":,")
    for source in args.source if isinstance(args.source, list) else filter(None, [args.source]):
        check_regular(source)
        if fault := FORMATS.get(source.suffix.lower()):
            parser.error(f"--from {source}: {fault}")
    return args


@contextmanager
def preparing(args: argparse.Namespace) -> Iterator[list[str]]:
    """Log to standard output, report the result at the end, and lock ``args.out``.

    A second preparation waits until the first has ended, and then finds the work done.

    Yields:
        A list for options that the data need in training.

    Raises:
        OSError: a process was killed.
        InputError: the folder was prepared with different settings, or from different files.
    """
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(message)s",
        datefmt="%H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # since importing fairseq may have set up logging
    )
    out, lock = args.out, FileLock(args.out / ".lock")
    missing = [folder for folder in (out, *out.parents) if not folder.exists()]
    try:
        acquired = lock.acquire(blocking=False)
    except Timeout:
        logger.warning(f"another process is writing to {out}; waiting for it")
        acquired = lock.acquire()
    with acquired, cleaning_up():
        settings: dict[str, Any] = {**check_settings(args), SOURCE: name_source(args)}
        needed: list[str] = []
        try:
            yield needed
        except BrokenProcessPool as error:
            raise OSError(f"{error} It may have run out of memory.") from error
        finally:
            if missing and os.listdir(out) == [".lock"]:
                (out / ".lock").unlink()
                with suppress(OSError):  # another preparation may use the parent folder
                    for folder in missing:
                        folder.rmdir()
        with replacing(out / SETTINGS) as path:
            path.write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        made = sorted(map(str, out.glob("*-bin")))
        verb = "is" if len(made) == 1 else "are"
        options = f" with {' '.join(needed)}" if needed else ""
        logger.info(f"{', '.join(made)} {verb} ready for fairseq-train{options}")


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Let a termination (SIGTERM) remove incomplete results, as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def step(what: str, folder: Path, inputs: dict[str, Any], make: Callable[[Path], None]) -> None:
    """Build a folder by :func:`.build`, and log the work if there is any to do.

    Args:
        what: description of the work, such as "step 2 of 3: splitting words".

    Raises:
        InputError: as in :func:`check_sources`.
    """

    def make_and_log(temporary: Path) -> None:
        logger.info(f"{what} ...")
        make(temporary)

    check_sources(folder, inputs)
    build(folder, inputs, make_and_log)


def show_progress(items: Iterable[Item], label: str, unit: str = " lines") -> Iterator[Item]:
    """Yield the items, with a progress bar in a terminal or a line per half minute in a log."""
    if sys.stderr.isatty():
        yield from tqdm(items, label, unit=unit, mininterval=1)
        return
    logged = time.monotonic()
    for count, item in enumerate(items):
        if (now := time.monotonic()) >= logged + PROGRESS_INTERVAL:
            logger.info(f"{label}: {count:,}{unit}")
            logged = now
        yield item
