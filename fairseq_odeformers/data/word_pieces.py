"""Word pieces of an uncased BERT (Devlin et al., 2019): how they are read, learnt and applied."""

import logging
from collections.abc import Sequence
from pathlib import Path

from fairseq_odeformers.files import read_lines, write_lines

logger = logging.getLogger(__name__)

UNK = "[UNK]"
SPECIAL = ("[PAD]", UNK, "[CLS]", "[SEP]", "[MASK]")


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


def learn_pieces(texts: Sequence[str], size: int, path: Path) -> None:
    """Write *size* word pieces learnt on *texts*, or fewer if the texts have no more.

    Ties between pieces are broken by the numbers of their parts, which ``tokenizers`` gives to the
    characters within words in no order. They are learnt first, therefore, and numbered.

    Raises:
        ValueError: the texts have too many characters for *size*.
    """
    logger.info(f"learning {size:,} word pieces")
    inner = sorted(piece for piece in _learn(texts, 0, SPECIAL) if piece.startswith("##"))
    pieces = _learn(texts, size, [*SPECIAL, *inner])
    if len(pieces) > size:
        raise ValueError(
            f"{size:,} word pieces are too few: the special ones and the characters are "
            f"{len(pieces):,}"
        )
    write_lines(path, pieces)


def _learn(texts: Sequence[str], size: int, first: Sequence[str]) -> list[str]:
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = make_tokenizer([UNK])
    trainer = WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=list(first), show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    vocab = tokenizer.get_vocab()
    return sorted(vocab, key=vocab.get)


def make_tokenizer(pieces: Sequence[str]):
    """An uncased BERT's tokenizer, for which ``[SEP]`` and the like are text as any other."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    vocab = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(WordPiece(vocab, unk_token=UNK))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer
