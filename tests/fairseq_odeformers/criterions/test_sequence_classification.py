"""Loss, accuracy, F1 and regularisers, against fairseq's, scikit-learn's and literal formulas."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.sentence_prediction import (
    SentencePredictionConfig,
    SentencePredictionCriterion,
)
from fairseq.logging import metrics
from helpers import OLD
from sklearn.metrics import f1_score
from torch import nn

from fairseq_odeformers.criterions.sequence_classification import (
    SequenceClassificationConfig,
    SequenceClassificationCriterion,
)
from fairseq_odeformers.data.classification import macro_f1, make_dictionary
from fairseq_odeformers.models.common.model import BaseModel

CLASSES = ["bad", "so-so", "good"]
TASK = SimpleNamespace(label_dictionary=make_dictionary(CLASSES), cfg=None)


class Model(nn.Module):
    """A model that returns its input as scores, and fixed regularisers."""

    def __init__(self, **regularizers):
        super().__init__()
        self.args = None  # read by fairseq's sentence_prediction
        self.classification_heads = {"sentence_classification_head": None}
        self.extra = {"regularizers": regularizers} if regularizers else {}

    def forward(self, scores, features_only, classification_head_name):
        return scores, self.extra

    def get_targets(self, sample, net_output):
        return sample["target"]


def make_criterion(**options):
    return SequenceClassificationCriterion(SequenceClassificationConfig(**options), TASK)


def make_sample(size, classes=3, seed=0):
    torch.manual_seed(seed)
    scores, target = torch.randn(size, classes), torch.randint(classes, (size, 1))
    return {"net_input": {"scores": scores}, "target": target, "ntokens": 7 * size}


def reduce(logging_outputs):
    """The values that are displayed for logging outputs."""
    with metrics.aggregate(new_root=True) as values:
        SequenceClassificationCriterion.reduce_metrics(logging_outputs)
    return values.get_smoothed_values()


def test_loss_equals_sentence_prediction():
    sample = make_sample(20)
    theirs = SentencePredictionCriterion(SentencePredictionConfig(), TASK)
    loss, sample_size, _ = make_criterion()(Model(), sample)
    expected, expected_size, _ = theirs(Model(), sample)
    assert torch.allclose(loss, expected)
    assert sample_size == expected_size == 20


def test_label_smoothing_equals_the_formula():
    """The loss is (1 - e) times the target's loss plus e times the mean over the classes."""
    sample = make_sample(20)
    losses = -sample["net_input"]["scores"].log_softmax(1)
    target = losses.gather(1, sample["target"]).sum()
    loss, _, _ = make_criterion(label_smoothing=0.2)(Model(), sample)
    assert torch.allclose(loss, 0.8 * target + 0.2 * losses.mean(1).sum())


def test_nll_loss_has_no_smoothing_and_no_regularizer():
    """The likelihood excludes both in training and validation, and so compares between options."""
    sample = make_sample(20)
    expected = -sample["net_input"]["scores"].log_softmax(1).gather(1, sample["target"]).sum()
    for training in (True, False):
        model = Model(arclength=torch.ones(20)).train(training)
        criterion = make_criterion(label_smoothing=0.2, arclength_weight=3.0)
        _, _, logged = criterion(model, sample)
        assert torch.allclose(logged["nll_loss"], expected)
        assert not torch.allclose(logged["cross_entropy"], expected)
        assert not torch.allclose(logged["loss"], logged["cross_entropy"])


def test_logged_values_equal_scikit_learns():
    """Bits and percentages are computed over all texts, however batches and devices are summed."""
    model, criterion = Model().eval(), make_criterion()
    samples = [make_sample(size, 3, seed=size) for size in (30, 7)]
    outputs = [criterion(model, sample)[2] for sample in samples]
    scores = torch.cat([sample["net_input"]["scores"] for sample in samples])
    target = torch.cat([sample["target"].view(-1) for sample in samples])
    predicted = scores.argmax(1)
    each = f1_score(target, predicted, average=None)
    values = reduce(outputs)
    bits = nn.functional.cross_entropy(scores, target).item() / math.log(2)
    assert values["loss"] == values["cross_entropy"] == values["nll_loss"]
    assert values["loss"] == pytest.approx(bits, abs=1e-3)
    accuracy = (predicted == target).float().mean().item()
    assert values["accuracy"] == pytest.approx(100 * accuracy, abs=0.01)
    for name, expected in zip(CLASSES, each):
        assert values[f"f1_{name}"] == pytest.approx(100 * expected, abs=0.01)
    assert values["macro_f1"] == pytest.approx(100 * each.mean(), abs=0.01)
    assert criterion.logging_outputs_can_be_summed()
    assert reduce([{name: a + outputs[1][name] for name, a in outputs[0].items()}]) == values
    with metrics.aggregate(new_root=True) as meters:  # batch by batch, as in a validation
        for output in outputs:
            SequenceClassificationCriterion.reduce_metrics([output])
    assert meters.get_smoothed_values() == pytest.approx(values, abs=1e-3)
    _, _, output = criterion(Model().train(), samples[0])
    names = {"loss", "cross_entropy", "nll_loss", "accuracy"}  # no F1 in training
    assert set(reduce([output])) == names


