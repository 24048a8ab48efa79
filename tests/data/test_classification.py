"""Data sets written and read back by fairseq."""

import pytest

from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)


def test_unknown_class(tmp_path):
    write_dictionaries(tmp_path, 1, make_dictionary("abc"), ["no", "yes"])
    examples = [(([4],), "yes"), (([5],), "maybe")]
    with pytest.raises(ValueError, match="^valid, example 2: class maybe is none of no, yes$"):
        write_split(tmp_path, "valid", examples)
