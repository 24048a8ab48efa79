"""From raw parallel text to a folder that ``fairseq-train`` reads.

The recipe is that of fairseq's translation examples: Moses tokenisation, cleaning of the training
pairs by length, lower-casing, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. Raw text is UTF-8 with one sentence a line.
"""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Callable

from fairseq import options
from fairseq_cli import preprocess
from sacremoses import MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from fairseq_odeformers.data.steps import build, fingerprints

logger = logging.getLogger(__name__)

MAX_TOKENS = 175
MAX_RATIO = 1.5

Pair = tuple[str, str]  # a sentence and its translation
Files = dict[str, tuple[Path, Path]]  # source and target file of each split


def prepare(
    raw: Files,
    out: Path,
    source_lang: str,
    target_lang: str,
    bpe_operations: int,
    lowercase: bool = True,
    valid_interval: int | None = None,
    workers: int | None = None,
) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    Training pairs are dropped if a side is empty or longer than 175 tokens, or if one side has more
    than 1.5 times the tokens of the other. The pairs of the other splits are all kept, so that they
    stay aligned with the raw text: fairseq translates an empty line like any other, but
    ``fairseq-generate`` needs ``--skip-invalid-size-inputs-valid-test`` for more than 1,024 tokens.

    A call that was interrupted resumes with the step it was in, and steps whose inputs and options
    have not changed are not repeated. The result does not depend on *workers*.

    Args:
        raw: source and target file of each split (``train``, ``valid``, ``test``).
        out: folder for what the steps leave: ``tokenized``, ``bpe`` and ``data-bin``.
        bpe_operations: merges of the joint byte-pair encoding, learnt on the training pairs.
        lowercase: whether to lower-case the text.
        valid_interval: every how many-th cleaned training pair goes to ``valid`` instead, for
            corpora that have no such split.
        workers: number of processes (default: one a core).

    Returns:
        ``out/data-bin``: the binarised text, the dictionaries, and in ``code`` the byte-pair
        encoding, as ``fairseq-interactive --bpe subword_nmt --bpe-codes`` takes it.

    Raises:
        ValueError: the two files of a split differ in their number of lines; a file is empty or not
            UTF-8; cleaning leaves no pair, or none for ``valid``.
    """
    for files in raw.values():
        count_pairs(*files)
    langs = (source_lang, target_lang)
    workers = workers or os.cpu_count()
    tokenized, bpe, data_bin = (out / step for step in ("tokenized", "bpe", "data-bin"))

    def tokenize(folder: Path) -> None:
        for split, files in raw.items():
            logger.info(f"tokenizing {split}")
            pairs = _map_pairs(_moses_tokenizer, (langs, lowercase), files, workers)
            splits = [split]
            if split == "train":
                pairs = _clean(pairs)
                if valid_interval:
                    splits = ["train"] * (valid_interval - 1) + ["valid"]
            _write(zip(itertools.cycle(splits), pairs), folder, langs)
        if valid_interval and "valid" not in _splits(folder, langs):
            raise ValueError(f"cleaning leaves fewer than {valid_interval} training pairs")

    def encode(folder: Path) -> None:
        logger.info(f"learning {bpe_operations:,} BPE operations")
        code = folder / "code"
        train = (read_lines(tokenized / f"train.{lang}") for lang in langs)
        with open(code, "w", encoding="utf-8") as file:
            learn_bpe(itertools.chain(*train), file, bpe_operations)
        for split, files in _splits(tokenized, langs).items():
            logger.info(f"encoding {split}")
            pairs = _map_pairs(_bpe_encoder, (code,), files, workers)
            _write(zip(itertools.repeat(split), pairs), folder, langs)

    def binarize(folder: Path) -> None:
        _fairseq_preprocess(
            *["--source-lang", source_lang, "--target-lang", target_lang, "--joined-dictionary"],
            *(f"--{split}pref={bpe / split}" for split in _splits(bpe, langs)),
            *["--destdir", str(folder), "--workers", str(workers)],
        )
        shutil.copy(bpe / "code", folder)

    recipe = {
        "raw": {split: fingerprints(files) for split, files in raw.items()},
        "langs": langs,
        "lowercase": lowercase,
        "valid_interval": valid_interval,
    }
    build(tokenized, recipe, tokenize)
    recipe = {**recipe, "bpe_operations": bpe_operations}
    build(bpe, recipe, encode)
    build(data_bin, recipe, binarize)
    return data_bin


def count_pairs(source: Path, target: Path) -> int:
    """The number of sentence pairs in two parallel files.

    Raises:
        ValueError: the files have different numbers of lines, or one is empty or not UTF-8.
    """
    lines = [sum(1 for _ in read_lines(path)) for path in (source, target)]
    if lines[0] != lines[1]:
        raise ValueError(f"{source} has {lines[0]:,} lines, but {target} has {lines[1]:,}")
    if lines[0] == 0:
        raise ValueError(f"{source} and {target} are empty")
    return lines[0]


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without "\n"; nothing else ends a line.

    Raises:
        ValueError: a line is not UTF-8.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield line.decode("utf-8").rstrip("\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{path}, line {number}: not UTF-8 ({error.reason})") from error


def _splits(folder: Path, langs: Sequence[str]) -> Files:
    """The files of each split in *folder*."""
    source, target = langs
    return {
        split: (folder / f"{split}.{source}", folder / f"{split}.{target}")
        for split in ("train", "valid", "test")
        if (folder / f"{split}.{source}").exists()
    }


def _write(labelled: Iterable[tuple[str, Pair]], folder: Path, langs: Sequence[str]) -> None:
    """Write each pair to the files of its split."""
    with ExitStack() as stack:
        files = {}
        for split, pair in labelled:
            if split not in files:
                paths = (folder / f"{split}.{lang}" for lang in langs)
                files[split] = [
                    stack.enter_context(open(path, "w", encoding="utf-8")) for path in paths
                ]
            for file, sentence in zip(files[split], pair):
                file.write(sentence + "\n")


def _map_pairs(
    make_function: Callable, args: tuple, files: tuple[Path, Path], workers: int
) -> Iterator[Pair]:
    """Apply ``make_function(*args)``, made once in each of several processes, to pairs in order."""
    pairs = zip(*map(read_lines, files))
    with multiprocessing.Pool(workers, _start_worker, (make_function, args)) as pool:
        results = pool.imap(_work, pairs, chunksize=256)
        yield from tqdm(results, total=count_pairs(*files), unit=" pairs", mininterval=1)


def _start_worker(make_function: Callable, args: tuple) -> None:
    global _function
    _function = make_function(*args)


def _work(pair: Pair) -> Pair:
    return _function(pair)


def _moses_tokenizer(langs: Sequence[str], lowercase: bool) -> Callable[[Pair], Pair]:
    tokenizers = [MosesTokenizer(lang) for lang in langs]

    def tokenize(pair: Pair) -> Pair:
        texts = (" ".join(t.tokenize(text)) for t, text in zip(tokenizers, pair))
        return tuple(text.lower() if lowercase else text for text in texts)

    return tokenize


def _bpe_encoder(code: Path) -> Callable[[Pair], Pair]:
    with open(code, encoding="utf-8") as file:
        bpe = BPE(file)
    return lambda pair: tuple(map(bpe.segment, pair))


def _clean(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Drop pairs with an empty or long side or of very different lengths; log how many."""
    counts = Counter()
    for pair in pairs:
        short, long = sorted(len(sentence.split()) for sentence in pair)
        if short == 0:
            verdict = "empty"
        elif long > MAX_TOKENS:
            verdict = "long"
        elif long > MAX_RATIO * short:
            verdict = "uneven"
        else:
            verdict = "kept"
            yield pair
        counts[verdict] += 1
    logger.info(
        f"cleaning kept {counts['kept']:,} pairs and dropped {counts['empty']:,} with an empty "
        f"side, {counts['long']:,} of more than {MAX_TOKENS} tokens and {counts['uneven']:,} with "
        f"a length ratio above {MAX_RATIO}"
    )
    if not counts["kept"]:
        raise ValueError("cleaning leaves no training pair")


def _fairseq_preprocess(*argv: str) -> None:
    """Run ``fairseq-preprocess``, in a process of its own because it leaves log handlers behind."""
    logger.info(f"fairseq-preprocess {' '.join(argv)}")
    args = options.get_preprocessing_parser().parse_args(argv)
    process = multiprocessing.Process(target=preprocess.main, args=(args,))
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"fairseq-preprocess failed with exit status {process.exitcode}")
    # It names the temporary folder and the number of workers.
    Path(args.destdir, "preprocess.log").unlink()
