"""What the command lines of the preparing scripts share."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fairseq_odeformers.extras import require
from fairseq_odeformers.files import locked
from fairseq_odeformers.options import positive_int

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_parser(
    name: str, source: str, out: str, description: str | None = None
) -> argparse.ArgumentParser:
    """The parser of ``prepare-{name}.sh``, with the options that all these scripts have.

    Args:
        source: help of ``--from``.
        out: help of ``--out``.
    """
    parser = argparse.ArgumentParser(
        prog=f"odeformers prepare {name}", description=description, allow_abbrev=False
    )
    parser.add_argument("--from", dest="source", metavar="PATH", type=Path, help=source)
    parser.add_argument("--out", metavar="DIR", type=Path, help=out)
    _add_workers(parser)
    return parser


def generator_parser(
    name: str, description: str, sizes: tuple[int, int, int]
) -> argparse.ArgumentParser:
    """The parser of ``python -m fairseq_odeformers.corpora.{name}``, which makes a random data set.

    Args:
        sizes: how many examples to train, validate and test with, by default.
    """
    parser = argparse.ArgumentParser(
        prog=f"odeformers prepare {name}",
        description=description,
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("data", name),
        help="where to put the result, in DIR/data-bin",
    )
    for split, size in zip(("train", "valid", "test"), sizes):
        parser.add_argument(
            f"--{split}", metavar="N", type=positive_int, default=size, help="number of examples"
        )
    parser.add_argument(
        "--seed", metavar="N", type=positive_int, default=1, help="of the random numbers"
    )
    _add_workers(parser)
    return parser


def _add_workers(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--workers",
        metavar="N",
        type=positive_int,
        default=os.cpu_count(),
        help="number of processes or threads (default: one a core, %(default)s)",
    )


def chosen(
    parser: argparse.ArgumentParser, names: Sequence[str], tasks: Sequence[str]
) -> list[str]:
    """The tasks that are named, once each, or all; stop at a name that is none of *tasks*."""
    for name in names:
        if name not in tasks:
            parser.error(f"TASK {name}: choose from {', '.join(tasks)}")
    return list(dict.fromkeys(names)) or list(tasks)


def check_exists(parser: argparse.ArgumentParser, option: str, path: Path | None) -> None:
    """Stop if there is nothing at the *path* that an option names."""
    if path and not path.exists():
        parser.error(f"{option} {path}: no such file or folder")


def check_source(parser: argparse.ArgumentParser, source: Path | None, raw: Path) -> None:
    """Stop if ``--from`` does not exist, or overlaps the folder *raw* that the script makes."""
    check_exists(parser, "--from", source)
    if source and overlap(source.resolve(), raw.resolve()):
        parser.error(f"--from {source} overlaps {raw}, made by this script; choose another --out")


@contextmanager
def reporting(prog: str, out: Path, *libraries: str) -> Iterator[None]:
    """Log to standard output; an error ends the program with a message of one line.

    A program that writes to *out* already is waited for: its steps are those of this one.

    Args:
        libraries: modules of extras that the program will import.
    """
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # fairseq's import may have set it up
    )
    try:
        require(*libraries)
        with locked(out):
            yield
    except (ValueError, OSError, RuntimeError, ImportError) as error:
        full = getattr(error, "errno", None) in FULL
        place = f"{out} keeps what is complete, and the same command goes on from there: "
        sys.exit(f"{prog}: error: {place if full else ''}{error}")


def overlap(one: Path, other: Path) -> bool:
    """Whether one of the two is, or lies in, the other."""
    return one == other or one in other.parents or other in one.parents