def test_classes_without_names_are_numbered():
    criterion = SequenceClassificationCriterion(
        SequenceClassificationConfig(), SimpleNamespace(cfg=None)
    )
    *_, logged = criterion(Model().eval(), make_sample(4, classes=2))
    assert {"_hits_0", "_hits_1"} < {*logged} and "_hits_2" not in logged


def test_statistics_are_logged():
    """Means over the sequences of all updates are logged. They do not change the loss."""
    outputs = []
    for values in (torch.arange(5.0), torch.ones(3)):
        model = Model()
        model.extra = {"statistics": {"nfe": values}}
        loss, _, output = make_criterion()(model, make_sample(len(values)))
        assert loss == make_criterion()(Model(), make_sample(len(values)))[0]
        outputs.append(output)
    assert reduce(outputs)["nfe"] == 13 / 8
    with metrics.aggregate(new_root=True) as values:
        for output in outputs:
            SequenceClassificationCriterion.reduce_metrics([output])
    assert values.get_smoothed_values()["nfe"] == 13 / 8


@pytest.mark.parametrize(
    "options, added",
    [
        ({}, 0.2 * 5),
        ({"reconstruction_weight": 0.0}, 0),
        ({"reconstruction_weight": 0.3}, 0.3 * 5),
        ({"arclength_weight": 0.5}, 0.5 * 10 + 0.2 * 5),
    ],
)
def test_regularizers_are_weighted_and_logged(options, added):
    """Each regulariser adds its weighted sum over the sequences, and its mean is logged.

    The model's weights are the default; an option replaces them, and 0 turns a regulariser off.
    """
    model = Model(arclength=torch.arange(5.0), reconstruction=torch.ones(5))
    plain, _, _ = make_criterion()(model, make_sample(5))
    model.regularizer_weights = {"reconstruction": 0.2}
    loss, _, output = make_criterion(**options)(model, make_sample(5))
    assert torch.allclose(loss, plain + added)
    values = reduce([output])
    assert (values["arclength"], values["reconstruction"]) == (2.0, 1.0)
    bits = values["loss"] - values["cross_entropy"]
    assert bits == pytest.approx(added / 5 / math.log(2), abs=2e-3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"label_smoothing": 1.0}, "--label-smoothing 1.0"),
        ({"arclength_weight": -0.5}, "--arclength-weight -0.5"),
        ({"reconstruction_weight": math.nan}, "--reconstruction-weight nan"),
        ({"regression_target": True}, "--regression-target"),
        (
            {"reconstruction_weight": 2.0},
            "--reconstruction-weight 2.0: Model .* computes arclength",
        ),
    ],
)
def test_refused_options_and_missing_labels(options, message):
    """A regulariser that the model lacks is refused in training but not in evaluation.

    A batch without labels has no loss.
    """
    model, sample = Model(arclength=torch.ones(5)), make_sample(5)
    with pytest.raises(ValueError, match=message):
        make_criterion(**options)(model, sample)
    assert make_criterion(reconstruction_weight=2.0)(model.eval(), sample)[0] > 0
    del sample["target"]
    with pytest.raises(ValueError, match="no labels"):
        make_criterion()(model, sample)


@pytest.mark.parametrize(
    "targets, predictions",
    [
        ([0, 0, 2, 2], [0, 0, 2, 2]),  # no text of class 1
        ([0, 0, 2, 2], [0, 1, 2, 2]),  # class 1 is only predicted
        ([0, 1, 2, 2], [2, 2, 2, 2]),  # one class for all
    ],
)
def test_macro_f1_equals_scikit_learns_over_all_classes(targets, predictions):
    """F1 equals scikit-learn's in the log of a training and for predictions of the same texts."""
    scores = nn.functional.one_hot(torch.tensor(predictions), 3).float()
    sample = {"net_input": {"scores": scores}, "target": torch.tensor(targets), "ntokens": 4}
    logged = reduce([make_criterion()(Model().eval(), sample)[2]])
    settings = {"labels": range(3), "average": "macro", "zero_division": 0}
    expected = 100 * f1_score(targets, predictions, **settings)
    assert macro_f1(targets, predictions, range(3)) == pytest.approx(expected)
    assert logged["macro_f1"] == pytest.approx(expected, abs=0.005)


class Our(BaseModel, Model):
    """A model of this package."""


@pytest.mark.skipif(OLD, reason="fairseq 0.12.2 reports no correlations")
@pytest.mark.parametrize("kind, expected", [(Our, 0), (Model, math.nan)])
@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_correlation_of_equal_predictions_is_zero_for_own_models(kind, expected):
    """The correlation of fairseq's models is NaN, and other correlations equal scipy's for all."""
    options = {"regression_target": True, "report_pearson_and_spearman": True}
    criterion = SentencePredictionCriterion(SentencePredictionConfig(**options), TASK)

    def report(predictions):
        scores, target = torch.tensor(predictions), torch.tensor([0.1, 0.5, 0.2])
        sample = {"net_input": {"scores": scores}, "target": target, "ntokens": 9}
        log = criterion(kind().eval(), sample)[2]
        with metrics.aggregate(new_root=True) as meters:
            criterion.reduce_metrics([log])
        values = meters.get_smoothed_values()
        return [values[name] for name in ("pearson", "spearman", "pearson_and_spearman")]

    assert report([0.3, 0.3, 0.3]) == pytest.approx([expected] * 3, nan_ok=True)
    assert report([0.1, 0.3, 0.2])[1] == 100
