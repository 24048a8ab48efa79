"""The loss is fairseq's, plus the weighted mean of each regulariser over sequences."""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from helpers import PAD, make_model

from fairseq_odeformers.criterions.label_smoothed_cross_entropy_with_regularizers import (
    RegularizedCrossEntropyConfig,
    RegularizedCrossEntropyCriterion,
)
from fairseq_odeformers.criterions.regularizers import MEAN

TASK = SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD))


def make_criterion(**options):
    config = RegularizedCrossEntropyConfig(sentence_avg=False, label_smoothing=0.1)
    for name, value in options.items():
        setattr(config, name, value)
    return RegularizedCrossEntropyCriterion(config, TASK)


@pytest.fixture
def model():
    return make_model("transject_lm")


@pytest.fixture
def sample():
    torch.manual_seed(1)
    tokens = torch.randint(4, 50, (3, 9))
    tokens[1, 6:] = PAD
    target = tokens.roll(-1, 1)
    return {"net_input": {"src_tokens": tokens}, "target": target, "ntokens": 24}


def test_the_loss_with_zero_weights_is_fairseqs(model, sample):
    theirs = LabelSmoothedCrossEntropyCriterion(TASK, False, 0.1, report_accuracy=True)
    expected, size, expected_log = theirs(model, sample)
    loss, sample_size, log = make_criterion(report_accuracy=True, reconstruction_weight=0.0)(
        model, sample
    )
    assert loss == expected
    assert sample_size == size == 24
    assert log[MEAN + "reconstruction"] > 0
    assert {name: value for name, value in log.items() if MEAN not in name} == expected_log


@pytest.mark.parametrize("sentence_avg", [False, True])
def test_regularizer_is_weighted_per_text(model, sample, sentence_avg):
    """The loss gets 0.3 times the mean of the regulariser over the texts.

    Each text weighs as much as its tokens, or 1 by ``--sentence-avg``; the logged mean weighs all
    texts equally.
    """
    _, extra = model(**sample["net_input"])
    values = extra["regularizers"]["reconstruction"]
    mean = values.mean()
    shares = torch.ones(3) if sentence_avg else sample["target"].ne(PAD).sum(1)
    criterion = make_criterion(sentence_avg=sentence_avg, reconstruction_weight=0.0)
    plain, sample_size, _ = criterion(model, sample)
    assert sample_size == (3 if sentence_avg else 24)
    criterion = make_criterion(sentence_avg=sentence_avg, reconstruction_weight=0.3)
    loss, _, log = criterion(model, sample)
    assert (loss - plain).item() == pytest.approx(0.3 * (values @ shares.float()).item(), rel=1e-4)
    loss.backward()
    assert model.decoder.eigenvalues.rotation.weight.grad.any()
    with metrics.aggregate(new_root=True) as values:
        RegularizedCrossEntropyCriterion.reduce_metrics([log, log])
    shown = values.get_smoothed_values()
    assert shown["reconstruction"] == pytest.approx(mean.item(), rel=1e-3)
    assert shown["loss"] > shown["nll_loss"]
    assert RegularizedCrossEntropyCriterion.logging_outputs_can_be_summed()


def test_arclength_needs_a_model_that_returns_its_states(sample):
    """fairseq's LSTM does not return the states of all layers, and so has no arclength."""
    model = make_model("lstm_lm", sizes=[])
    assert make_criterion()(model, sample)[0] > 0
    with pytest.raises(ValueError, match="--arclength-weight 0.5: LSTM"):
        make_criterion(arclength_weight=0.5)(model, sample)
