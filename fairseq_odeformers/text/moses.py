"""Conversion of raw text for translators to Moses' tokens and back."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from fairseq_odeformers.files import MADE_FROM, is_blank, reading

from .detokenize import make_detokenizer

FINAL_PERIOD = re.compile(r"(?<=[^ .])\.$")


def make_moses_tokenizer(
    lang: str, aggressive_hyphens: bool = False, escape: bool = True
) -> Callable[[str], str]:
    """Make a function that separates the tokens of a text by spaces, as the Moses tokeniser does.

    sacremoses leaves the final period of a text attached to abbreviations, numbers and single
    letters. This function splits it off every word, as Moses does. A blank text has no tokens.

    Args:
        aggressive_hyphens: whether to split words at hyphens (``a-b`` to ``a @-@ b``).
        escape: whether to write the characters ``&|<>'"[]`` as entities.
    """
    from sacremoses import MosesTokenizer

    moses = MosesTokenizer(lang)

    def tokenize(text: str) -> str:
        if is_blank(text):
            return ""
        tokens = " ".join(moses.tokenize(text, aggressive_hyphens, escape=escape))
        return FINAL_PERIOD.sub(" .", tokens)

    return tokenize


class RawPairs(NamedTuple):
    """The conversions between raw text and the tokens of a data set of sentence pairs."""

    tokenize: Callable[[str], str]  # source language
    detokenize: Callable[[str], str]  # target language


def read_raw_pairs(data: str, source_lang: str, target_lang: str) -> RawPairs:
    """Read the tokenisation that ``odeformers prepare`` applied to a data set, and its inverse.

    Raises:
        ValueError: the folder does not say how it was prepared.
    """
    path = Path(data, MADE_FROM)
    if not path.exists():
        raise ValueError(
            f"{data} has no {MADE_FROM} of odeformers prepare that says how to tokenise raw text; "
            "pass tokenised text (--tokenized)"
        )
    with reading(path, "does not say how sentences were prepared"):
        preparation = json.loads(path.read_text(encoding="utf-8"))
        hyphens, lowercase = preparation["aggressive_hyphens"], preparation["lowercase"]
    moses = make_moses_tokenizer(source_lang, hyphens)
    return RawPairs(
        lambda text: moses(text).lower() if lowercase else moses(text),
        make_detokenizer(target_lang),
    )
