"""Conversion of typed text to the symbols of a data set for classification.

Translators tokenise text with ``moses`` instead, and share only :func:`read_codes`.
"""

import re
from contextlib import redirect_stderr
from functools import lru_cache
from io import StringIO
from pathlib import Path
from string import ascii_lowercase, digits

import torch
from fairseq.data import data_utils
from fairseq.data.encoders.byte_utils import SPACE, SPACE_ESCAPE
from fairseq.data.encoders.bytes import Bytes
from torch import Tensor

from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.files import reading

from .word_pieces import load_tokenizer

MAX_WORD_LENGTH = 250  # letters; the time that BPE takes grows with their square
LONG_WORD = re.compile(rf"\S{{{MAX_WORD_LENGTH}}}(?=\S)")
SPLITS = ("test", "valid", "train")
PIXEL_TEXT = "input"  # the folder of images that are text
CHARACTERS = [f"##{character}" for character in ascii_lowercase + digits]  # pieces within words


def tokenize(task, text: str) -> tuple[list[str], list[str]]:
    """Split a text into symbols, and return them with each symbol's part of the text.

    The kind of symbol depends on the folder of the data set. If it contains a ``vocab.txt``,
    symbols are word pieces; if it contains a ``code``, they are BPE subwords of the tokens between
    spaces; if its dictionary contains bytes, they are bytes; otherwise, they are the tokens between
    spaces. The task ``parity`` has no data set, and its symbols are bits.

    Raises:
        FileNotFoundError: the dictionary contains word pieces, but the folder has no
            ``vocab.txt``.
    """
    data = getattr(task.cfg, "data", None)
    if not data:
        symbols = list("".join(text.split()))
        return symbols, symbols
    vocabulary, codes = Path(data, "vocab.txt"), Path(data, "code")
    if vocabulary.exists():
        encoding = cache_tokenizer(vocabulary, vocabulary.stat().st_mtime_ns).encode(text)
        return encoding.tokens, [text[start:end] for start, end in encoding.offsets]
    if codes.exists():
        bpe = cache_codes(codes, codes.stat().st_mtime_ns)
        symbols = bpe.segment(cut_words(text)).split()
        return symbols, [symbol.removesuffix("@@") for symbol in symbols]
    if any(piece in task.source_dictionary for piece in CHARACTERS):
        raise FileNotFoundError(
            f"{vocabulary}: no such file; the data set has word pieces, and its preparation wrote "
            "this file to divide text into them; copy it from the prepared data, or prepare them "
            "again"
        )
    if SPACE_ESCAPE in task.source_dictionary:
        symbols = Bytes.encode(text).split()
        return symbols, [symbol.replace(SPACE_ESCAPE, SPACE) for symbol in symbols]
    symbols = text.split()
    if getattr(task.cfg, "lra_task", "") == "listops" and "(" not in task.source_dictionary:
        symbols = [
            symbol for symbol in symbols if symbol not in ("(", ")")
        ]  # the preparation drops them too
    return symbols, symbols


def cut_words(text: str) -> str:
    """Divide the words of a text after each :data:`MAX_WORD_LENGTH` letters."""
    return LONG_WORD.sub(r"\g<0> ", text)


@lru_cache(maxsize=4)
def cache_tokenizer(vocabulary: Path, mtime: int):
    """Load the word-piece tokenizer of a ``vocab.txt``, again only if the file has changed."""
    return load_tokenizer(vocabulary)


@lru_cache(maxsize=4)
def cache_codes(codes: Path, mtime: int):
    """Call :func:`read_codes`, again only if the file has changed."""
    return read_codes(codes)


def read_codes(path: Path, separator: str = "@@"):
    """Read a file of codes into subword-nmt's ``BPE``."""
    from subword_nmt.apply_bpe import BPE

    errors = StringIO()
    with (
        reading(path, "has no BPE codes of subword-nmt; pass the file code of odeformers prepare"),
        redirect_stderr(errors),
    ):
        try:
            return BPE(StringIO(path.read_text(encoding="utf-8")), separator=separator)
        except SystemExit as error:  # the message names no file
            raise ValueError(errors.getvalue()) from error


def add_special_tokens(task, ids: list[int], append_eos: bool) -> Tensor:
    """Return the tokens (T) of a text: the task's initial token, *ids* and ``</s>``.

    The initial token is added only if the task has one, and ``</s>`` only if *append_eos*.
    """
    dictionary = task.source_dictionary
    init_token = getattr(task.cfg, "init_token", dictionary.bos())
    start = [] if init_token is None else [init_token]
    return torch.tensor([*start, *ids, *([dictionary.eos()] if append_eos else [])])


def appends_eos(task) -> bool:
    """Return whether the texts of the data set end with ``</s>``, as by ``fairseq-preprocess``."""
    data, dictionary = getattr(task.cfg, "data", None), task.source_dictionary
    folder = getattr(task, "layout", ("input0",))[0]
    if not data or folder == PIXEL_TEXT:
        return False
    for split in SPLITS:
        path = Path(data, folder, split)
        with naming_faults(path):
            texts = data_utils.load_indexed_dataset(str(path), dictionary)
            if texts is not None and len(texts) and len(texts[0]):
                return bool(texts[0][-1] == dictionary.eos())
    return True
