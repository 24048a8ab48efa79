"""Tokens of running text: subwords, and fairseq's binary files of words and subwords.

A row consists of texts that belong together, such as a sentence and its translation, or two
sentences and their label. Rows are streamed; only the vocabulary is in memory.
"""

import io
import logging
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, nullcontext, redirect_stderr
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from fairseq.options import get_preprocessing_parser
from fairseq_cli import preprocess

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import read_lines
from fairseq_odeformers.text.raw_text import MAX_WORD_LENGTH, cut_words, read_codes

from .command import show_progress

logger = logging.getLogger(__name__)

CHUNK_SIZE = 256  # small rows that a process handles at a time
MAX_CACHED_WORDS = 200_000
MIN_MERGES, MAX_MERGES = 1000, 10000  # bounds of fit_merges

Item = TypeVar("Item")
Result = TypeVar("Result")
Row = Sequence[str]
SplitRow = tuple[str, Row]  # the name of the split, and the row


def map_rows(
    make_function: Callable[..., Callable[[Item], Result]],
    args: tuple[Any, ...],
    rows: Iterable[Item],
    workers: int,
    label: str,
    chunk_size: int = CHUNK_SIZE,
) -> Iterator[Result]:
    """Apply ``make_function(*args)`` to each row, with a progress bar; the results keep the order.

    Each of *workers* processes makes the function once. A process handles *chunk_size* rows at a
    time, and only a few chunks per process are read before the caller asks for their results. A
    single worker is this process itself.

    Raises:
        BrokenProcessPool: a process was killed, or could not make the function.
        Exception: any error in reading a row or applying the function to it.
    """
    rows = iter(show_progress(rows, label))
    if workers == 1:
        yield from map(make_function(*args), rows)
        return
    with ProcessPoolExecutor(workers, None, _make, (make_function, args)) as pool:
        while block := list(islice(rows, 4 * workers * chunk_size)):
            yield from pool.map(_apply, block, chunksize=chunk_size)


def _make(make_function: Callable[..., Callable], args: tuple[Any, ...]) -> None:
    global _function
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _function = make_function(*args)


def _apply(row: Any) -> Any:
    return _function(row)


def count_words(texts: Iterable[Path]) -> Counter[str]:
    """Count the occurrences of each word in *texts*, except words that are too long for BPE."""
    lines = chain.from_iterable(map(read_lines, texts))
    words = (word for line in lines for word in line.split(" "))
    return Counter(word for word in words if 0 < len(word) <= MAX_WORD_LENGTH)


def fit_merges(texts: Iterable[Path]) -> int:
    """Choose a number of merges for texts: a third of their distinct words, within bounds.

    With more merges, each word would be a token, even if it occurs once. With fewer than
    :data:`MIN_MERGES`, tokens would hardly be longer than letters. Learning may stop earlier.
    """
    words: set[str] = set()
    for line in chain.from_iterable(map(read_lines, texts)):
        words.update(line.split(" "))
        if len(words) >= 3 * MAX_MERGES:
            break
    merges = min(MAX_MERGES, max(MIN_MERGES, len(words) // 3))
    logger.info(f"--bpe-operations: at most {merges:,} merges, chosen by the size of the text")
    return merges


def learn_codes(words: Counter[str], operations: int, path: Path) -> None:
    """Learn the codes of a joint BPE from words and their counts, and write them.

    Raises:
        InputError: no word has two letters.
    """
    from subword_nmt.learn_bpe import learn_bpe

    if not any(len(word) > 1 for word in words):
        raise InputError(
            "no BPE merges: each word of the training text is a letter; give text with longer words"
        )
    lines = [f"{word} {count}" for word, count in words.items()]
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with open(path, "w", encoding="utf-8") as file, quiet:
        learn_bpe(lines, file, operations, is_dict=True)


def make_bpe_encoder(codes: Path) -> Callable[[Row], Row]:
    """Make a function that divides the texts of a row into subwords."""
    bpe = read_codes(codes)

    def encode(row: Row) -> Row:
        if len(bpe.cache) > MAX_CACHED_WORDS:
            bpe.cache.clear()
        return tuple(bpe.segment(cut_words(text)) for text in row)

    return encode


def flatten(splits: Mapping[str, Iterable[Row]]) -> Iterator[SplitRow]:
    """Yield the rows of all splits."""
    for split, rows in splits.items():
        for row in rows:
            yield split, row


def write_rows(rows: Iterable[SplitRow], folder: Path, columns: Sequence[str]) -> None:
    """Write rows to the files ``{split}.{column}``; a split may lack the last columns."""
    with ExitStack() as stack:
        files = {}
        for split, row in rows:
            if split not in files:
                paths = [folder / f"{split}.{column}" for column, _ in zip(columns, row)]
                files[split] = [
                    stack.enter_context(open(path, "w", encoding="utf-8")) for path in paths
                ]
            for file, text in zip(files[split], row):
                file.write(text + "\n")


def read_rows(folder: Path, columns: Sequence[str]) -> dict[str, Iterator[Row]]:
    """Read the rows of each split that :func:`write_rows` has written."""
    splits = sorted(path.stem for path in folder.glob(f"*.{columns[0]}"))
    paths = {split: [folder / f"{split}.{column}" for column in columns] for split in splits}
    return {split: zip(*map(read_lines, filter(Path.exists, paths[split]))) for split in splits}


def fairseq_preprocess(*argv: str) -> None:
    """Run ``fairseq-preprocess`` without its log of each file and of all options."""
    args = get_preprocessing_parser().parse_args(argv)
    log = preprocess.logger
    handlers = len(log.handlers)
    log.setLevel(logging.WARNING)
    try:
        preprocess.main(args)
    finally:
        for handler in log.handlers[handlers:]:  # the handler that writes preprocess.log
            log.removeHandler(handler)
            handler.close()
    Path(args.destdir, "preprocess.log").unlink()
