"""Word pieces of an uncased BERT (Devlin et al. 2019): reading, learning and applying them."""

import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_odeformers.files import read_lines, reading, write_lines

logger = logging.getLogger(__name__)

UNK = "[UNK]"
# This file next to vocab.txt says how texts are normalised. Without it, accents are stripped.
NORMALIZATION = "word_pieces.json"
SPECIAL = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")
MAX_WORD_LENGTH = 100  # letters; longer words are unknown, as in BERT
LONG_RUN = re.compile(rf"\S{{{MAX_WORD_LENGTH + 1}}}")


def read_pieces(path: Path) -> list[str]:
    """Read the word pieces in a ``vocab.txt`` of BERT, in the order of their numbers.

    Raises:
        ValueError: the file is not a vocabulary of BERT.
    """
    pieces: dict[str, int] = {}
    for number, piece in enumerate(read_lines(path), start=1):
        if piece.split() != [piece] or piece in pieces:
            fault = "again" if piece in pieces else "instead of a word piece"
            raise ValueError(
                f"{path}, line {number}: {piece[:40]!r} {fault}; pass the vocab.txt of an uncased "
                "BERT"
            )
        pieces[piece] = number
    if UNK not in pieces:
        raise ValueError(
            f"{path} has no {UNK}: it is not a vocabulary of BERT; pass the vocab.txt of an "
            "uncased BERT"
        )
    return list(pieces)


def write_normalization(vocab: Path, strip_accents: bool) -> None:
    """Write next to a ``vocab.txt`` whether accents and other marks are stripped from texts."""
    text = json.dumps({"strip_accents": strip_accents}) + "\n"
    vocab.with_name(NORMALIZATION).write_text(text, encoding="utf-8")


def load_tokenizer(vocab: Path):
    """Load the tokenizer for a ``vocab.txt`` and the normalisation in the file next to it."""
    path = vocab.with_name(NORMALIZATION)
    strip_accents = True  # older preparations did so without writing the file
    if path.exists():
        with reading(path, "does not say how texts are normalised"):
            strip_accents = bool(json.loads(path.read_text(encoding="utf-8"))["strip_accents"])
    return make_tokenizer(read_pieces(vocab), strip_accents)


def learn_pieces(texts: Sequence[str], size: int, path: Path, strip_accents: bool = True) -> None:
    """Learn *size* word pieces from *texts*, or fewer if the texts have no more, and write them.

    Words that are too long to be divided are left out, since the learning time is quadratic in
    their length. ``tokenizers`` breaks ties between pieces by the numbers of their parts, and it
    numbers the characters within words in random order. Therefore these characters are learned
    first and numbered in a fixed order.

    Raises:
        ValueError: the texts have too many characters for *size*.
    """
    logger.info(f"learning at most {size:,} word pieces")
    texts = [drop_long_words(text, strip_accents) for text in texts]
    learned = _learn(texts, 0, SPECIAL, strip_accents)
    inner = sorted(piece for piece in learned if piece.startswith("##"))
    pieces = _learn(texts, size, [*SPECIAL, *inner], strip_accents)
    if len(pieces) > size:
        raise ValueError(
            f"{size:,} word pieces are too few: special pieces and characters already make "
            f"{len(pieces):,}; pass a larger --vocab-size"
        )
    write_lines(path, pieces)


def drop_long_words(text: str, strip_accents: bool) -> str:
    """Remove the words that are unknown because of their length from a text."""
    if not LONG_RUN.search(text):
        return text
    tokenizer = make_tokenizer([UNK], strip_accents)
    words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
    return " ".join(word for word, _ in words if len(word) <= MAX_WORD_LENGTH)


def _learn(texts: Sequence[str], size: int, first: Sequence[str], strip_accents: bool) -> list[str]:
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = make_tokenizer([UNK], strip_accents)
    trainer = WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        special_tokens=list(first),
        show_progress=sys.stderr.isatty(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.get)


def make_tokenizer(pieces: Sequence[str], strip_accents: bool = True):
    """Make the tokenizer of an uncased BERT, except that ``[SEP]`` and the like are ordinary text.

    Args:
        strip_accents: whether to strip accents and other marks from texts, as the published BERT
            does. Then *müsste* and *musste* become the same word, as do two words of Hindi or
            Japanese that differ by a sign.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocab = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=MAX_WORD_LENGTH))
    tokenizer.normalizer = BertNormalizer(lowercase=True, strip_accents=strip_accents)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer
