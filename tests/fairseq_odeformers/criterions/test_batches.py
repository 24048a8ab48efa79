"""An update is the same however its texts are divided into batches, whatever their lengths.

``tests/test_processes.py`` shows that processes add the gradients of batches as ``--update-freq``
does.
"""

from types import SimpleNamespace

import pytest
import torch
from fairseq.criterions import CRITERION_REGISTRY
from helpers import PAD, make_classifier, make_model, wake

from fairseq_odeformers.criterions.bert_pretraining import BertPretrainingCriterionConfig
from fairseq_odeformers.criterions.label_smoothed_cross_entropy_with_regularizers import (
    RegularizedCrossEntropyConfig,
)
from fairseq_odeformers.criterions.sequence_classification import SequenceClassificationConfig

OURS = {
    name: criterion
    for name, criterion in CRITERION_REGISTRY.items()
    if criterion.__module__.startswith("fairseq_odeformers.")
}
TOKENS = "label_smoothed_cross_entropy_with_regularizers"
CASES = [
    (TOKENS, "transject_lm", {"reconstruction_weight": 5.0}),
    (TOKENS, "macaron_transformer", {"arclength_weight": 0.5}),
    (TOKENS, "macaron_transformer", {"arclength_weight": 0.5, "sentence_avg": True}),
    ("sequence_classification", "transject", {"reconstruction_weight": 5.0}),
    ("sequence_classification", "macaron_classifier", {"arclength_weight": 0.5}),
    ("bert_pretraining", "macaron_bert", {}),
]
LENGTHS = [12, 11, 3, 2]  # of four texts


def test_every_criterion_has_a_case():
    assert {criterion for criterion, _, _ in CASES} == {*OURS}


def make_criterion(name, options):
    config = {
        TOKENS: RegularizedCrossEntropyConfig(sentence_avg=False, label_smoothing=0.1),
        "sequence_classification": SequenceClassificationConfig(),
        "bert_pretraining": BertPretrainingCriterionConfig(tpu=False),
    }[name]
    for option, value in options.items():
        setattr(config, option, value)
    dictionary = SimpleNamespace(pad=lambda: PAD)
    return OURS[name](config, SimpleNamespace(target_dictionary=dictionary, label_dictionary=None))


def make_sample(name, arch, texts):
    """A batch of some texts, which are padded to the longest of them."""
    longest = max(LENGTHS[text] for text in texts)
    tokens = torch.full((len(texts), longest), PAD)
    for row, text in enumerate(texts):
        draw = torch.Generator().manual_seed(text)
        tokens[row, : LENGTHS[text]] = torch.randint(4, 50, (LENGTHS[text],), generator=draw)
    present = tokens.ne(PAD)
    sample = {
        "net_input": {"src_tokens": tokens, "src_lengths": present.sum(1)},
        "ntokens": int(present.sum()),
        "target": torch.where(present, tokens * 7 % 46 + 4, PAD),
    }
    if arch == "macaron_transformer":
        sample["net_input"]["prev_output_tokens"] = tokens
    if name == "sequence_classification":
        sample["target"] = torch.tensor([[text % 2] for text in texts])
    if name == "bert_pretraining":  # more masks in longer texts
        masked = torch.arange(longest) % 3 == 1
        sample["target"] = torch.where(present & masked, tokens, PAD)
        sample["next_sentence"] = torch.tensor([text % 2 for text in texts])
    return sample


def make_trained(name, arch):
    """A model for a criterion's training, without dropout."""
    if name == "sequence_classification":
        model = make_classifier(arch, classes=2)
    else:
        model = make_model(arch)
    if name == "bert_pretraining":
        model.register_classification_head("next_sentence", num_classes=2)
    model = wake(model)
    for module in model.modules():
        if isinstance(getattr(module, "p", None), float):
            module.p = 0.0
    return model


def gradient(criterion, model, samples):
    """The gradient of an update over batches, as fairseq's trainer computes it."""
    model.zero_grad()
    outputs = [criterion(model, sample)[:2] for sample in samples]
    (sum(loss for loss, _ in outputs) / sum(size for _, size in outputs)).backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return torch.cat(gradients).double()


@pytest.mark.parametrize("name, arch, options", CASES)
def test_an_update_does_not_depend_on_its_batches(name, arch, options):
    model, criterion = make_trained(name, arch), make_criterion(name, options)
    whole = gradient(criterion, model, [make_sample(name, arch, [0, 1, 2, 3])])
    for division in ([[0, 1], [2, 3]], [[0], [1, 2, 3]]):
        parts = [make_sample(name, arch, texts) for texts in division]
        divided = gradient(criterion, model, parts)
        assert (divided - whole).norm() <= 1e-5 * whole.norm()
    if options:
        plain = gradient(make_criterion(name, dict.fromkeys(options, 0.0)), model, parts)
        assert (divided - plain).norm() >= 1e-2 * plain.norm(), "the weight has to matter"


@pytest.mark.parametrize("name, arch, options", CASES)
def test_validation_measures_the_loss_of_training(name, arch, options):
    """Validation applies label smoothing as training does, but no regularisers."""
    model, sample = make_trained(name, arch), make_sample(name, arch, [0, 1, 2, 3])
    smoothing = {} if name == "bert_pretraining" else {"label_smoothing": 0.3}
    weights = {option: 0.0 for option in options if option.endswith("weight")}

    def loss(training, **changes):
        criterion = make_criterion(name, {**options, **smoothing, **changes})
        return criterion(model.train(training), sample)[2]["loss"]

    validated = loss(False)
    torch.testing.assert_close(validated, loss(True, **weights))
    if weights:
        assert loss(True) > 1.01 * validated
    if smoothing:
        assert (loss(False, label_smoothing=0.0) - validated).abs() > 1e-3 * validated
