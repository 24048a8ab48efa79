"""The loss is fairseq's, plus the weighted mean of each regulariser over sequences."""

import re
from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.logging import metrics
from helpers import PAD, make_model
from script_helpers import command, failing_command

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


PLUGIN = """
from fairseq.models import register_model
from fairseq_odeformers.models.common.prenorm_transformer import (
    PreNormTransformer,
    PreNormTransformerConfig,
)
from fairseq_odeformers.models.common.transformer import Encoder


class EnergyEncoder(Encoder):
    def forward(self, *args, **kwargs):
        out = super().forward(*args, **kwargs)
        energy = out["encoder_out"][0].square().mean((0, 2))
        return {**out, "regularizers": {"energy": energy}, "statistics": {"twice": 2 * energy}}


@register_model("energy_transformer", dataclass=PreNormTransformerConfig)
class EnergyTransformer(PreNormTransformer):
    encoder_class = EnergyEncoder
    regularizer_weights = {"energy": 0.1}


@register_model("idle_transformer", dataclass=PreNormTransformerConfig)
class IdleTransformer(PreNormTransformer):
    regularizer_weights = {"energy": 0.1}
"""


@pytest.fixture(scope="module")
def train_plugin(training_data, tmp_path_factory):
    """A function that trains a translator of a plugin, and returns what is printed."""
    folder = tmp_path_factory.mktemp("plugin") / "energies"
    folder.mkdir()
    (folder / "__init__.py").write_text(PLUGIN)
    sizes = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2"
    sizes += " --decoder-attention-heads 2 --encoder-layers 1 --decoder-layers 1"
    line = f"{training_data}/words --user-dir {folder} -s de -t en {sizes}"
    line += " --criterion label_smoothed_cross_entropy_with_regularizers --batch-size 8 --cpu"
    line += " --optimizer adam --lr 0.003 --max-update 2 --log-interval 1 --log-format simple"
    line += " --no-save --disable-validation"

    def train(arch, run=command):
        return run("train", *line.split(), "--arch", arch)

    return train


def test_a_regularizer_of_a_translators_encoder_is_trained(train_plugin):
    """fairseq's decoder drops what the encoder returns; the log has the encoder's values."""
    log = train_plugin("energy_transformer")
    values = [re.search(rf"\b{name}=([\d.]+)", log) for name in ("energy", "twice", "loss")]
    energy, twice, _ = (float(value[1]) for value in values)
    assert twice == pytest.approx(2 * energy, abs=1e-3) and energy > 0


def test_a_weight_without_an_option_is_named_by_its_attribute(train_plugin):
    fault = "regularizer_weights: energy 0.1: IdleTransformer does not compute the regulariser"
    assert fault in train_plugin("idle_transformer", run=failing_command)
