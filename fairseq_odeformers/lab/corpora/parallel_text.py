"""From raw parallel text to a folder that ``fairseq-train`` reads.

The recipe follows fairseq's translation examples: Moses tokenisation, lower-casing, cleaning of the
training pairs by length, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. A row is a pair after the name of its split: ``train``, ``valid``, or a test set whose
name begins with ``test``.
"""

import logging
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.files import build, read_lines

from . import tokens

logger = logging.getLogger(__name__)

Pair = tuple[str, str]  # a sentence and its translation
Row = tuple[str, Pair]


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
    rows: Callable[[], Iterable[Row]],
    made_of: dict[str, Any],
    out: Path,
    recipe: Recipe,
    workers: int,
) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    Training pairs are dropped if a side is empty or too long, or if the two sides differ too much
    in length; the log says how many. The pairs of the other splits are all kept, so that they stay
    aligned with the text: fairseq translates an empty line like any other, but
    ``fairseq-generate`` needs ``--skip-invalid-size-inputs-valid-test`` for more than 1,024 tokens.

    Args:
        rows: gives them; not called if that has been done before.
        made_of: all that determines the rows, as JSON values.
        out: folder for what the steps leave: ``tokenized``, ``codes``, ``bpe`` and ``data-bin``;
            in ``plain`` all rows but the training's as they come, the references of translations.

    Returns:
        ``out/data-bin``: the binarised text, the dictionaries, and in ``code`` the byte-pair
        encoding, as ``fairseq-interactive --bpe subword_nmt --bpe-codes`` takes it.
    """
    langs = recipe.langs
    plain, tokenized, codes, bpe, data_bin = (
        out / step for step in ("plain", "tokenized", "codes", "bpe", "data-bin")
    )

    def write(rows: Iterable[Row], folder: Path, clean: bool) -> None:
        tokens.write_rows(_clean(rows, recipe) if clean else rows, folder, langs)

    def keep(folder: Path) -> None:
        tokens.write_rows((row for row in rows() if row[0] != "train"), folder, langs)

    def tokenize(folder: Path) -> None:
        pairs = tokens.map_rows(_tokenizer, (recipe,), rows(), workers, "tokenizing")
        write(pairs, folder, clean=not recipe.clean_byte_pairs)

    def learn(folder: Path) -> None:
        words = tokens.count_words(tokenized / f"train.{lang}" for lang in langs)
        tokens.learn_codes(words, recipe.bpe_operations, folder / "code")

    def encode(folder: Path) -> None:
        rows = _read(tokenized, langs)
        pairs = tokens.map_rows(_encoder, (codes / "code",), rows, workers, "encoding")
        write(pairs, folder, clean=recipe.clean_byte_pairs)

    def binarize(folder: Path) -> None:
        tests = sorted(path.stem for path in bpe.glob(f"test*.{langs[0]}"))
        tokens.fairseq_preprocess(
            *["--source-lang", langs[0], "--target-lang", langs[1], "--joined-dictionary"],
            *["--trainpref", str(bpe / "train"), "--validpref", str(bpe / "valid")],
            f"--testpref={','.join(str(bpe / split) for split in tests)}",
            *["--destdir", str(folder), "--workers", str(workers)],
        )
        for number, split in reversed(list(enumerate(tests))):  # fairseq counts test, test1, ...
            for path in folder.glob(f"test{number or ''}.*"):
                path.rename(folder / f"{split}{path.name[path.name.index('.') :]}")
        shutil.copy(codes / "code", folder)

    everything = {**made_of, **asdict(recipe)}
    later = ["bpe_operations", *(["max_tokens", "max_ratio"] if recipe.clean_byte_pairs else [])]
    text = {name: value for name, value in everything.items() if name not in later}
    build(tokenized, text, tokenize)
    build(plain, {**made_of, "langs": langs}, keep)
    build(codes, {**text, "bpe_operations": recipe.bpe_operations}, learn)
    build(bpe, everything, encode)
    build(data_bin, everything, binarize)
    return data_bin


def _read(folder: Path, langs: tuple[str, str]) -> Iterator[Row]:
    for split in sorted(path.stem for path in folder.glob(f"*.{langs[0]}")):
        for pair in zip(*(read_lines(folder / f"{split}.{lang}") for lang in langs)):
            yield split, pair


def _tokenizer(recipe: Recipe) -> Callable[[Row], Row]:
    normalizers = [MosesPunctNormalizer(lang) for lang in recipe.langs]
    tokenizers = [tokens.moses_tokenizer(lang, recipe.aggressive_hyphens) for lang in recipe.langs]

    def tokenize(row: Row) -> Row:
        split, pair = row
        if split in recipe.normalized_splits:
            texts = (n.normalize(text) for n, text in zip(normalizers, pair))
            pair = tuple(map(_replace_non_printing, texts))
        texts = (tokenize(text) for tokenize, text in zip(tokenizers, pair))
        return split, tuple(text.lower() if recipe.lowercase else text for text in texts)

    return tokenize


def _replace_non_printing(text: str) -> str:
    """*text* with a space for each character of the Unicode categories C (control, format, ...)."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


def _encoder(codes: Path) -> Callable[[Row], Row]:
    encode = tokens.bpe_encoder(codes)
    return lambda row: (row[0], encode(row[1]))


def _clean(rows: Iterable[Row], recipe: Recipe) -> Iterator[Row]:
    """Leave out training pairs with an empty or long side or of very different lengths.

    Of those that are kept, every ``valid_interval``-th goes to ``valid``.
    """
    unit = "byte pairs" if recipe.clean_byte_pairs else "tokens"
    splits = ["train"]
    if recipe.valid_interval:
        splits = ["train"] * (recipe.valid_interval - 1) + ["valid"]
    kept = empty = long = uneven = 0
    for split, pair in rows:
        if split != "train":
            yield split, pair
            continue
        shorter, longer = sorted(len(sentence.split()) for sentence in pair)
        if shorter == 0:
            empty += 1
        elif longer > recipe.max_tokens:
            long += 1
        elif longer > recipe.max_ratio * shorter:
            uneven += 1
        else:
            yield splits[kept % len(splits)], pair
            kept += 1
    logger.info(
        f"cleaning leaves {kept:,} training pairs; left out are {empty:,} with an empty side, "
        f"{long:,} with more than {recipe.max_tokens} {unit}, and {uneven:,} with a ratio above "
        f"{recipe.max_ratio:g}"
    )
    if kept < len(splits):
        raise ValueError(f"cleaning leaves {kept} training pairs; needed are {len(splits)} or more")
