"""From raw parallel text to a folder that ``fairseq-train`` reads.

The steps follow fairseq's translation examples: Moses tokenisation, lower-casing, cleaning of the
training pairs by length, a joint byte-pair encoding, and ``fairseq-preprocess`` with a joined
dictionary. The splits are ``train``, ``valid``, and test sets whose names begin with ``test``.
"""

import logging
import shutil
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.data.moses import make_moses_tokenizer
from fairseq_odeformers.files import build, read_lines

from . import tokens

logger = logging.getLogger(__name__)

SplitPair = tuple[str, tokens.Row]  # the name of a split; a sentence of it and its translation


@dataclass(frozen=True)
class Preparation:
    """How a parallel corpus is prepared.

    Attributes:
        langs: source and target language.
        bpe_operations: merges of the joint byte-pair encoding, learned on the training pairs; None
            to fit them to these pairs.
        lowercase: whether to lower-case the text.
        normalized_splits: splits whose text first goes through the Moses punctuation normaliser and
            has its non-printing characters replaced by spaces.
        aggressive_hyphens: whether to split words at hyphens (``a-b`` to ``a @-@ b``).
        max_tokens: longest side of a training pair.
        max_ratio: largest ratio between the lengths of the two sides of a training pair.
        clean_byte_pairs: whether these lengths are counted in subwords, not in Moses tokens. The
            encoding is then learned before the cleaning.
        valid_interval: N, if every N-th cleaned training pair goes to ``valid``, in a corpus that
            has no such split.
    """

    langs: tuple[str, str]
    bpe_operations: int | None
    lowercase: bool = True
    normalized_splits: tuple[str, ...] = ()
    aggressive_hyphens: bool = False
    max_tokens: int = 175
    max_ratio: float = 1.5
    clean_byte_pairs: bool = False
    valid_interval: int | None = None


def prepare(
    rows: Callable[[], Iterable[SplitPair]],
    inputs: dict[str, Any],
    out: Path,
    preparation: Preparation,
    workers: int,
) -> Path:
    """Tokenise, clean, encode and binarise a parallel corpus.

    The pairs of ``valid`` and test sets are all kept, so that they stay aligned with the text:
    fairseq translates an empty line like any other, but ``fairseq-generate`` needs
    ``--skip-invalid-size-inputs-valid-test`` for more than 1,024 tokens.

    Args:
        rows: returns the pairs of all splits; called only if a step has to read them.
        inputs: all that determines the rows, as JSON values.
        out: folder with a folder for the result of each step: ``tokenized``, ``plain``, ``codes``,
            ``bpe`` and ``data-bin``.

    Returns:
        ``out/data-bin``: the binarised text, the dictionaries, and in ``code`` the byte-pair
        encoding, as ``fairseq-interactive --bpe subword_nmt --bpe-codes`` takes it.
    """
    langs = preparation.langs
    tokenized, codes, bpe, data_bin = (
        out / step for step in ("tokenized", "codes", "bpe", "data-bin")
    )
    all_inputs = {**inputs, **asdict(preparation)}
    later = ["bpe_operations"]  # options that the tokenised text does not depend on
    if preparation.clean_byte_pairs:
        later += ["max_tokens", "max_ratio"]
    text_inputs = {name: value for name, value in all_inputs.items() if name not in later}
    build(tokenized, text_inputs, partial(tokenize, rows, preparation, workers))
    train = [tokenized / f"train.{lang}" for lang in langs]
    merges = preparation.bpe_operations
    if merges is None:
        merges = all_inputs["bpe_operations"] = tokens.fit_merges(train)
    codes_inputs = {**text_inputs, "bpe_operations": merges}
    build(out / "plain", {**inputs, "langs": langs}, partial(write_references, rows, langs))
    build(codes, codes_inputs, partial(learn_codes, train, merges))
    build(bpe, all_inputs, partial(encode, tokenized, codes, preparation, workers))
    build(data_bin, all_inputs, partial(binarize, bpe, codes, langs, workers))
    return data_bin


def tokenize(
    rows: Callable[[], Iterable[SplitPair]], preparation: Preparation, workers: int, folder: Path
) -> None:
    """Write all splits in Moses tokens, cleaned if lengths are counted in these.

    All rows are read first: a bad line ends this before the minutes that the tokenising takes.
    """
    deque(tokens.show_progress(rows(), "checking"), maxlen=0)
    pairs = tokens.map_rows(_make_tokenizer, (preparation,), rows(), workers, "tokenizing")
    if not preparation.clean_byte_pairs:
        pairs = clean(pairs, preparation)
    tokens.write_rows(pairs, folder, preparation.langs)


def write_references(
    rows: Callable[[], Iterable[SplitPair]], langs: tuple[str, str], folder: Path
) -> None:
    """Write all rows but the training pairs as they come: references of translations."""
    tokens.write_rows((row for row in rows() if row[0] != "train"), folder, langs)


