"""From raw parallel text to a folder that ``fairseq-train`` reads.

The recipe is that of fairseq's translation examples: Moses tokenisation, cleaning of the training
pairs by length, lower-casing, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. Raw text is UTF-8 with one sentence a line.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Callable

from fairseq_odeformers.corpora.text import (
    TOKENS,
    bpe_encoder,
    fairseq_preprocess,
    learn_codes,
    map_rows,
    moses_tokenizer,
    write_rows,
)
from fairseq_odeformers.files import build, fingerprints, read_lines

logger = logging.getLogger(__name__)

Pair = tuple[str, str]  # a sentence and its translation
Files = dict[str, tuple[Path, Path]]  # source and target file of each split


def prepare(
    raw: Files,
    out: Path,
    source_lang: str,
    target_lang: str,
    bpe_operations: int,
    lowercase: bool = True,
    normalized_splits: Sequence[str] = (),
    aggressive_hyphens: bool = False,
    max_tokens: int = 175,
    max_ratio: float = 1.5,
    valid_interval: int | None = None,
    workers: int | None = None,
) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    Training pairs are dropped if a side is empty or longer than *max_tokens*, or if one side has
    more than *max_ratio* times the tokens of the other. The pairs of the other splits are all kept,
    so that they stay aligned with the raw text: fairseq translates an empty line like any other,
    but ``fairseq-generate`` needs ``--skip-invalid-size-inputs-valid-test`` for more than 1,024
    tokens.

    A call that was interrupted resumes with the step it was in, and steps whose inputs and options
    have not changed are not repeated. The result does not depend on *workers*.

    Args:
        raw: source and target file of each split (``train``, ``valid``, ``test``, and test sets
            whose names begin so).
        out: folder for what the steps leave: ``tokenized``, ``bpe`` and ``data-bin``.
        bpe_operations: merges of the joint byte-pair encoding, learnt on the training pairs.
        lowercase: whether to lower-case the text.
        normalized_splits: the splits whose text first goes through the Moses punctuation normaliser
            and has its non-printing characters replaced by spaces.
        aggressive_hyphens: whether to split words at hyphens (``a-b`` to ``a @-@ b``).
        max_tokens: of a side of a training pair, before the byte-pair encoding.
        max_ratio: of the tokens of the two sides of a training pair.
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
            options = (langs, lowercase, split in normalized_splits, aggressive_hyphens)
            pairs = _map_pairs(_pair_tokenizer, options, files, workers, f"tokenizing {split}")
            splits = [split]
            if split == "train":
                pairs = _clean(pairs, max_tokens, max_ratio)
                if valid_interval:
                    splits = ["train"] * (valid_interval - 1) + ["valid"]
            write_rows(zip(itertools.cycle(splits), pairs), folder, langs)
        if valid_interval and "valid" not in _splits(folder, langs):
            raise ValueError(f"cleaning leaves fewer than {valid_interval} training pairs")

    def encode(folder: Path) -> None:
        code = folder / "code"
        train = (read_lines(tokenized / f"train.{lang}") for lang in langs)
        learn_codes(itertools.chain(*train), bpe_operations, code)
        for split, files in _splits(tokenized, langs).items():
            pairs = _map_pairs(bpe_encoder, (code,), files, workers, f"encoding {split}")
            write_rows(zip(itertools.repeat(split), pairs), folder, langs)

    def binarize(folder: Path) -> None:
        splits = _splits(bpe, langs)
        tests = [split for split in splits if split.startswith("test")]
        fairseq_preprocess(
            *["--source-lang", source_lang, "--target-lang", target_lang, "--joined-dictionary"],
            *(f"--{split}pref={bpe / split}" for split in splits if split not in tests),
            f"--testpref={','.join(str(bpe / split) for split in tests)}",
            *["--destdir", str(folder), "--workers", str(workers)],
        )
        for number, split in reversed(list(enumerate(tests))):  # fairseq counts test, test1, ...
            for path in folder.glob(f"test{number or ''}.*"):
                path.rename(folder / f"{split}{path.name[path.name.index('.') :]}")
        shutil.copy(bpe / "code", folder)

    recipe = {
        "raw": {split: fingerprints(files) for split, files in raw.items()},
        "tokens": TOKENS,
        "langs": langs,
        "lowercase": lowercase,
        "normalized_splits": normalized_splits,
        "aggressive_hyphens": aggressive_hyphens,
        "max_tokens": max_tokens,
        "max_ratio": max_ratio,
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


def _splits(folder: Path, langs: Sequence[str]) -> Files:
    """The files of each split in *folder*."""
    source, target = langs
    names = sorted(path.stem for path in folder.glob(f"*.{source}"))
    return {name: (folder / f"{name}.{source}", folder / f"{name}.{target}") for name in names}


def _map_pairs(
    make_function: Callable, args: tuple, files: tuple[Path, Path], workers: int, label: str
) -> Iterable[Pair]:
    logger.info(label)
    pairs = zip(*map(read_lines, files))
    return map_rows(make_function, args, pairs, workers, label, count_pairs(*files))


def _pair_tokenizer(
    langs: Sequence[str], lowercase: bool, normalize: bool, aggressive_hyphens: bool
) -> Callable[[Pair], Pair]:
    from sacremoses import MosesPunctNormalizer

    normalizers = [MosesPunctNormalizer(lang) for lang in langs]
    tokenizers = [moses_tokenizer(lang, aggressive_hyphens) for lang in langs]

    def tokenize(pair: Pair) -> Pair:
        if normalize:
            texts = (n.normalize(text) for n, text in zip(normalizers, pair))
            pair = tuple(map(_replace_non_printing, texts))
        texts = (tokenize(text) for tokenize, text in zip(tokenizers, pair))
        return tuple(text.lower() if lowercase else text for text in texts)

    return tokenize


def _replace_non_printing(text: str) -> str:
    """*text* with a space for each character of the Unicode categories C (control, format, ...)."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


def _clean(pairs: Iterable[Pair], max_tokens: int, max_ratio: float) -> Iterator[Pair]:
    """Drop pairs with an empty or long side or of very different lengths; log how many."""
    counts = Counter()
    for pair in pairs:
        short, long = sorted(len(sentence.split()) for sentence in pair)
        if short == 0:
            verdict = "empty"
        elif long > max_tokens:
            verdict = "long"
        elif long > max_ratio * short:
            verdict = "uneven"
        else:
            verdict = "kept"
            yield pair
        counts[verdict] += 1
    logger.info(
        f"cleaning kept {counts['kept']:,} pairs and dropped {counts['empty']:,} with an empty "
        f"side, {counts['long']:,} of more than {max_tokens} tokens and {counts['uneven']:,} with "
        f"a length ratio above {max_ratio}"
    )
    if not counts["kept"]:
        raise ValueError("cleaning leaves no training pair")
