"""Tokenised text for fairseq's ``language_modeling``, one sentence or paragraph per line.

The dictionary has fairseq's ``<s> <pad> </s> <unk>``, the other words of the training text by
falling frequency, and as many of ``madeupword0000``, ... as fill up a multiple of 8. ``<unk>`` in
the text is fairseq's own symbol, and so becomes a word that the training text does not have.

A line ends with ``</s>``, which is predicted and counted as a word, like ``<unk>``. Lines
follow one another in blocks of ``--tokens-per-sample`` (fairseq's default ``--sample-break-mode
none``); give ``fairseq-eval-lm`` the number of the training, since it leaves out longer blocks, and
``fairseq-train`` and ``fairseq-validate`` also ``--required-batch-size-multiple 1``, without which
they may leave out some others.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from fairseq_odeformers.files import build, read_lines, sha256, write_lines

from .archives import extract
from .command import make_parser, parse_options, preparing
from .tokens import fairseq_preprocess

logger = logging.getLogger(__name__)

RESERVED = {"<s>", "<pad>", "</s>"}  # <unk> is a word of published texts
FILES = {split: f"{split}.txt" for split in ("train", "valid", "test")}


class Published(NamedTuple):
    """A published corpus, and the name of its archive."""

    title: str
    archive: str
    sizes: Mapping[str, tuple[int, int]]  # lines and words of each split


def prepare(
    source: Path,
    out: Path,
    workers: int,
    files: Mapping[str, str] = FILES,
    published: Published | None = None,
) -> Path:
    """Binarise the splits of *source* to ``out/data-bin``; ``test`` may be missing.

    Args:
        source: a folder or archive with the files, or a folder with the published archive.
        files: the name of the file of each split.
        published: the corpus that the text is held against.
    """
    raw, data_bin = out / "raw", out / "data-bin"
    archive = published.archive if published else ""
    extract(source, {archive: list(files.values())}, raw, optional=[files["test"]])
    texts = {split: raw / name for split, name in files.items() if (raw / name).exists()}
    if "test" not in texts:
        logger.warning(f"{source} has no {files['test']}; that split is left out")
    for split, path in texts.items():
        check_size(split, path, published)

    def binarize(folder: Path) -> None:
        with TemporaryDirectory(dir=out) as name:
            cleaned = {split: Path(name, split) for split in texts}
            for split, path in texts.items():
                write_lines(cleaned[split], clean_lines(path))
            fairseq_preprocess(
                "--only-source",
                *(f"--{split}pref={path}" for split, path in cleaned.items()),
                *["--destdir", str(folder), "--workers", str(workers)],
            )

    build(data_bin, {"texts": {split: sha256(path) for split, path in texts.items()}}, binarize)
    return data_bin


def clean_lines(path: Path) -> Iterator[str]:
    """The lines that fairseq gets, which ends a line at a carriage return as well.

    Raises:
        ValueError: a line has a carriage return or one of fairseq's symbols; the message names it.
    """
    for number, line in enumerate(read_lines(path), start=1):
        line = line.rstrip("\r")
        if "\r" in line:
            raise ValueError(f"{path}, line {number}: a carriage return within the line; divide it")
        if symbols := RESERVED.intersection(line.split()):
            raise ValueError(
                f"{path}, line {number}: {' '.join(sorted(symbols))} is a symbol of fairseq's; "
                "replace it"
            )
        yield line


def check_size(split: str, path: Path, published: Published | None) -> None:
    """Log the size of a text, with a warning if the published text has another size."""
    lines = words = 0
    for line in clean_lines(path):
        lines, words = lines + 1, words + len(line.split())
    if not words:
        raise ValueError(f"{path} is empty")
    logger.info(f"{split}: {lines:,} lines, {words:,} words")
    if published and (lines, words) != published.sizes[split]:
        logger.warning(
            "{}: the published {} has {:,} lines and {:,} words; perplexities on other text "
            "are not comparable with the papers'".format(
                split, published.title, *published.sizes[split]
            )
        )


def run(
    name: str,
    title: str,
    source: str,
    prepare: Callable[..., Path],
    arguments: Sequence[str],
    required: bool = False,
) -> None:
    """The command ``odeformers prepare {name}``; *source* is the help of its ``--from``."""
    what = f"Prepare {title} for fairseq-train --task language_modeling."
    args = parse_options(make_parser(name, what, source, required=required), arguments)
    with preparing(args):
        prepare(args.source, args.out, args.workers)


def main(arguments: Sequence[str]) -> None:
    source = (
        "folder or archive (tar, zip) with train.txt, valid.txt and perhaps test.txt: tokenised "
        "text, one sentence or paragraph per line; plain, .gz or .xz"
    )
    run("lm", "your own tokenised text", source, prepare, arguments, required=True)
