"""Untrained models of any registered architecture, without data."""

import re
import sys
import threading
from argparse import ArgumentParser, Namespace
from dataclasses import fields
from numbers import Integral
from typing import Any, NoReturn

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    BaseFairseqModel,
)
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY, FairseqTask
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation import TranslationTask
from omegaconf import DictConfig, OmegaConf

from fairseq_odeformers.data.classification import make_dictionary
from fairseq_odeformers.errors import InputError, did_you_mean, naming_faults
from fairseq_odeformers.options import flag, validate
from fairseq_odeformers.registry import (
    Kind,
    explain_unknown_architecture,
    find_architectures,
    kind_of,
    kinds_of,
    option_names,
)

INTERPOLATION = re.compile(r"\$\{(\w+)\.(\w+)\}")  # a default that refers to another option
PARSING = threading.Lock()  # held while sys.argv is another one
NUMBERS = {"int": "a whole number", "float": "a number", "<lambda>": "a number"}  # fairseq's types


def build_model(
    arch: str, *, vocabulary: int, task: str | None = None, **options: Any
) -> BaseFairseqModel:
    """Build an untrained model of any architecture registered with fairseq, also by a plugin.

    Its symbols are the numbers below *vocabulary*. The first four are fairseq's ``<s>``,
    ``<pad>``, ``</s>`` and ``<unk>``. A masked language model has one symbol more, its mask.

    Args:
        arch: name of the architecture, as given to ``--arch``.
        vocabulary: number of symbols.
        task: a task of the kind to build, for architectures of several kinds (default: the first
            task that trains *arch*). The model is built for the first task of this kind.
        options: options of the model and its task by their Python names, such as
            ``encoder_layers=2``, ``layer_norm=False`` and, for classifiers, ``num_classes=5``.

    Raises:
        InputError: the architecture, its task or an option does not exist, or a value is invalid.
        TypeError: the name of the architecture or task is not a string.

    For example:

        model = build_model("pcformer_lm", vocabulary=1000, decoder_layers=2)
        logits, extra = model(torch.randint(4, 1000, (2, 8)))  # tokens (B, T); logits (B, T, V)
    """
    kind, special = choose_kind(arch, task), make_dictionary([]).nspecial
    if not isinstance(vocabulary, Integral) or vocabulary <= special:
        raise InputError(f"vocabulary {vocabulary!r}: give a whole number above {special}")
    of_task = [item.name for item in fields(TASK_DATACLASS_REGISTRY[kind.tasks[0]])]
    known = [*option_names(arch).values(), *of_task]
    for name in options.keys() - {*known}:
        remedy = did_you_mean(name, known, f"odeformers options {arch} lists them")
        raise InputError(f"{arch} has no option {name}; {remedy}")
    if kind is Kind.CLASSIFICATION and options.get("num_classes") is None:
        raise InputError(f"{arch} is a classifier: give num_classes, the number of classes")
    line = ["unused", "--task", kind.tasks[0], "--arch", arch, "--criterion", kind.criterion]
    for name, value in options.items():
        if value is not False and value is not None:
            line += [flag(name)] if value is True else [flag(name), str(value)]
    with naming_faults(arch, "cannot be built"):
        args = parse_args_and_arch(raising_parser(), line)
        vars(args).update((name, value) for name, value in options.items() if value is False)
        cfg = make_parts(args)
        return make_task(kind, cfg.task, int(vocabulary) - special).build_model(cfg.model)


def choose_kind(arch: str, task: str | None = None) -> Kind:
    """Choose the kind of an architecture for a task (default: the architecture's first task).

    Raises:
        InputError: the architecture or the task does not exist, or the task does not train it.
        TypeError: a name is not a string.
    """
    if not isinstance(arch, str):
        raise TypeError(f"arch {arch!r}: give the name of an architecture as a str")
    if not isinstance(task, str | None):
        raise TypeError(f"task {task!r}: give the name of a task as a str")
    if arch not in ARCH_MODEL_REGISTRY:
        raise InputError(explain_unknown_architecture(arch, find_architectures()))
    kind = kind_of(ARCH_MODEL_REGISTRY[arch], task)
    if kind is None:
        kinds = kinds_of(ARCH_MODEL_REGISTRY[arch])
        tasks = ", ".join(name for kind in kinds for name in kind.tasks) or "no task"
        if task and task not in TASK_REGISTRY:
            remedy = did_you_mean(task, TASK_REGISTRY, f"{arch} is for {tasks}")
            raise InputError(f"--task {task}: no such task; {remedy}")
        given = f", not for --task {task}" if task else " that can be built without data"
        raise InputError(f"{arch}: it is for {tasks}{given}; odeformers list shows others")
    return kind


def raising_parser() -> ArgumentParser:
    """Make the parser of ``fairseq-train``, with errors raised as exceptions.

    fairseq would import the ``--user-dir`` of the program that calls this function.
    """
    with PARSING:
        words, sys.argv = sys.argv, sys.argv[:1]
        try:
            parser = get_training_parser()
        finally:
            sys.argv = words

    def refuse(message: str) -> NoReturn:
        raise ValueError(explain_types(message))

    parser.error = refuse
    return parser


def explain_types(message: str) -> str:
    """Return argparse's message with words in place of the names of Python's types."""
    for kind, number in NUMBERS.items():
        message = message.replace(f"invalid {kind} value: ", f"give {number}, not ")
    return message


def make_parts(args: Namespace) -> Namespace:
    """Make the parts ``model``, ``task`` and ``criterion`` of a configuration from *args*.

    Composing the whole configuration with Hydra would take most of the time of building a small
    model. As in fairseq, a part without a dataclass is *args*.
    """
    parts: dict[str, Any] = {
        "model": MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[args.arch]),
        "task": TASK_DATACLASS_REGISTRY.get(args.task),
        "criterion": CRITERION_DATACLASS_REGISTRY.get(args.criterion),
    }
    names = {"model": args.arch, "task": args.task, "criterion": args.criterion}
    declared = {part: cls for part, cls in parts.items() if cls is not None}
    values: dict[str, Any] = {part: cls.from_namespace(args) for part, cls in declared.items()}
    references = [
        pair for cfg in values.values() for pair in INTERPOLATION.findall(repr(vars(cfg)))
    ]
    for part, name in references:
        if part not in declared and name in vars(args):
            values.setdefault(part, {})[name] = getattr(args, name)
    config = OmegaConf.create(values)
    for part in parts:
        if part in declared:
            config[part]._name = names[part]
            plain = OmegaConf.to_container(config[part], resolve=True, enum_to_str=True)
            parts[part] = OmegaConf.create(plain)
        else:
            parts[part] = args
    return Namespace(**parts)


def make_task(kind: Kind, cfg: DictConfig, vocabulary: int) -> FairseqTask:
    """Make the default task of a kind, with made-up words.

    Args:
        cfg: part of a configuration for the task.
        vocabulary: number of words, without fairseq's special symbols.

    Raises:
        ValueError: an option of the task is out of bounds.
    """
    validate(cfg, TASK_DATACLASS_REGISTRY[kind.tasks[0]])
    words = make_dictionary(f"word{index}" for index in range(vocabulary))
    if kind is Kind.TRANSLATION:
        return TranslationTask(cfg, words, words)
    if kind is Kind.LANGUAGE_MODEL:
        return LanguageModelingTask(cfg, words, words)
    if kind is Kind.MASKED_LM:
        return MaskedLMTask(cfg, words)
    labels = make_dictionary(str(index) for index in range(cfg.num_classes))
    return SentencePredictionTask(cfg, words, labels)
