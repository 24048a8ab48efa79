"""Data sets written and read back by fairseq."""

import pytest
from fairseq.data import Dictionary, data_utils

from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)


def read(folder, part, split):
    dictionary = Dictionary.load(str(folder / part / "dict.txt"))
    dataset = data_utils.load_indexed_dataset(str(folder / part / split), dictionary)
    return [dictionary.string(ids) for ids in dataset]


@pytest.mark.parametrize("inputs", [1, 2])
def test_fairseq_reads_what_is_written(tmp_path, inputs):
    dictionary = make_dictionary("abc")
    write_dictionaries(tmp_path, inputs, dictionary, ["no", "yes"])
    texts = [["a b", "c"], ["b", "a c c"]]
    ids = [[dictionary.encode_line(text, append_eos=False) for text in row] for row in texts]
    examples = zip((row[:inputs] for row in ids), ["yes", "no"])
    assert write_split(tmp_path, "train", examples) == 2
    assert read(tmp_path, "label", "train") == ["yes", "no"]
    for index in range(inputs):
        assert read(tmp_path, f"input{index}", "train") == [row[index] for row in texts]
    assert (tmp_path / "input1").exists() == (inputs == 2)


def test_unknown_class(tmp_path):
    write_dictionaries(tmp_path, 1, make_dictionary("abc"), ["no", "yes"])
    examples = [(([4],), "yes"), (([5],), "maybe")]
    with pytest.raises(ValueError, match="^valid, example 2: class maybe is none of no, yes$"):
        write_split(tmp_path, "valid", examples)
