"""What all commands ``odeformers prepare NAME`` share: their options, log and lock."""

import argparse
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fairseq_odeformers.files import check_path, check_regular, reading
from fairseq_odeformers.options import flag, name_differences, output_folder, positive_int, workers
from fairseq_odeformers.parser import Parser, did_you_mean

from .checks import check_data
from .log import describe, log_to_output

SETTINGS = "settings.json"  # of the last preparation of a folder
NO_SETTINGS = ("source", "out", "default_out", "workers", "tasks")


def make_parser(
    name: str,
    description: str,
    source: str | None = None,
    tasks: Iterable[str] = (),
    out: str | None = None,
    required: bool = False,
) -> argparse.ArgumentParser:
    """The parser of ``odeformers prepare {name}``, with the options that all corpora have.

    Args:
        source: help of ``--from``; None if the corpus is generated.
        tasks: the tasks to choose from, if the corpus has several.
        out: default of ``--out``, if it is not ``data/{name}``; other options may be in it.
        required: whether ``--from`` must be given.
    """
    out = out or f"data/{name}"
    parser = Parser(prog=f"odeformers prepare {name}", description=description, allow_abbrev=False)
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
        add_path(parser, "--from", source, dest="source", required=required)
    result = "TASK-bin" if tasks else "data-bin"
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=output_folder,
        help=f"folder for the result, PATH/{result} (default: {out})",
    )
    what = "processes or threads (default: one per core)"
    parser.add_argument("--workers", metavar="N", type=workers, default=os.cpu_count(), help=what)
    return parser


def add_number(
    parser: argparse._ActionsContainer,
    option: str,
    default: float | None,
    help: str,
    kind: Callable[[str], float] = positive_int,
) -> None:
    """Add an option for a number; its help ends with the default, if there is one."""
    help += "" if default is None else " (default: %(default)s)"
    parser.add_argument(option, metavar="N", type=kind, default=default, help=help)


def add_path(parser: argparse._ActionsContainer, option: str, help: str, **settings) -> None:
    """Add an option for a file or folder that has to exist."""
    parser.add_argument(option, metavar="PATH", type=existing_path, help=help, **settings)


def existing_path(text: str) -> Path:
    """The type of an option that names a file or folder, which may be read more than once."""
    path = Path(text)
    if not (path.is_file() or path.is_dir()):
        # The ending, which files have in common, makes no name similar.
        names = [other.name for other in path.parent.glob("*")]
        beside = [name for name in names if did_you_mean(path.stem, [Path(name).stem])]
        remedy = did_you_mean(path.name, beside) or "give an existing one"
        raise argparse.ArgumentTypeError(f"{text}: no such file or folder; {remedy}")
    return path


def parse_options(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The values of all options; ``out`` is the default that they make if it is not given."""
    args = parser.parse_args(arguments)
    args.out = args.out or Path(args.default_out.format(**vars(args)))
    check_path(args.out, "--out", ":,")
    if args.source:
        check_regular(args.source)
    return args


@contextmanager
def preparing(args: argparse.Namespace, positions: int | None = None) -> Iterator[None]:
    """Log to standard output, in the end what is ready; nothing else prepares ``args.out``.

    A second preparation waits until the first has ended. It then finds the work done.

    Args:
        positions: see :func:`.check_data`.

    Raises:
        OSError: a process was killed.
        ValueError: the folder was prepared with other settings. Files may have changed: what
            depends on them is made anew.
    """
    out = args.out
    log_to_output()
    lock = FileLock(out / ".lock")
    try:
        acquired = lock.acquire(blocking=False)
    except Timeout:
        logging.warning(f"another process is writing to {out}; waiting for it")
        acquired = lock.acquire()
    with acquired:
        settings = check_settings(args)
        start = time.monotonic()
        try:
            yield
        except BrokenProcessPool as error:
            raise OSError(f"{error} It may have run out of memory.") from error
        (out / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")
        found = sorted(out.glob("*-bin"))
        for data_bin in found:
            logging.info(f"checking {data_bin} ...")
            check_data(data_bin, positions)
        ready = f"{', '.join(map(str, found))} {'is' if len(found) == 1 else 'are'} ready"
        duration = describe(time.monotonic() - start)
        logging.info(f"{ready} for fairseq-train ({duration})")


def check_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The options that determine a result besides the files; a folder's must not change."""
    settings = {
        flag(name): value
        for name, value in vars(args).items()
        if isinstance(value, (str, int, float, type(None))) and name not in NO_SETTINGS
    }
    kept = args.out / SETTINGS
    if kept.exists():
        with reading(kept, f"is damaged; remove {args.out}"):
            earlier = dict(json.loads(kept.read_bytes()))
        values = {name: (earlier.get(name), value) for name, value in settings.items()}
        if changes := name_differences(values):
            raise ValueError(
                f"{args.out} was prepared with other settings ({', '.join(changes)}); remove it, "
                "or give another --out"
            )
    return settings
