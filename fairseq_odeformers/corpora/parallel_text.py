"""From raw parallel text to a folder that ``fairseq-train`` reads.

The recipe follows fairseq's translation examples: Moses tokenisation, cleaning of the training
pairs by length, lower-casing, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. Raw text is UTF-8 with one sentence a line.
"""

import itertools
import logging
import os
import shutil
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.corpora.text import (
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
        max_tokens: longest side of a training pair, before the byte-pair encoding.
        max_ratio: largest ratio between the tokens of the two sides of a training pair.
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
    valid_interval: int | None = None


def prepare(raw: Files, out: Path, recipe: Recipe, workers: int | None = None) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    Training pairs are dropped if a side is empty or too long, or if the two sides differ too much
    in length. The pairs of the other splits are all kept, so that they stay aligned with the raw
    text: fairseq translates an empty line like any other, but ``fairseq-generate`` needs
    ``--skip-invalid-size-inputs-valid-test`` for more than 1,024 tokens.

    A call that was interrupted resumes with the step it was in, and steps whose inputs and options
    have not changed are not repeated. The result does not depend on *workers*.

    Args:
        raw: source and target file of each split: ``train``, ``valid``, and test sets whose names
            begin with ``test``.
        out: folder for what the steps leave: ``tokenized``, ``bpe`` and ``data-bin``.
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
    langs, interval = recipe.langs, recipe.valid_interval
    workers = workers or os.cpu_count()
    tokenized, bpe, data_bin = (out / step for step in ("tokenized", "bpe", "data-bin"))

    def tokenize(folder: Path) -> None:
        for split, files in raw.items():
            pairs = _map_pairs(_pair_tokenizer, (recipe, split), files, workers, "tokenizing")
            splits = [split]
            if split == "train":
                pairs = _clean(pairs, recipe)
                if interval:
                    splits = ["train"] * (interval - 1) + ["valid"]
            write_rows(zip(itertools.cycle(splits), pairs), folder, langs)
        if interval and "valid" not in _splits(folder, langs):
            raise ValueError(f"cleaning leaves fewer than {interval} training pairs")

    def encode(folder: Path) -> None:
        code = folder / "code"
        train = (read_lines(tokenized / f"train.{lang}") for lang in langs)
        learn_codes(itertools.chain(*train), recipe.bpe_operations, code)
        for split, files in _splits(tokenized, langs).items():
            pairs = _map_pairs(bpe_encoder, (code,), files, workers, "encoding")
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
        shutil.copy(bpe / "code", folder)

    fingerprint = {"raw": {split: fingerprints(files) for split, files in raw.items()}}
    fingerprint.update(asdict(recipe))
    operations = fingerprint.pop("bpe_operations")
    build(tokenized, fingerprint, tokenize)
    fingerprint["bpe_operations"] = operations
    build(bpe, fingerprint, encode)
    build(data_bin, fingerprint, binarize)
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


def _splits(folder: Path, langs: tuple[str, str]) -> Files:
    """The files of each split in *folder*."""
    source, target = langs
    names = sorted(path.stem for path in folder.glob(f"*.{source}"))
    return {name: (folder / f"{name}.{source}", folder / f"{name}.{target}") for name in names}


def _map_pairs(
    make_function: Callable, args: tuple, files: tuple[Path, Path], workers: int, label: str
) -> Iterable[Pair]:
    logger.info(f"{label} {files[0].stem}")
    pairs = zip(*map(read_lines, files))
    return map_rows(make_function, args, pairs, workers, label, count_pairs(*files))


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


def _clean(pairs: Iterable[Pair], recipe: Recipe) -> Iterator[Pair]:
    """Drop pairs with an empty or long side or of very different lengths; log how many."""
    counts = Counter()
    for pair in pairs:
        short, long = sorted(len(sentence.split()) for sentence in pair)
        if short == 0:
            verdict = "empty"
        elif long > recipe.max_tokens:
            verdict = "long"
        elif long > recipe.max_ratio * short:
            verdict = "uneven"
        else:
            verdict = "kept"
            yield pair
        counts[verdict] += 1
    logger.info(
        f"cleaning kept {counts['kept']:,} pairs and dropped {counts['empty']:,} with an empty "
        f"side, {counts['long']:,} of more than {recipe.max_tokens} tokens and "
        f"{counts['uneven']:,} with a length ratio above {recipe.max_ratio}"
    )
    if not counts["kept"]:
        raise ValueError("cleaning leaves no training pair")
