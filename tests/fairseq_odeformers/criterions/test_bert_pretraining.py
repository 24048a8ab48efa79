"""The two losses against torch's, the first against fairseq's masked_lm; what is logged."""

import math
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.logging import metrics
from helpers import PAD, Task, make_model

from fairseq_odeformers.criterions.bert_pretraining import (
    BertPretrainingCriterion,
    BertPretrainingCriterionConfig,
)

TASK = SimpleNamespace(target_dictionary=Task().dictionary)


def make_criterion(tpu=False):
    return BertPretrainingCriterion(BertPretrainingCriterionConfig(tpu=tpu), TASK)


@pytest.fixture(scope="module")
def model():
    model = make_model("macaron_bert", "--segment-embeddings").eval()
    model.register_classification_head("next_sentence", num_classes=2)
    return model


def make_sample(size, seed=0, masked=0.3):
    torch.manual_seed(seed)
    tokens = torch.randint(4, 50, (size, 11))
    tokens[:, [4, 10]] = 2
    target = torch.where(torch.rand(size, 11) < masked, tokens, torch.full_like(tokens, PAD))
    lengths = torch.full((size,), 11)
    return {
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": target,
        "next_sentence": torch.randint(2, (size,)),
        "nsentences": size,
        "ntokens": tokens.numel(),
    }


def scores_of(model, sample):
    return model(**sample["net_input"], classification_head_name="next_sentence")[0]


def reduce(logging_outputs):
    """The values that are displayed for logging outputs."""
    with metrics.aggregate(new_root=True) as values:
        BertPretrainingCriterion.reduce_metrics(logging_outputs)
    return values.get_smoothed_values()


@pytest.mark.parametrize("tpu", [False, True])
def test_the_loss_is_the_sum_of_two_means(model, tpu):
    """A pair weighs as much in the second mean as it has masked tokens.

    On a TPU, where shapes must not depend on the masks, the loss is the same.
    """
    sample = make_sample(6)
    loss, size, _ = make_criterion(tpu)(model, sample)
    masked_lm, masked, _ = MaskedLmLoss(MaskedLmConfig(tpu=False), TASK)(model, sample)
    losses = F.cross_entropy(scores_of(model, sample), sample["next_sentence"], reduction="none")
    shares = sample["target"].ne(PAD).sum(1)
    assert shares.unique().numel() > 1 and size == masked == shares.sum()
    expected = (losses * shares).sum() / shares.sum()
    torch.testing.assert_close(loss / size, masked_lm / masked + expected)


def test_logged_values_do_not_depend_on_the_batches(model):
    """Bits and the accuracy are means over all pairs, however batches and devices are summed."""
    criterion, samples = make_criterion(), [make_sample(size, size) for size in (3, 8)]
    outputs = [criterion(model, sample)[2] for sample in samples]
    values = reduce(outputs)
    scores = torch.cat([scores_of(model, sample) for sample in samples])
    follows = torch.cat([sample["next_sentence"] for sample in samples])
    accuracy = (scores.argmax(1) == follows).float().mean().item()
    assert values["next_sentence_accuracy"] == pytest.approx(100 * accuracy, abs=0.01)
    bits = F.cross_entropy(scores, follows).item() / math.log(2)
    assert values["nsp_loss"] == pytest.approx(bits, abs=1e-3)
    theirs = [MaskedLmLoss(MaskedLmConfig(tpu=False), TASK)(model, sample) for sample in samples]
    total, count = (sum(float(found[part]) for found in theirs) for part in (0, 1))
    assert values["mlm_loss"] == pytest.approx(total / count / math.log(2), abs=1e-3)
    assert values["ppl"] == pytest.approx(2 ** values["mlm_loss"], rel=1e-2)
    assert criterion.logging_outputs_can_be_summed()
    assert reduce([{name: a + outputs[1][name] for name, a in outputs[0].items()}]) == values


def test_a_batch_without_masks_has_zero_loss_and_finite_gradients(model):
    loss, size, _ = make_criterion()(model, make_sample(2, masked=0))
    model.zero_grad()
    loss.backward()
    assert loss == size == 0
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
