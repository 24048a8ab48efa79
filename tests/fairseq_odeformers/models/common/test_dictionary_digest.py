"""A checkpoint loads with the dictionaries that it was trained with, or if it records none."""

import pytest
import torch
from fairseq.data import Dictionary
from helpers import LanguageModelling, make_any
from make_checkpoints import MODELS

END = "_dictionary_version"


class Turned(LanguageModelling):
    """A task whose dictionary has the same symbols in another order."""

    @staticmethod
    def make_dictionary(words):
        dictionary = Dictionary()
        for index in reversed(range(words - len(dictionary))):
            dictionary.add_symbol(f"word{index}")
        return dictionary


@pytest.mark.parametrize("arch", MODELS)
def test_another_dictionary_of_the_same_size_is_refused(arch):
    """The dictionary is compared in any precision.

    A checkpoint that records none loads, and the model keeps its own.
    """
    model, other = (make_any(arch, task=task()) for task in (LanguageModelling, Turned))
    state = model.half().state_dict()
    digests = {name: value for name, value in state.items() if name.endswith(END)}
    assert digests and {value.dtype for value in digests.values()} == {torch.int64}
    model.load_state_dict(state)
    with pytest.raises(ValueError, match="trained with another (en|de)coder dictionary"):
        other.load_state_dict(state)
    other.load_state_dict({name: value for name, value in state.items() if name not in digests})
    assert all(not torch.equal(other.state_dict()[name], digests[name]) for name in digests)
