"""Raw text of translators to the tokens of Moses, and back."""

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
    """A function that separates the tokens of a text by spaces, as the Moses tokenizer does.

    sacremoses keeps the final period of a text with abbreviations, numbers and single letters;
    Moses splits it off any word.

    A blank text has no tokens.

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
    """How raw text becomes the tokens of a data set of sentence pairs, and its tokens raw text."""

    tokenize: Callable[[str], str]  # for the source language
    detokenize: Callable[[str], str]  # for the target language


def read_raw_pairs(data: str, source_lang: str, target_lang: str) -> RawPairs:
    """How the raw text of a data set was tokenised by ``odeformers prepare``, and the way back.

    Raises:
        ValueError: the folder does not tell how it was prepared.
    """
    path = Path(data, MADE_FROM)
    if not path.exists():
        raise ValueError(
            f"{data} has no {MADE_FROM} of odeformers prepare, which tells how raw text is "
            "tokenised; give tokenised text (--tokenized)"
        )
    with reading(path, "does not tell how sentences were prepared"):
        preparation = json.loads(path.read_text(encoding="utf-8"))
        hyphens, lowercase = preparation["aggressive_hyphens"], preparation["lowercase"]
    moses = make_moses_tokenizer(source_lang, hyphens)
    return RawPairs(
        lambda text: moses(text).lower() if lowercase else moses(text),
        make_detokenizer(target_lang),
    )
