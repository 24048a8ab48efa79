"""The warnings that fairseq causes in hydra and torch are not shown; others are."""

import logging
import sys
import warnings

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.fairseq_task import FairseqTask
from helpers import call, make_model, source_batch

from fairseq_odeformers.patches import warnings as patch


@pytest.fixture
def shown():
    """The warnings that are shown; as they are before pytest collects them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        patch.filter_warnings()
        yield caught


def test_configuration_of_a_training(shown):
    line = ["unused", "--arch", "transevolve"]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    convert_namespace_to_omegaconf(args)
    assert not shown


class Optimizer:
    def backward(self, loss):
        pass


def test_step_of_a_training(shown):
    def model():
        pass

    model.train = model.set_num_updates = lambda *_: None
    FairseqTask(None).train_step(None, model, lambda *_: (0, 1, {}), Optimizer(), 1)
    assert not shown


def test_padding_in_a_decoder_of_fairseq(shown):
    model, (source, _) = make_model("transformer"), source_batch()
    target = source.flip(1)  # with its padding at the end
    model(**call(model, source, target))
    assert not shown


def test_others_are_shown(shown):
    for category in (UserWarning, FutureWarning):
        warnings.warn("of a user's code", category, stacklevel=1)
    assert len(shown) == 2


def test_logging_is_restored_if_fairseq_cannot_be_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "fairseq", None)
    with pytest.raises(ImportError):
        patch.import_fairseq()
    assert logging.root.manager.disable == logging.NOTSET
