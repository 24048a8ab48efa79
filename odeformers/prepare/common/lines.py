"""Lines of tokenised text for fairseq's ``language_modeling``.

The dictionary lists fairseq's ``<s> <pad> </s> <unk>``, then the other words of the training text
by decreasing frequency, then ``madeupword0000``, ... up to a multiple of 8. Words that the training
text lacks become ``<unk>``, as does ``<unk>`` in the text.

A line ends with ``</s>``. Like ``<unk>``, it is predicted and counted as a word. Lines are
concatenated into blocks of ``--tokens-per-sample`` (fairseq's default ``--sample-break-mode
none``). Pass the value in training to ``fairseq-eval-lm``, because it skips longer blocks. Also
pass ``--required-batch-size-multiple 1`` to ``fairseq-train`` and ``fairseq-validate``; otherwise,
they may skip some blocks.
"""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import write_lines

from .checks import check_data
from .command import make_parser, parse_options, preparing, step
from .corpus import (
    Corpus,
    Download,
    Files,
    ending_of,
    fingerprint_each,
    is_archive,
    read_text,
)
from .tokens import fairseq_preprocess

logger = logging.getLogger(__name__)

TABLES = (".csv", ".tsv", ".jsonl")
SPLITS = ("train", "valid", "test")
RESERVED = {"<s>", "<pad>", "</s>"}  # not <unk>, which is a word in published texts
SPACE = "\u2581"  # replaces a space, as fairseq's --post-process sentencepiece expects


@dataclass(frozen=True)
class Lines:
    """Writer of tokenised text.

    Attributes:
        title: name of the published corpus; "" for the user's own text.
        sizes: number of lines and words of each split of the published corpus.
        unit: what a word of the text is, for the log.
    """

    title: str = ""
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unit: str = "words"

    def write(
        self,
        read: Callable[[], Mapping[str, Iterable[str]]],
        inputs: dict[str, Any],
        out: Path,
        workers: int,
    ) -> None:
        """Binarise the lines of each split that *read* returns to ``out/data-bin``.

        Args:
            inputs: everything that determines the lines, as JSON values.
        """

        def binarize(folder: Path) -> None:
            texts = folder / "texts"
            texts.mkdir()
            splits = read()
            for split, lines in splits.items():
                write_lines(texts / split, self.count(split, lines))
            fairseq_preprocess(
                "--only-source",
                *(f"--{split}pref={texts / split}" for split in splits),
                *["--destdir", str(folder), "--workers", str(workers)],
            )
            shutil.rmtree(texts)
            check_data(folder)

        step("binarising the text (fairseq-preprocess)", out / "data-bin", inputs, binarize)

    def count(self, split: str, text: Iterable[str]) -> Iterator[str]:
        """Pass on a text and log its size; warn if it differs from the published size."""
        lines = words = 0
        for line in text:
            lines, words = lines + 1, words + len(line.split())
            yield line
        logger.info(f"{split}: {lines:,} lines, {words:,} {self.unit}")
        if self.sizes and (lines, words) != self.sizes[split]:
            logger.warning(
                "{}: the published {} has {:,} lines and {:,} words; perplexities on different "
                "text are not comparable with the papers'".format(
                    split, self.title, *self.sizes[split]
                )
            )


def text_corpus(writer: Lines, downloads: Sequence[Download]) -> Corpus[Lines]:
    """Make a corpus with one file per split; the last file, the test set, may be missing."""
    return Corpus(downloads, read_texts, writer, [downloads[-1].files[-1]])


def read_texts(files: Files) -> dict[str, Iterator[str]]:
    return {split: clean_lines(path) for split, path in zip(SPLITS, files.values())}


def clean_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file, which fairseq would also end at carriage returns.

    Raises:
        InputError: a line contains a carriage return or one of fairseq's symbols, or the file
            contains no words.
    """
    empty = True
    for number, line in enumerate(read_text(path), start=1):
        if "\r" in line:
            raise InputError(f"{path}, line {number}: a carriage return within the line; divide it")
        if symbols := RESERVED.intersection(line.split()):
            raise InputError(
                f"{path}, line {number}: {' '.join(sorted(symbols))} is a symbol of fairseq; "
                "replace it"
            )
        empty = empty and not line.split()
        yield line
    if empty:
        raise InputError(f"{path} is empty; give a file with lines of text")


def divide(path: Path) -> dict[str, Iterator[str]]:
    """Divide one text: its last tenth becomes ``test``, the tenth before it ``valid``.

    Only lines with words count; blank lines at the end are left out.

    Raises:
        InputError: fewer than ten lines have words.
    """
    worded = [n for n, line in enumerate(clean_lines(path)) if line.split()]
    tenth = len(worded) // 10
    if not tenth:
        raise InputError(
            f"{path} has {len(worded)} lines with words; 10 or more are needed to divide it"
        )
    bounds = pairwise([0, worded[-2 * tenth], worded[-tenth], worded[-1] + 1])
    return {split: islice(clean_lines(path), *part) for split, part in zip(SPLITS, bounds)}


def characters(line: str) -> str:
    """Turn each character of a line into a word, and spaces into the word ``\u2581``."""
    return " ".join(SPACE if character.isspace() else character for character in line)


def prepare_lines(name: str, source: str, corpus: Corpus[Lines], arguments: Sequence[str]) -> None:
    """Run the command ``odeformers prepare {name}``.

    Args:
        source: help of ``--from``.
    """
    title = corpus.writer.title
    text = f"the {title}" if title else "your own tokenised text"
    what = f"Prepare {text} for fairseq-train --task language_modeling."
    parser = make_parser(name, what, source, required=not title)
    parser.set_defaults(characters=False)
    if not title:
        what = f"treat each character as a word, and write each space as the word {SPACE}"
        parser.add_argument("--characters", action="store_true", help=what)
    args = parse_options(parser, arguments)
    whole = None
    if not title and args.source.is_file() and not is_archive(args.source):
        ending = ending_of(args.source)
        if ending in TABLES:
            parser.error(f"--from {args.source}: a table; save its texts, one per line, as .txt")
        whole = corpus.one_text(args.source, ending)
    with preparing(args):
        if whole:
            read, digests = partial(divide, whole), fingerprint_each({"divided": whole})
        else:
            files = corpus.files(args.source, args.out)
            if len(files) < len(SPLITS):
                missing = ", ".join(corpus.optional)
                logger.warning(f"{args.source} has no {missing}; this split is left out")
            read = partial(corpus.read, files)
            digests = dict(zip(SPLITS, fingerprint_each(files).values()))
        inputs: dict[str, Any] = {"texts": digests}
        writer = corpus.writer
        if args.characters:
            inputs["characters"], writer = True, replace(writer, unit="characters")
            read = partial(each_character, read)
        writer.write(read, inputs, args.out, args.workers)


def each_character(read: Callable[[], Mapping[str, Iterable[str]]]) -> dict[str, Iterable[str]]:
    """Divide the lines of each split that *read* returns into :func:`characters`."""
    return {split: map(characters, lines) for split, lines in read().items()}
