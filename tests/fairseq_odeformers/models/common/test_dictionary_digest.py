"""A checkpoint loads with its training's dictionaries, padding renamed, or if it records none."""

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
    with pytest.raises(ValueError, match="trained with a different (en|de)coder dictionary"):
        other.load_state_dict(state)
    other.load_state_dict({name: value for name, value in state.items() if name not in digests})
    assert all(not torch.equal(other.state_dict()[name], digests[name]) for name in digests)


class Padded(LanguageModelling):
    """Padded as by fairseq-preprocess, with a symbol that a task adds; some may be renamed."""

    names = ("madeupword0000", "madeupword0001", "madeupword0002")

    @classmethod
    def make_dictionary(cls, words):
        dictionary = LanguageModelling.make_dictionary(words - len(cls.names))
        for name in (*cls.names, "<mask>"):
            dictionary.add_symbol(name)
        return dictionary


class Renamed(Padded):
    names = ("<sep>", "madeupword0001", "<cls>")


class Other(Padded):
    names = ("<sep>", "madeupword0001")

    @classmethod
    def make_dictionary(cls, words):
        dictionary = super().make_dictionary(words)
        dictionary.add_symbol("<cls>")  # where the other one has <mask>
        return dictionary


def test_padding_of_a_dictionary_may_be_renamed():
    """The model keeps the digest of its own dictionary; words may not be renamed."""
    arch = "vanilla_transformer"
    model, renamed, other = (make_any(arch, task=task()) for task in (Padded, Renamed, Other))
    own = {name: value for name, value in renamed.state_dict().items() if name.endswith(END)}
    renamed.load_state_dict(model.state_dict())
    assert all(torch.equal(renamed.state_dict()[name], own[name]) for name in own)
    with pytest.raises(ValueError, match="trained with a different encoder dictionary"):
        other.load_state_dict(model.state_dict())
