"""Word pieces are BERT's; learned ones are frequent, as many as asked for, and always the same."""

import pytest
from script_helpers import contents
from tokenizers.implementations import BertWordPieceTokenizer

from fairseq_odeformers.text.word_pieces import (
    SPECIAL,
    learn_pieces,
    load_tokenizer,
    make_tokenizer,
    read_pieces,
    write_normalization,
)

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
VOCAB = ["[unused0]", *SPECIAL, *ALPHABET, *(f"##{c}" for c in ALPHABET), *".,![]", "text"]


def test_pieces_equal_an_uncased_berts():
    vocab = {piece: number for number, piece in enumerate(VOCAB)}
    bert = BertWordPieceTokenizer(vocab, lowercase=True)
    tokenizer = make_tokenizer(VOCAB)
    for text in ("Ça déjà-vu, NAÏVE!\u00a0it's", "中文 text", "a" * 101, "x\x00y\ufffd\u200bz", ""):
        assert tokenizer.encode(text).ids == bert.encode(text, add_special_tokens=False).ids


def test_learnt_pieces_are_frequent(tmp_path):
    """Recurring words become pieces.

    All characters are pieces, within words if they occur there.
    """
    learn_pieces(["Walking, walking", "the talking", "wait?"], 1000, tmp_path / "vocab.txt")
    pieces = read_pieces(tmp_path / "vocab.txt")
    assert pieces[: len(SPECIAL)] == list(SPECIAL)
    assert {*"wtatlking,?", "##a", "##g", "walking", "##alking"} - {*"alking"} < {*pieces}
    assert not {"##w", "##?", "talking", "wait", "Walking"} & {*pieces}


def test_learnt_pieces_have_the_requested_size(tmp_path):
    texts = [f"{a}{b} {a}{b}" for a in "abcd" for b in "xyz"]
    learn_pieces(texts, 20, tmp_path / "vocab.txt")
    assert len(read_pieces(tmp_path / "vocab.txt")) == 20
    message = "^14 word pieces are too few: special pieces and characters already make 15; "
    with pytest.raises(ValueError, match=message):
        learn_pieces(texts, 14, tmp_path / "vocab.txt")


def test_learning_pieces_is_deterministic(tmp_path):
    """Ties between equally frequent pieces are resolved in one way."""
    texts = [f"{a}{b}{c} {a}{b}{c}" for a in ALPHABET for b in "uvw" for c in "xyz"]
    for name in "abcd":
        learn_pieces(texts, 200, tmp_path / name)
    assert len(set(contents(tmp_path).values())) == 1


TWINS = [("कुल", "कल"), ("ぎ", "き"), ("müsste", "musste")]


@pytest.mark.parametrize("pair", TWINS)
@pytest.mark.parametrize("strip", [True, False])
def test_accents_are_kept_unless_stripped(tmp_path, pair, strip):
    """A folder without ``word_pieces.json`` is read as by earlier versions."""
    path = tmp_path / "vocab.txt"
    learn_pieces([" ".join(pair)] * 20, 200, path, strip_accents=strip)
    if not strip:
        write_normalization(path, strip)
    first, second = (load_tokenizer(path).encode(word).tokens for word in pair)
    assert (first == second) == strip
    assert "[UNK]" not in first + second


def test_a_damaged_normalisation_file_is_named(tmp_path):
    path = tmp_path / "vocab.txt"
    learn_pieces(["a b a b"], 20, path)
    (tmp_path / "word_pieces.json").write_text("{}")
    with pytest.raises(ValueError, match=r"word_pieces\.json"):
        load_tokenizer(path)
