"""Typed text becomes the symbols that the preparation of its data set makes."""

from collections import Counter
from types import SimpleNamespace

import pytest

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.text.raw_text import tokenize
from odeformers.prepare.common.tokens import learn_codes, make_bpe_encoder
from odeformers.prepare.lra import BYTES


def make_task(folder, symbols):
    return SimpleNamespace(
        source_dictionary=make_dictionary(symbols), cfg=SimpleNamespace(data=str(folder))
    )


@pytest.mark.parametrize("text", ["", "It is bad.", "naïve – 好", "a\u3000b\xa0c"])
def test_bytes_of_a_text_are_its_symbols(tmp_path, text):
    task = make_task(tmp_path, BYTES)
    symbols, sources = tokenize(task, text)
    dictionary = task.source_dictionary
    encoded = bytes(dictionary.index(symbol) - dictionary.nspecial for symbol in symbols)
    assert encoded == " ".join(text.split()).encode() and len(sources) == len(symbols)


def test_word_pieces_need_their_vocabulary(tmp_path):
    with pytest.raises(FileNotFoundError, match="vocab.txt: no such file"):
        tokenize(make_task(tmp_path, ["film", "##s"]), "films")


def test_bpe_codes_in_the_folder_are_applied(tmp_path):
    """The codes are applied as the preparation of GLUE applies them."""
    codes = tmp_path / "code"
    learn_codes(Counter("the film the films".split()), 4, codes)
    long = "x" * 300  # truncated
    symbols, sources = tokenize(make_task(tmp_path, []), f"the filmic  them {long}")
    (expected,) = make_bpe_encoder(codes)([f"the filmic them {long}"])
    assert symbols == expected.split() and len(symbols) > 303
    assert "".join(sources) == f"thefilmicthem{long}"


def test_text_without_subwords_is_split_at_spaces(tmp_path):
    assert tokenize(make_task(tmp_path, ["a"]), " b  a ") == (["b", "a"], ["b", "a"])


@pytest.mark.parametrize("task_name", ["listops", "text"])
def test_published_trees_lose_their_parentheses(tmp_path, task_name):
    """Parentheses are dropped only for ListOps, and only if the data set has none."""
    published = "( ( ( [SM 1 ) 3 ) ] )"
    for symbols in ([*"13", "[SM", "]"], [*"13()", "[SM", "]"]):
        task = make_task(tmp_path, symbols)
        task.cfg.lra_task = task_name
        kept, _ = tokenize(task, published)
        dropped = task_name == "listops" and "(" not in symbols
        assert kept == (["[SM", "1", "3", "]"] if dropped else published.split())
