"""Texts that are drawn from a data set, or typed."""

from types import SimpleNamespace

import pytest
import torch
from make_checkpoints import write_rows

from fairseq_odeformers.analysis.texts import draw_texts, encode_text, positions
from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.tasks.parity import ParityConfig, ParityTask

PAD, EOS = 1, 2
TEXTS = [[4, 5, EOS], [EOS], [6, 6, 4, EOS, PAD, PAD], [5, EOS], [4, EOS]]


class Data(list):
    def collater(self, samples):
        return {"net_input": {"src_tokens": torch.tensor(samples)}}


def make_task(folder="data", init_token=None, texts=TEXTS):
    return SimpleNamespace(
        source_dictionary=make_dictionary(["the", "film", "##s"]),
        cfg=SimpleNamespace(data=str(folder), init_token=init_token),
        dataset=lambda split: Data(texts),
    )


def test_drawn_texts():
    """Always the same, without padding and without the text of one token."""
    texts = draw_texts(make_task(), "test", 3)
    assert len(texts) == 3 and list(texts) == sorted(texts)
    again = draw_texts(make_task(), "test", 3)
    assert all(torch.equal(texts[number], again[number]) for number in again)
    every = draw_texts(make_task(), "test", 100)
    assert {n: t.tolist() for n, t in every.items()} == {
        n: [token for token in tokens if token != PAD] for n, tokens in enumerate(TEXTS) if n != 1
    }


def test_no_text_to_draw():
    with pytest.raises(ValueError, match="test of data has no text of two or more tokens"):
        draw_texts(make_task(texts=[[EOS], [4]]), "test", 3)


@pytest.mark.parametrize(
    "init_token, of_the_data, expected",
    [
        (None, [5, EOS], [4, 5, EOS]),
        (None, [5, 4], [4, 5]),
        (0, [5, EOS], [0, 4, 5, EOS]),
    ],
)
def test_text_at_spaces(tmp_path, init_token, of_the_data, expected):
    """Begins and ends as the texts of the data set, not as what the task has made of them."""
    (tmp_path / "input0").mkdir()
    write_rows(tmp_path / "input0" / "test", [of_the_data])
    ids = encode_text(make_task(tmp_path, init_token), "the film")
    assert ids.tolist() == expected


def test_word_pieces(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nthe\nfilm\n##s\n")
    ids = encode_text(make_task(tmp_path), "The FILMS")
    assert ids.tolist() == [4, 5, 6, EOS]
    with pytest.raises(ValueError, match=r"--text: 'Cat' not in the dictionary of"):
        encode_text(make_task(tmp_path), "The Cat films")


def test_text_that_cannot_be_followed():
    with pytest.raises(ValueError, match="--text: 'cat', 'dog' not in"):
        encode_text(make_task(), "the cat film dog")


def test_positions():
    tokens = ["the", "film", "the", "end"]
    assert positions(tokens, ["the", "end", "the"]) == [0, 3]
    with pytest.raises(ValueError, match="--tokens cat: the tokens of --text are the film the end"):
        positions(tokens, ["the", "cat"])
    with pytest.raises(ValueError, match="--tokens end: give at least two"):
        positions(tokens, ["end"])


def test_strings_of_a_task_without_a_folder():
    """After the start token, as those of the task parity."""
    task = ParityTask(ParityConfig(parity_max_length=3))
    task.load_dataset("valid")
    assert encode_text(task, "0 1 1").tolist() == [0, 4, 5, 5]
    with pytest.raises(ValueError, match="^--text: '2' not in the dictionary$"):
        encode_text(task, "0 2")
