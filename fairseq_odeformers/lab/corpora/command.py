"""What all commands ``odeformers prepare NAME`` share: their options, log and lock."""

import argparse
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fairseq_odeformers.files import check_regular
from fairseq_odeformers.options import positive_int, workers


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
        tasks: the tasks to choose from, if the corpus has several.
        out: default of ``--out``, if it is not ``data/{name}``; other options may be in it.
    """
    out = out or f"data/{name}"
    parser = argparse.ArgumentParser(
        prog=f"odeformers prepare {name}", description=description, allow_abbrev=False
    )
    parser.set_defaults(default_out=out, source=None)
    if tasks:
        parser.add_argument(
            "tasks",
            metavar="TASK",
            nargs="*",
            choices=[*tasks, "all"],
            default="all",
            help=f"{', '.join(tasks)} (default: all)",
        )
    if source:
        parser.add_argument(
            "--from", dest="source", metavar="PATH", type=existing_path, help=source
        )
    result = "TASK-bin" if tasks else "data-bin"
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help=f"folder for the result, PATH/{result} (default: {out})",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=workers,
        default=os.cpu_count(),
        help="processes or threads (default: one per core)",
    )
    return parser


def add_bpe_operations(parser: argparse._ActionsContainer, default: int | None) -> None:
    """Add the option for the size of a byte-pair encoding to a parser or to a group of it.

    Without a default the size is fitted to the text.
    """
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        default=default,
        help=f"merges of the joint byte-pair encoding (default: {default or 'fit the text'})",
    )


def existing_path(text: str) -> Path:
    """The type of an option that names a file or folder, which may be read more than once."""
    if not (Path(text).is_file() or Path(text).is_dir()):
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return Path(text)


def parse_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The values of all options; ``out`` is the default that they make if it is not given."""
    args = parser.parse_args(arguments)
    args.out = args.out or Path(args.default_out.format(**vars(args)))
    if args.source:
        check_regular(args.source)
    return args


@contextmanager
def log_and_lock(out: Path) -> Iterator[None]:
    """Log to standard output, and let no other preparation write to *out*.

    A second preparation waits until the first has ended. It then finds the work done.

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
        acquired = lock.acquire(blocking=False)
    except Timeout:
        logging.warning(f"another process writes to {out}; waiting for its end")
        acquired = lock.acquire()
    with acquired:
        try:
            yield
        except BrokenProcessPool as error:
            raise OSError(f"{error} It may have run out of memory.") from error
