"""The command line that the scripts for parallel corpora share."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Callable

from fairseq_odeformers.data.archives import unpack
from fairseq_odeformers.data.parallel_text import Files, prepare
from fairseq_odeformers.data.steps import build, fingerprints


def main(
    name: str,
    langs: Sequence[str],
    names: Sequence[str],
    fetch: Callable[[Path], Path],
    parallel_files: Callable[[Path, Path], Files],
    bpe_operations: int,
    valid_interval: int | None = None,
) -> None:
    """Prepare a published corpus; an error ends the program with a message of one line.

    Args:
        name: the corpus, as in ``prepare-{name}.sh``.
        langs: source and target language.
        names: the files of the corpus that are needed.
        fetch: ``fetch(folder)`` downloads the corpus into *folder* and returns the archive or
            folder that contains the files.
        parallel_files: ``parallel_files(raw, out)`` returns the parallel text of each split, made
            below *out* if the corpus' own files, in *raw*, are something else.
        bpe_operations: default of ``--bpe-operations``.
        valid_interval: see :func:`~fairseq_odeformers.data.parallel_text.prepare`.
    """
    parser = argparse.ArgumentParser(prog=f"prepare-{name}.sh", allow_abbrev=False)
    parser.add_argument(
        "--from",
        dest="source",
        metavar="PATH",
        type=Path,
        help="archive (tar, zip) or folder that contains the corpus (default: download it)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        default=Path("data", name),
        help="where to put the result, in DIR/data-bin (default: %(default)s)",
    )
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        default=bpe_operations,
        help="merges of the joint byte-pair encoding (default: %(default)s)",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=positive_int,
        default=os.cpu_count(),
        help="number of processes (default: one a core, %(default)s)",
    )
    args = parser.parse_args()
    if args.source and not args.source.exists():
        parser.error(f"--from {args.source}: no such file or folder")
    raw = args.out / "raw"
    if args.source and overlap(args.source.resolve(), raw.resolve()):
        parser.error(
            f"--from {args.source} overlaps {raw}, made by this script; choose another --out"
        )
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # importing fairseq has set it up
    )
    try:
        source = args.source or fetch(args.out / "download")
        files = [source]
        if source.is_dir():
            packed = [f"{name}.gz" for name in names]
            files = sorted(path for path in source.rglob("*") if path.name in (*names, *packed))
        recipe = {"from": fingerprints(files)}
        build(raw, recipe, lambda folder: unpack(source, names, folder))
        data_bin = prepare(
            parallel_files(raw, args.out),
            args.out,
            *langs,
            bpe_operations=args.bpe_operations,
            valid_interval=valid_interval,
            workers=args.workers,
        )
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"{parser.prog}: error: {error}")
    logging.info(f"{data_bin} is ready for fairseq-train")


def overlap(one: Path, other: Path) -> bool:
    """Whether one of the two is, or lies in, the other."""
    return one == other or one in other.parents or other in one.parents


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value
