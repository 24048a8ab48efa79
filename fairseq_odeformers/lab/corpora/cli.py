"""The options, logging and lock that all commands ``odeformers prepare NAME`` share."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fairseq_odeformers.files import check_regular
from fairseq_odeformers.options import workers


def make_parser(
    name: str,
    description: str,
    source: str | None = None,
    tasks: Iterable[str] = (),
    out: str | None = None,
) -> argparse.ArgumentParser:
    """The parser of ``odeformers prepare {name}``, with the options that all corpora have.

    Args:
        source: help of ``--from``; None if the corpus is generated.
        tasks: to choose from, if the corpus has several.
        out: default of ``--out``, if it is not ``data/{name}``; other options may be in it.
    """
    out = out or f"data/{name}"
    parser = argparse.ArgumentParser(
        prog=f"odeformers prepare {name}", description=description, allow_abbrev=False
    )
    parser.set_defaults(default_out=out, source=None)
    if tasks:
        choices, text = [*tasks, "all"], f"{', '.join(tasks)} (default: all)"
        parser.add_argument(
            "tasks", metavar="TASK", nargs="*", choices=choices, default="all", help=text
        )
    if source:
        parser.add_argument(
            "--from", dest="source", metavar="PATH", type=existing_path, help=source
        )
    result = "TASK-bin" if tasks else "data-bin"
    text = "number of processes or threads, one a core if it is not given"
    add_options(
        parser,
        ("--out", Path, None, f"where to put the result, PATH/{result} (default: {out})"),
        ("--workers", workers, os.cpu_count(), text),
    )
    return parser


def add_options(parser, *options: tuple[str, Callable[[str], Any], Any, str]) -> None:
    """Add options to a parser or to a group of it: type, default, and help without the default."""
    for name, kind, default, text in options:
        parser.add_argument(
            name,
            metavar="PATH" if kind in (Path, existing_path) else "N",
            type=kind,
            default=default,
            help=text if default is None else f"{text} (default: {default})",
        )


def existing_path(text: str) -> Path:
    """The type of an option that names a file or folder, which may be read more than once."""
    if not (Path(text).is_file() or Path(text).is_dir()):
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return Path(text)


def parse_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The options, ``out`` included."""
    args = parser.parse_args(arguments)
    args.out = args.out or Path(args.default_out.format(**vars(args)))
    if args.source:
        check_regular(args.source)
    return args


@contextmanager
def preparing(out: Path) -> Iterator[None]:
    """Log to standard output, and let no other preparation write to *out*.

    A second one waits until the first has ended. It then finds the work done.

    Raises:
        OSError: a process was killed.
    """
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # fairseq's import may have set it up
    )
    lock = FileLock(out / ".lock")
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        logging.warning(f"another process writes to {out}; waiting for its end")
        held = lock.acquire()
    with held:
        try:
            yield
        except BrokenProcessPool as error:
            raise OSError(f"{error} It may have run out of memory.") from error
