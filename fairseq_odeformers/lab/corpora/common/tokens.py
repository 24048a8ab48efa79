"""Tokens of running text: subwords, and fairseq's binary files of words and subwords.

A row is texts that belong together, such as a sentence and its translation, or two sentences and
their label. Rows are streamed; only the vocabulary is held in memory.
"""

import io
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, redirect_stderr
from itertools import chain
from pathlib import Path

from fairseq.options import get_preprocessing_parser
from fairseq_cli import preprocess
from tqdm import tqdm

from fairseq_odeformers.data.raw_text import cut_words, read_codes
from fairseq_odeformers.files import read_lines

from .processes import Item, Result, map_in_processes

logger = logging.getLogger(__name__)

MAX_CACHED_WORDS = 200_000
LEAST_MERGES, MOST_MERGES = 1000, 10000  # that fit a text by default

Row = Sequence[str]


def count_words(texts: Iterable[Path]) -> Counter[str]:
    """The number of occurrences of each word in *texts*."""
    lines = chain.from_iterable(map(read_lines, texts))
    return Counter(word for line in lines for word in cut_words(line).split(" ") if word)


def fit_merges(texts: Iterable[Path]) -> int:
    """A third as many merges as texts have distinct words, within the bounds above.

    More merges would make a token of each word, also of those that occur once. With fewer than
    :data:`LEAST_MERGES`, which learning may not reach, tokens would hardly be longer than letters.
    """
    words: set[str] = set()
    for line in chain.from_iterable(map(read_lines, texts)):
        words.update(line.split(" "))
        if len(words) >= 3 * MOST_MERGES:
            break
    merges = min(MOST_MERGES, max(LEAST_MERGES, len(words) // 3))
    logger.info(f"--bpe-operations: at most {merges:,} merges, chosen by the size of the text")
    return merges


def learn_codes(words: Counter[str], operations: int, path: Path) -> None:
    """Write the codes of a joint byte-pair encoding, learned on words and their counts.

    Raises:
        ValueError: no word has two letters.
    """
    from subword_nmt.learn_bpe import learn_bpe

    lines = [f"{word} {count}" for word, count in words.items()]
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with open(path, "w", encoding="utf-8") as file, quiet:
        try:
            learn_bpe(lines, file, operations, is_dict=True)
        except ValueError as error:
            if "empty" not in str(error):  # max() of nothing
                raise
            raise ValueError("no BPE merges: each word of the training text is a letter") from error


def make_bpe_encoder(codes: Path) -> Callable[[Row], Row]:
    """A function that byte-pair encodes the texts of a row."""
    bpe = read_codes(codes)

    def encode(row: Row) -> Row:
        if len(bpe.cache) > MAX_CACHED_WORDS:
            bpe.cache.clear()
        return tuple(bpe.segment(cut_words(text)) for text in row)

    return encode


def map_rows(
    make_function: Callable[..., Callable[[Item], Result]],
    args: tuple,
    rows: Iterable[Item],
    workers: int,
    label: str,
) -> Iterator[Result]:
    """:func:`map_in_processes` with a progress bar."""
    return show_progress(map_in_processes(make_function, args, rows, workers), label)


def show_progress(rows: Iterable[Item], label: str) -> Iterator[Item]:
    """Rows with a progress bar."""
    return iter(tqdm(rows, label, unit=" lines", mininterval=1, disable=None))


def write_rows(rows: Iterable[tuple[str, Row]], folder: Path, columns: Sequence[str]) -> None:
    """Write rows, each after the name of its split, to the files ``{split}.{column}``."""
    with ExitStack() as stack:
        files = {}
        for split, row in rows:
            if split not in files:
                paths = (folder / f"{split}.{column}" for column in columns)
                files[split] = [
                    stack.enter_context(open(path, "w", encoding="utf-8")) for path in paths
                ]
            for file, text in zip(files[split], row):
                file.write(text + "\n")


def fairseq_preprocess(*argv: str) -> None:
    """Run ``fairseq-preprocess``, without its log: a line per file, and one of all options."""
    args = get_preprocessing_parser().parse_args(argv)
    log = preprocess.logger
    level, handlers = log.level, list(log.handlers)
    log.setLevel(logging.WARNING)
    try:
        preprocess.main(args)
    finally:
        log.setLevel(level)
        for handler in {*log.handlers} - {*handlers}:  # which writes preprocess.log
            log.removeHandler(handler)
            handler.close()
    Path(args.destdir, "preprocess.log").unlink()
