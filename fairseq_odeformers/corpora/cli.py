"""What the command lines of the preparing scripts share, and that of the parallel corpora."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from fairseq_odeformers.corpora.archives import download, members, unpack
from fairseq_odeformers.corpora.parallel_text import Files, prepare
from fairseq_odeformers.files import build, fingerprints


@dataclass(frozen=True)
class Corpus:
    """A published parallel corpus, and how to prepare it.

    Attributes:
        langs: source and target language.
        archives: what to download, and the names of the files that are needed of each: URLs of tar
            or zip archives, or of single files (compressed, if the URL is the name with ``.gz``).
        parallel_files: ``parallel_files(raw, out)`` returns the parallel text of each split, made
            below *out* if the corpus' own files, in *raw*, are something else.
        recipe: options of :func:`~fairseq_odeformers.corpora.parallel_text.prepare`.
        optional: archives that what is given with ``--from`` may lack.
    """

    langs: tuple[str, str]
    archives: Mapping[str, Sequence[str]]
    parallel_files: Callable[[Path, Path], Files]
    recipe: Mapping[str, Any] = field(default_factory=dict)
    optional: Mapping[str, Sequence[str]] = field(default_factory=dict)


def main(name: str, corpora: Sequence[Corpus], bpe_operations: int) -> None:
    """Prepare a published corpus; an error ends the program with a message of one line.

    Args:
        name: as in ``prepare-{name}.sh``.
        corpora: if there are several, the first argument of the script chooses the language pair.
        bpe_operations: default of ``--bpe-operations``.
    """
    pairs = {"-".join(corpus.langs): corpus for corpus in corpora}
    default_out = f"data/{name}-{{pair}}" if len(pairs) > 1 else f"data/{name}"
    parser = make_parser(
        name,
        source="archive (tar, zip) of the corpus, or folder that has its files or its archives "
        "under their published names (default: download it)",
        out=f"where to put the result, in DIR/data-bin (default: {default_out})",
    )
    if len(pairs) > 1:
        parser.add_argument("pair", choices=pairs, help="source and target language")
    else:
        parser.set_defaults(pair=next(iter(pairs)))
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        default=bpe_operations,
        help="merges of the joint byte-pair encoding (default: %(default)s)",
    )
    args = parser.parse_args()
    corpus = pairs[args.pair]
    out = args.out or Path(default_out.format(pair=args.pair))
    raw = out / "raw"
    check_source(parser, args.source, raw)
    with reporting(parser.prog):
        source = args.source or fetch([*corpus.archives, *corpus.optional], out / "download")
        extract(source, {**corpus.archives, **present(source, corpus.optional)}, raw)
        data_bin = prepare(
            corpus.parallel_files(raw, out),
            out,
            *corpus.langs,
            bpe_operations=args.bpe_operations,
            workers=args.workers,
            **corpus.recipe,
        )
        logging.info(f"{data_bin} is ready for fairseq-train")


def make_parser(
    name: str, source: str, out: str, description: str | None = None
) -> argparse.ArgumentParser:
    """The parser of ``prepare-{name}.sh``, with the options that all these scripts have.

    Args:
        source: help of ``--from``.
        out: help of ``--out``.
    """
    parser = argparse.ArgumentParser(
        prog=f"prepare-{name}.sh", description=description, allow_abbrev=False
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
        prog=f"python -m fairseq_odeformers.corpora.{name}",
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


def check_source(parser: argparse.ArgumentParser, source: Path | None, raw: Path) -> None:
    """Stop if ``--from`` does not exist, or overlaps the folder *raw* that the script makes."""
    if source and not source.exists():
        parser.error(f"--from {source}: no such file or folder")
    if source and overlap(source.resolve(), raw.resolve()):
        parser.error(f"--from {source} overlaps {raw}, made by this script; choose another --out")


@contextmanager
def reporting(prog: str) -> Iterator[None]:
    """Log to standard output; an error ends the program with a message of one line."""
    logging.basicConfig(
        format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
        datefmt="%Y-%m-%d %H:%M:%S",
        level=logging.INFO,
        stream=sys.stdout,
        force=True,  # importing fairseq has set it up
    )
    try:
        yield
    except (ValueError, OSError, RuntimeError) as error:
        sys.exit(f"{prog}: error: {error}")


def fetch(urls: Sequence[str], folder: Path) -> Path:
    """Download *urls* into *folder*, and return it."""
    for url in urls:
        download(url, folder / Path(url).name)
    return folder


def present(source: Path, archives: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Those of *archives*, single files each, that an archive of them all or a folder has."""
    if not archives:
        return archives
    found = {Path(member).name.removesuffix(".gz") for member, _ in members(source)}
    return {url: names for url, names in archives.items() if found.issuperset(names)}


def extract(source: Path, archives: Mapping[str, Sequence[str]], raw: Path) -> None:
    """Fill *raw* with the files of *archives*, from *source*: an archive of them all, or a folder.

    In a folder, a file may be there as such or in the archive that it belongs to.

    Raises:
        ValueError: a file is missing, or an archive damaged.
    """
    contents = sorted(filter(Path.is_file, source.rglob("*"))) if source.is_dir() else []
    sources: dict[Path, list[str]] = {}
    for url, names in archives.items():
        unpacked = {path.name.removesuffix(".gz") for path in contents}.issuperset(names)
        packed = [path for path in contents if path.name == Path(url).name]
        sources.setdefault(packed[0] if packed and not unpacked else source, []).extend(names)

    inputs = [path for path in sources if path.is_file()]
    loose = sources.get(source, [])
    inputs += [path for path in contents if path.name.removesuffix(".gz") in loose]

    def copy(folder: Path) -> None:
        for path, names in sources.items():
            unpack(path, names, folder)

    build(raw, {"from": fingerprints(inputs)}, copy)


def overlap(one: Path, other: Path) -> bool:
    """Whether one of the two is, or lies in, the other."""
    return one == other or one in other.parents or other in one.parents


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value
