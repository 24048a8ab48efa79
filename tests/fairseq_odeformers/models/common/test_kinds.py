"""Each architecture is of the kinds whose tasks train it: ours, fairseq's own and a plugin's."""

from argparse import Namespace

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.models.bart import BARTModel
from fairseq.models.wav2vec import Wav2Vec2Model
from helpers import Task, make_model

from fairseq_odeformers.registry import Kind, check_kind, kind_of, kinds_of
from fairseq_odeformers.tasks.parity import ParityTask
from odeformers.options import architectures

BERT = [Kind.MASKED_LM, Kind.CLASSIFICATION]
KINDS = {
    "macaron_transformer": [Kind.TRANSLATION],
    "macaron_bert": BERT,
    "macaron_classifier": [Kind.CLASSIFICATION],
    "node_transformer": [Kind.CLASSIFICATION],
    "ode_transformer": [Kind.TRANSLATION],
    "ode_transformer_classifier": [Kind.CLASSIFICATION],
    "ode_transformer_lm": [Kind.LANGUAGE_MODEL],
    "transject_lm": [Kind.LANGUAGE_MODEL],
    "transevolve_lm_fullff_1": [Kind.LANGUAGE_MODEL],
    "node_transformer_lm": [Kind.LANGUAGE_MODEL],
    "transformer_lm_prenorm": [Kind.LANGUAGE_MODEL],
    "transformer": [Kind.TRANSLATION],
    "transformer_lm": [Kind.LANGUAGE_MODEL],
    "roberta": BERT,
    "fconv": [Kind.TRANSLATION],
}


@pytest.mark.parametrize("arch", KINDS)
def test_kinds_of_an_architecture_follow_from_its_tasks(arch):
    assert list(kinds_of(ARCH_MODEL_REGISTRY[arch])) == KINDS[arch]


def test_kinds_of_fairseqs_other_models():
    """BART translates and classifies, and a speech model has no kind."""
    assert kinds_of(BARTModel) == [Kind.TRANSLATION, Kind.CLASSIFICATION]
    assert not kinds_of(Wav2Vec2Model) and kind_of(Wav2Vec2Model) is None


def test_every_architecture_has_a_kind():
    assert all(kind_of(ARCH_MODEL_REGISTRY[arch]) for arch in architectures())


@pytest.mark.parametrize(
    "task, kind",
    [
        ("translation", Kind.TRANSLATION),
        ("translation_from_pretrained_bart", Kind.TRANSLATION),
        ("long_range_arena", Kind.CLASSIFICATION),
        ("parity", Kind.CLASSIFICATION),
        ("masked_lm", Kind.MASKED_LM),
        ("bert_pretraining", Kind.MASKED_LM),
        ("audio_pretraining", None),
        ("no_such_task", None),
    ],
)
def test_each_task_has_a_kind(task, kind):
    assert Kind.of_task(task) is kind


def test_the_task_selects_one_of_several_kinds():
    model = ARCH_MODEL_REGISTRY["macaron_bert"]
    assert kind_of(model) is Kind.MASKED_LM
    assert kind_of(model, "sentence_prediction") is Kind.CLASSIFICATION
    assert kind_of(model, "translation") is None


@pytest.mark.parametrize("arch, kinds", KINDS.items())
def test_a_task_of_another_kind_is_refused(arch, kinds):
    for kind in Kind:
        for task in kind.tasks:
            if kind in kinds:
                check_kind(arch, task)
            else:
                with pytest.raises(ValueError, match=f"--task {task}: .*--arch {arch}, .*for "):
                    check_kind(arch, task)
    check_kind(arch, "audio_pretraining")  # of which nothing is known


def test_a_preset_of_a_plugin_has_the_kind_of_its_model():
    register_model_architecture("transformer_lm", "kinds_test_preset")(lambda args: None)
    assert kinds_of(ARCH_MODEL_REGISTRY["kinds_test_preset"]) == [Kind.LANGUAGE_MODEL]


@pytest.mark.parametrize(
    "arch, name",
    [
        *(("transject", name) for name in ("translation", "language_modeling", "masked_lm")),
        *((arch, "translation") for arch in ("transevolve_lm", "transformer_lm_prenorm")),
        *(("transevolve", name) for name in ("language_modeling", "sentence_prediction")),
        ("node_transformer_mt", "sentence_prediction"),
    ],
)
def test_a_model_checks_its_task(arch, name):
    """Hydra has no command line, and fairseq-generate takes any checkpoint for a translator."""
    task = Task()
    task.cfg = Namespace(_name=name, tokens_per_sample=64)
    with pytest.raises(ValueError, match=f"--task {name}: .* --arch {arch}, .*for "):
        make_model(arch, task=task)


def test_a_task_checks_fairseqs_models():
    task = ParityTask(Namespace(parity_max_length=3))
    with pytest.raises(ValueError, match="--task parity: .* --arch transformer, .*translation"):
        task.build_model(Namespace(_name="transformer"))