def learn_codes(texts: Sequence[Path], merges: int, folder: Path) -> None:
    """Learn the joint byte-pair encoding of the training pairs."""
    tokens.learn_codes(tokens.count_words(texts), merges, folder / "code")


def encode(
    tokenized: Path, codes: Path, preparation: Preparation, workers: int, folder: Path
) -> None:
    """Write all splits in subwords, cleaned if lengths are counted in subwords."""
    rows = read_rows(tokenized, preparation.langs)
    pairs = tokens.map_rows(_make_encoder, (codes / "code",), rows, workers, "encoding")
    if preparation.clean_byte_pairs:
        pairs = clean(pairs, preparation)
    tokens.write_rows(pairs, folder, preparation.langs)


def binarize(bpe: Path, codes: Path, langs: tuple[str, str], workers: int, folder: Path) -> None:
    """Run ``fairseq-preprocess``, and give test sets their names; fairseq counts them."""
    tests = sorted(path.stem for path in bpe.glob(f"test*.{langs[0]}"))
    tokens.fairseq_preprocess(
        *["--source-lang", langs[0], "--target-lang", langs[1], "--joined-dictionary"],
        *["--trainpref", str(bpe / "train"), "--validpref", str(bpe / "valid")],
        f"--testpref={','.join(str(bpe / split) for split in tests)}",
        *["--destdir", str(folder), "--workers", str(workers)],
    )
    endings = [f".{'-'.join(langs)}.{lang}.{kind}" for lang in langs for kind in ("bin", "idx")]
    # From the last set down: the new name of one may be fairseq's name of a later one.
    for number, split in reversed(list(enumerate(tests))):
        for ending in endings:
            (folder / f"test{number or ''}{ending}").rename(folder / f"{split}{ending}")
    shutil.copy(codes / "code", folder)


def read_rows(folder: Path, langs: tuple[str, str]) -> Iterator[SplitPair]:
    """The rows in a folder of text files."""
    for split in sorted(path.stem for path in folder.glob(f"*.{langs[0]}")):
        for pair in zip(*(read_lines(folder / f"{split}.{lang}") for lang in langs)):
            yield split, pair


def _make_tokenizer(preparation: Preparation) -> Callable[[SplitPair], SplitPair]:
    langs = preparation.langs
    normalizers = [MosesPunctNormalizer(lang) for lang in langs]
    tokenizers = [make_moses_tokenizer(lang, preparation.aggressive_hyphens) for lang in langs]

    def tokenize_row(row: SplitPair) -> SplitPair:
        split, pair = row
        if split in preparation.normalized_splits:
            texts = (n.normalize(text) for n, text in zip(normalizers, pair))
            pair = tuple(map(_replace_non_printing, texts))
        texts = (tokenize_text(text) for tokenize_text, text in zip(tokenizers, pair))
        return split, tuple(text.lower() if preparation.lowercase else text for text in texts)

    return tokenize_row


def _replace_non_printing(text: str) -> str:
    """*text* with a space for each character of the Unicode categories C (control, format, ...)."""
    if text.isprintable():
        return text
    return "".join(" " if unicodedata.category(c).startswith("C") else c for c in text)


def _make_encoder(code: Path) -> Callable[[SplitPair], SplitPair]:
    encode_texts = tokens.make_bpe_encoder(code)
    return lambda row: (row[0], encode_texts(row[1]))


def clean(rows: Iterable[SplitPair], preparation: Preparation) -> Iterator[SplitPair]:
    """Leave out training pairs with an empty or long side or of very different lengths.

    Of those that are kept, every ``valid_interval``-th goes to ``valid``.
    """
    unit = "subwords" if preparation.clean_byte_pairs else "tokens"
    splits = ["train"]
    if preparation.valid_interval:
        splits = ["train"] * (preparation.valid_interval - 1) + ["valid"]
    kept = empty = long = uneven = 0
    for split, pair in rows:
        shorter, longer = sorted(len(sentence.split()) for sentence in pair)
        if split != "train":
            yield split, pair
        elif shorter == 0:
            empty += 1
        elif longer > preparation.max_tokens:
            long += 1
        elif longer > preparation.max_ratio * shorter:
            uneven += 1
        else:
            yield splits[kept % len(splits)], pair
            kept += 1
    logger.info(
        f"cleaning leaves {kept:,} training pairs; left out are {empty:,} with an empty side, "
        f"{long:,} with more than {preparation.max_tokens} {unit}, and {uneven:,} with a ratio "
        f"above {preparation.max_ratio:g}"
    )
    if kept < len(splits):
        raise ValueError(
            f"cleaning leaves {kept} training pairs; needed are {len(splits)} or more. For text "
            "without spaces between words, divide it into words first, or give a larger --max-ratio"
        )
