"""Text that is typed, as the symbols of a data set for classification."""

from __future__ import annotations

from pathlib import Path

import torch
from fairseq.data import data_utils
from torch import Tensor

from .word_pieces import make_tokenizer, read_pieces

SPLITS = ("test", "valid", "train")
PIXEL_TEXT = "input"  # the folder of images that are text


def divide(task, text: str) -> tuple[list[str], list[str]]:
    """The symbols of a text, and the part of the text that each stands for.

    It is divided into the word pieces of the data set's ``vocab.txt``, if there is one, else at
    spaces; a string of the task ``parity``, which has no data set, into its bits.
    """
    data = getattr(task.cfg, "data", None)
    if not data:
        symbols = list("".join(text.split()))
        return symbols, symbols
    vocabulary = Path(data, "vocab.txt")
    if not vocabulary.exists():
        symbols = text.split()
        return symbols, symbols
    encoding = make_tokenizer(read_pieces(vocabulary)).encode(text)
    return encoding.tokens, [text[start:end] for start, end in encoding.offsets]


def enclose(task, ids: list[int], ends: bool) -> Tensor:
    """Tokens (T) of a text with what a task puts before it, and with ``</s>`` if *ends*."""
    dictionary = task.source_dictionary
    init_token = getattr(task.cfg, "init_token", dictionary.bos())
    start = [] if init_token is None else [init_token]
    return torch.tensor([*start, *ids, *([dictionary.eos()] if ends else [])])


def texts_end(task) -> bool:
    """Whether the texts of a data set end with ``</s>``, as those of ``fairseq-preprocess`` do."""
    data, dictionary = getattr(task.cfg, "data", None), task.source_dictionary
    folder = getattr(task, "layout", ("input0",))[0]
    if not data or folder == PIXEL_TEXT:
        return False
    for split in SPLITS:
        texts = data_utils.load_indexed_dataset(str(Path(data, folder, split)), dictionary)
        if texts is not None and len(texts) and len(texts[0]):
            return bool(texts[0][-1] == dictionary.eos())
    return True
