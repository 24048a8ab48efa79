"""What kind of model is this: one that translates, classifies, or models language?"""

from collections.abc import Collection
from enum import Enum

from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqEncoderModel,
    FairseqLanguageModel,
)
from fairseq.tasks import TASK_REGISTRY


class Kind(Enum):
    """A kind of model.

    Attributes:
        tasks: fairseq's tasks that train it, the default first.
        criterion: the default criterion.
        score: the score that a comparison of such models reports first.
        purpose: what such models are for, in words.
    """

    tasks: tuple[str, ...]
    criterion: str
    score: str
    purpose: str

    TRANSLATION = ("translation",), "label_smoothed_cross_entropy", "BLEU", "translation"
    CLASSIFICATION = (
        ("sentence_prediction", "long_range_arena", "parity"),
        "sequence_classification",
        "accuracy",
        "classification",
    )
    LANGUAGE_MODEL = (
        ("language_modeling",),
        "label_smoothed_cross_entropy_with_regularizers",
        "perplexity",
        "language modeling",
    )
    MASKED_LM = ("masked_lm", "bert_pretraining"), "masked_lm", "loss", "masked language modeling"

    def __init__(self, tasks: tuple[str, ...], criterion: str, score: str, purpose: str):
        self.tasks = tasks
        self.criterion = criterion
        self.score = score
        self.purpose = purpose

    @classmethod
    def of_task(cls, task: str) -> "Kind | None":
        """The kind that a task trains; None for a task of another kind, and for an unknown one."""
        trained = TASK_REGISTRY.get(task)
        if trained is None:
            return None
        classes = {kind: tuple(map(TASK_REGISTRY.get, kind.tasks)) for kind in cls}
        return next((kind for kind in cls if issubclass(trained, classes[kind])), None)


def kinds_of(model: type) -> Collection[Kind]:
    """The kinds that a class of models is of; none for models of speech and the like.

    A class may name its ``kinds``. Otherwise fairseq's base classes tell: an encoder with
    classification heads, such as RoBERTa, is a masked language model as well.
    """
    if (kinds := getattr(model, "kinds", None)) is not None:
        return kinds
    heads = [Kind.CLASSIFICATION] if hasattr(model, "register_classification_head") else []
    if issubclass(model, FairseqEncoderDecoderModel):
        return [Kind.TRANSLATION, *heads]
    if issubclass(model, FairseqLanguageModel):
        return [Kind.LANGUAGE_MODEL]
    return [Kind.MASKED_LM, *heads] if heads and issubclass(model, FairseqEncoderModel) else []


def kind_of(model: type, task: str | None = None) -> Kind | None:
    """The kind of a class of models for a task, or without one its first; None if it has none."""
    kinds = kinds_of(model)
    if task is not None:
        kind = Kind.of_task(task)
        return kind if kind in kinds else None
    return next(iter(kinds), None)


def find_architectures(kind: Kind | None = None) -> list[str]:
    """The names of the architectures of a kind, or of all.

    Models come before presets, then those whose first kind it is, and translators before others;
    what is alike in these, last registered first, so that a plugin's come first.
    """
    order = [*([kind] if kind else []), *Kind, None]
    fit = [name for name, model in ARCH_MODEL_REGISTRY.items() if kind in (None, *kinds_of(model))]

    def key(name: str) -> tuple[bool, int]:
        return name not in MODEL_REGISTRY, order.index(kind_of(ARCH_MODEL_REGISTRY[name]))

    return sorted(reversed(fit), key=key)


def check_kind(arch: str, task: str) -> None:
    """Check that a task trains an architecture, where the kinds of both are known.

    Raises:
        ValueError: it does not; the message names both options and the remedy.
    """
    kinds, trained = kinds_of(ARCH_MODEL_REGISTRY[arch]), Kind.of_task(task)
    if kinds and trained and trained not in kinds:
        tasks = ", ".join(name for kind in kinds for name in kind.tasks)
        raise ValueError(
            f"--task {task}: it does not train --arch {arch}, which is for {tasks}; "
            "odeformers list names architectures by their tasks"
        )
