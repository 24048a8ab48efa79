"""The options, logging and lock that all commands ``odeformers prepare NAME`` share."""

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from fairseq_odeformers.options import positive_int


def make_parser(
    name: str, description: str, out: str, result: str = "data-bin", source: str | None = None
) -> argparse.ArgumentParser:
    """The parser of ``odeformers prepare {name}``, with the options that all corpora have.

    Args:
        out: default of ``--out``; ``{}`` in it stands for something that the corpus chooses.
        result: what is left in that folder.
        source: help of ``--from``; None if the corpus is generated.
    """
    parser = argparse.ArgumentParser(
        prog=f"odeformers prepare {name}", description=description, allow_abbrev=False
    )
    if source:
        parser.add_argument(
            "--from", dest="source", metavar="PATH", type=existing_path, help=source
        )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=None if "{" in out else Path(out),
        help=f"where to put the result, in DIR/{result} (default: {out})",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=positive_int,
        default=os.cpu_count(),
        help="number of processes or threads (default: one a core, %(default)s)",
    )
    return parser


def existing_path(text: str) -> Path:
    """The type of an option that names a file or folder."""
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder")
    return Path(text)


def choose_tasks(
    parser: argparse.ArgumentParser, names: Sequence[str], tasks: Sequence[str]
) -> list[str]:
    """The tasks that are named, once each, or all; stop at a name that is not one of *tasks*."""
    for name in names:
        if name not in tasks:
            parser.error(f"TASK {name}: choose from {', '.join(tasks)}")
    return list(dict.fromkeys(names)) or list(tasks)


def check_overlap(parser: argparse.ArgumentParser, source: Path | None, raw: Path) -> None:
    """Stop if ``--from`` overlaps the folder *raw* that the preparation makes."""
    if source:
        one, other = source.resolve(), raw.resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            parser.error(
                f"--from {source} overlaps {raw}, made by this command; choose another --out"
            )


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
