"""Word pieces of an uncased BERT (Devlin et al., 2019): how they are read, learned and applied."""

import json
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_odeformers.files import read_lines, reading, write_lines

logger = logging.getLogger(__name__)

UNK = "[UNK]"
# Beside a vocab.txt, how its texts are normalised. Without the file, accents are stripped.
NORMALIZATION = "word_pieces.json"
SPECIAL = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")
LONGEST_WORD = 100  # letters; longer ones are unknown, as to BERT
LONG_RUN = re.compile(rf"\S{{{LONGEST_WORD + 1}}}")


def read_pieces(path: Path) -> list[str]:
    """The word pieces of a BERT's ``vocab.txt``, in the order of their numbers.

    Raises:
        ValueError: the file is not such a vocabulary.
    """
    pieces: dict[str, int] = {}
    for number, piece in enumerate(read_lines(path), start=1):
        if piece.split() != [piece] or piece in pieces:
            fault = "again" if piece in pieces else "instead of a word piece"
            raise ValueError(f"{path}, line {number}: {piece[:40]!r} {fault}")
        pieces[piece] = number
    if UNK not in pieces:
        raise ValueError(f"{path} has no {UNK}: it is not the vocabulary of a BERT")
    return list(pieces)


def write_normalization(vocab: Path, strip_accents: bool) -> None:
    """Write beside a ``vocab.txt`` whether its texts lose accents and other marks."""
    text = json.dumps({"strip_accents": strip_accents}) + "\n"
    vocab.with_name(NORMALIZATION).write_text(text, encoding="utf-8")


def load_tokenizer(vocab: Path):
    """The tokenizer of a ``vocab.txt`` and of the normalisation beside it."""
    path = vocab.with_name(NORMALIZATION)
    strip_accents = True  # as all preparations did before they wrote the file
    if path.exists():
        with reading(path, "does not tell how texts are normalised"):
            strip_accents = bool(json.loads(path.read_text(encoding="utf-8"))["strip_accents"])
    return make_tokenizer(read_pieces(vocab), strip_accents)


def learn_pieces(texts: Sequence[str], size: int, path: Path, strip_accents: bool = True) -> None:
    """Write *size* word pieces learned on *texts*, or fewer if the texts have no more.

    Words that are too long to be divided are left out: learning is quadratic in their length.
    Ties between pieces are broken by the numbers of their parts, which ``tokenizers`` gives to the
    characters within words in no order. They are learned first, therefore, and numbered.

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
            f"{size:,} word pieces are too few: the special ones and the characters are "
            f"{len(pieces):,}"
        )
    write_lines(path, pieces)


def drop_long_words(text: str, strip_accents: bool) -> str:
    """A text without the words that are unknown for their length."""
    if not LONG_RUN.search(text):
        return text
    tokenizer = make_tokenizer([UNK], strip_accents)
    words = tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(text))
    return " ".join(word for word, _ in words if len(word) <= LONGEST_WORD)


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
    """An uncased BERT's tokenizer, for which ``[SEP]`` and the like are text as any other.

    Args:
        strip_accents: whether texts lose accents and other marks, as the published BERT's do: then
            *müsste* and *musste* are the same, like two words of Hindi or Japanese that
            differ by a sign.
    """
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocab = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=LONGEST_WORD))
    tokenizer.normalizer = BertNormalizer(lowercase=True, strip_accents=strip_accents)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer
