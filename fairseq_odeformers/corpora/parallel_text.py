"""From raw parallel text to a folder that ``fairseq-train`` reads.

The recipe follows fairseq's translation examples: Moses tokenisation, lower-casing, cleaning of the
training pairs by length, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. Raw text is UTF-8 with one sentence a line.
"""

import csv
import itertools
import logging
import os
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.corpora.text import (
    bpe_encoder,
    count_words,
    fairseq_preprocess,
    learn_codes,
    map_rows,
    moses_tokenizer,
    write_rows,
)
from fairseq_odeformers.files import build, fingerprints, markdown_table, read_lines, write_csv

logger = logging.getLogger(__name__)

LEFT_OUT = "left_out.csv"

Pair = tuple[str, str]  # a sentence and its translation


@dataclass(frozen=True)
class Recipe:
    """How a parallel corpus is prepared.

    Attributes:
        langs: source and target language.
        bpe_operations: merges of the joint byte-pair encoding, learnt on the training pairs.
        lowercase: whether to lower-case the text.
        normalized_splits: splits whose text first goes through the Moses punctuation normaliser and
            has its non-printing characters replaced by spaces.
        aggressive_hyphens: whether to split words at hyphens (``a-b`` to ``a @-@ b``).
        max_tokens: longest side of a training pair.
        max_ratio: largest ratio between the lengths of the two sides of a training pair.
        clean_byte_pairs: whether these lengths are counted in byte pairs, not in Moses tokens. The
            encoding is then learnt before the cleaning.
        valid_interval: every how many-th cleaned training pair goes to ``valid`` instead, for
            corpora that have no such split.
    """

    langs: tuple[str, str]
    bpe_operations: int
    lowercase: bool = True
    normalized_splits: tuple[str, ...] = ()
    aggressive_hyphens: bool = False
    max_tokens: int = 175
    max_ratio: float = 1.5
    clean_byte_pairs: bool = False
    valid_interval: int | None = None


def prepare(
    rows: Callable[[], Iterable[tuple[str, Pair]]],
    made_of: dict[str, Any],
    out: Path,
    recipe: Recipe,
    workers: int | None = None,
) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    Training pairs are dropped if a side is empty or too long, or if the two sides differ too much
    in length; a table in the log says how many. The pairs of the other splits are all kept, so that
    they stay aligned with the text: fairseq translates an empty line like any other, but
    ``fairseq-generate`` needs ``--skip-invalid-size-inputs-valid-test`` for more than 1,024 tokens.

    A call that was interrupted resumes with the step it was in, and steps whose inputs and options
    have not changed are not repeated. The result does not depend on *workers*.

    Args:
        rows: gives each pair after the name of its split: ``train``, ``valid``, or a test set whose
            name begins with ``test``.
        made_of: all that determines the rows, as JSON values.
        out: folder for what the steps leave: ``plain``, ``tokenized``, ``codes``, ``bpe`` and
            ``data-bin``.
        workers: number of processes (default: one a core).

    Returns:
        ``out/data-bin``: the binarised text, the dictionaries, and in ``code`` the byte-pair
        encoding, as ``fairseq-interactive --bpe subword_nmt --bpe-codes`` takes it.

    Raises:
        ValueError: *rows* has raised it; cleaning leaves no pair, or none for ``valid``.
    """
    langs = recipe.langs
    workers = workers or os.cpu_count()
    plain, tokenized, codes, bpe, data_bin = (
        out / step for step in ("plain", "tokenized", "codes", "bpe", "data-bin")
    )
    build(plain, {**made_of, "langs": langs}, lambda folder: write_rows(rows(), folder, langs))
    raw = _splits(plain, langs)

    def read(files: tuple[Path, Path]) -> Iterable[Pair]:
        return zip(*map(read_lines, files))

    def tokenize(folder: Path) -> None:
        for split, files in raw.items():
            pairs = map_rows(
                _pair_tokenizer, (recipe, split), read(files), workers, f"tokenizing {split}"
            )
            write(split, pairs, folder, clean=not recipe.clean_byte_pairs)

    def learn(folder: Path) -> None:
        words = count_words(tokenized / f"train.{lang}" for lang in langs)
        learn_codes(words, recipe.bpe_operations, folder / "code")

    def encode(folder: Path) -> None:
        for split, files in _splits(tokenized, langs).items():
            pairs = map_rows(
                bpe_encoder, (codes / "code",), read(files), workers, f"encoding {split}"
            )
            write(split, pairs, folder, clean=recipe.clean_byte_pairs)

    def write(split: str, pairs: Iterable[Pair], folder: Path, clean: bool) -> None:
        if clean and split == "train":
            write_rows(_clean(pairs, recipe, folder / LEFT_OUT), folder, langs)
        else:
            write_rows(zip(itertools.repeat(split), pairs), folder, langs)

    def binarize(folder: Path) -> None:
        splits = _splits(bpe, langs)
        tests = [split for split in splits if split.startswith("test")]
        fairseq_preprocess(
            *["--source-lang", langs[0], "--target-lang", langs[1], "--joined-dictionary"],
            *(f"--{split}pref={bpe / split}" for split in splits if split not in tests),
            f"--testpref={','.join(str(bpe / split) for split in tests)}",
            *["--destdir", str(folder), "--workers", str(workers)],
        )
        for number, split in reversed(list(enumerate(tests))):  # fairseq counts test, test1, ...
            for path in folder.glob(f"test{number or ''}.*"):
                path.rename(folder / f"{split}{path.name[path.name.index('.') :]}")
        shutil.copy(codes / "code", folder)

    everything = {
        "raw": {split: fingerprints(files) for split, files in raw.items()},
        **asdict(recipe),
    }
    later = ["bpe_operations", *(["max_tokens", "max_ratio"] if recipe.clean_byte_pairs else [])]
    text = {name: value for name, value in everything.items() if name not in later}
    build(tokenized, text, tokenize)
    build(codes, {**text, "bpe_operations": recipe.bpe_operations}, learn)
    build(bpe, everything, encode)
    build(data_bin, everything, binarize)
    cleaned = bpe if recipe.clean_byte_pairs else tokenized
    sizes = {split: sum(1 for _ in read_lines(source)) for split, (source, _) in raw.items()}
    logger.info(f"pairs of each split:\n{_table(sizes, cleaned / LEFT_OUT)}")
    return data_bin


def _splits(folder: Path, langs: tuple[str, str]) -> dict[str, tuple[Path, Path]]:
    """Source and target file of each split in *folder*, test sets last."""
    source, target = langs
    names = [path.stem for path in folder.glob(f"*.{source}")]
    names.sort(key=lambda name: (name.startswith("test"), name))
    return {name: (folder / f"{name}.{source}", folder / f"{name}.{target}") for name in names}


def _pair_tokenizer(recipe: Recipe, split: str) -> Callable[[Pair], Pair]:
    normalizers = [MosesPunctNormalizer(lang) for lang in recipe.langs]
    tokenizers = [moses_tokenizer(lang, recipe.aggressive_hyphens) for lang in recipe.langs]

    def tokenize(pair: Pair) -> Pair:
        if split in recipe.normalized_splits:
            texts = (n.normalize(text) for n, text in zip(normalizers, pair))
            pair = tuple(map(_replace_non_printing, texts))
        texts = (tokenize(text) for tokenize, text in zip(tokenizers, pair))
        return tuple(text.lower() if recipe.lowercase else text for text in texts)

    return tokenize


def _replace_non_printing(text: str) -> str:
    """*text* with a space for each character of the Unicode categories C (control, format, ...)."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


def _clean(pairs: Iterable[Pair], recipe: Recipe, report: Path) -> Iterator[tuple[str, Pair]]:
    """The split, ``train`` or ``valid``, of each training pair, and the pair.

    Pairs with an empty or long side or of very different lengths are left out; the file *report*
    says how many.

    Raises:
        ValueError: no pair is left for a split.
    """
    unit = "byte pairs" if recipe.clean_byte_pairs else "tokens"
    empty, long, uneven = counts = (
        "empty side",
        f"over {recipe.max_tokens} {unit}",
        f"ratio over {recipe.max_ratio:g}",
    )
    left_out = Counter(dict.fromkeys(counts, 0))
    splits = ["train"]
    if recipe.valid_interval:
        splits = ["train"] * (recipe.valid_interval - 1) + ["valid"]
    kept = 0
    for pair in pairs:
        shorter, longer = sorted(len(sentence.split()) for sentence in pair)
        if shorter == 0:
            left_out[empty] += 1
        elif longer > recipe.max_tokens:
            left_out[long] += 1
        elif longer > recipe.max_ratio * shorter:
            left_out[uneven] += 1
        else:
            yield splits[kept % len(splits)], pair
            kept += 1
    if kept < len(splits):
        raise ValueError(
            f"cleaning leaves {kept} training pairs of {kept + left_out.total():,}; needed are "
            f"{len(splits)} or more. Left out: {dict(left_out)}"
        )
    write_csv(report, [left_out])


def _table(sizes: dict[str, int], report: Path) -> str:
    """How many pairs each split of the raw text has, and how many were left out for what."""
    with open(report, encoding="utf-8", newline="") as file:
        [left_out] = csv.DictReader(file)
    rows = [["split", "pairs", *left_out, "left"]]
    for split, size in sizes.items():
        numbers = [int(text) if split == "train" else 0 for text in left_out.values()]
        rows.append([split, *(f"{n:,}" for n in (size, *numbers, size - sum(numbers)))])
    return markdown_table(rows)
