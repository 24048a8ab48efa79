"""Trained models from Python: one line loads a model, the next one uses it.

    from fairseq_odeformers import load_translator

    translator = load_translator("checkpoint_best.pt", "data-bin").half()
    translator.translate(["Ein Mann geht.", "Eine Frau liest."], beam=5)

A loader reads a file (:class:`.Checkpoint`), builds the model and its task from it, and passes both
to a :class:`.Generator` or a :class:`.Classifier`. The result is a module of torch: ``half`` and
``to`` convert it; ``cuda`` is not tested on a GPU. Translators and language models are subclasses
of fairseq's :class:`~fairseq.hub_utils.GeneratorHubInterface`, as returned by ``from_pretrained``
of their classes.

All loaders follow the same rules for texts. A blank text yields an empty result. For each
dictionary, one warning reports the first text with unknown symbols, and one reports the first text
that consists only of unknown symbols. A text that is longer than the model's positions raises an
error, unless the task truncates the data set, as with the options ``truncate_source=True`` of a
translator and ``shorten_method="truncate"`` of other models.
"""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from fairseq import utils
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqLanguageModel,
)

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.checkpoints.trust import check_encoders
from fairseq_odeformers.errors import InputError, did_you_mean, naming_faults
from fairseq_odeformers.files import MADE_FROM, check_joined
from fairseq_odeformers.registry import Kind
from fairseq_odeformers.text.moses import read_raw_pairs

from .classifier import Classifier
from .generator import Generator

Folder = str | PathLike[str]
Source = str | PathLike[str] | Checkpoint

# The commands and the function that accept trained models of each kind.
USES = {
    Kind.TRANSLATION: "odeformers translate, odeformers analyse attention and load_translator",
    Kind.CLASSIFICATION: "odeformers predict, odeformers analyse and load_classifier",
    Kind.LANGUAGE_MODEL: "fairseq-eval-lm and load_language_model",
}
LATER_OPTIONS = {  # names that are not options of a loader
    "beam": "pass it to the methods of the loaded model",
    "device": "pass it to the loaded model's method to()",
}
CODES = ("code", "bpecodes")  # fairseq's from_pretrained looks for these names


def load_translator(
    checkpoint: Source, data: Folder | None = None, tokenized: bool | None = None, **options: Any
) -> Generator:
    """Load a translator, with the method ``translate``.

    Args:
        checkpoint: a file; an ensemble, given as several files separated by colons; or a
            :class:`.Checkpoint`.
        data: folder with the dictionaries (default: the data set of the training run).
        tokenized: whether sentences and translations are tokens between spaces. If not, raw text
            is tokenised (and lower-cased) as ``odeformers prepare`` did for the data, and
            translations are detokenised. By default, text is raw if the folder of the data says how
            to tokenise it and *options* have no ``tokenizer``.
        options: fairseq's options, such as ``bpe``, ``bpe_codes`` and ``tokenizer``. By default,
            sentences are split at spaces, and into subwords if the folder of the data, or its
            parent folder, contains a file of codes, ``code`` or ``bpecodes``.

    Raises:
        OSError: a file does not exist.
        TypeError: *checkpoint* or *data* is not a path.
        InputError: the file is not a checkpoint, or contains a different kind of model; or
            *tokenized* is False, and the data set was not made by ``odeformers prepare``.

    For example:

        translator = load_translator("checkpoint_best.pt", "data-bin")
        translator.translate(["Ein Mann geht."], beam=5)  # a list with one translation
    """
    if tokenized not in (None, True, False):
        raise InputError(f"tokenized {tokenized!r}: give True or False")
    for name in options.keys() - {"tokenizer"}:
        if remedy := did_you_mean(name, ["tokenized"]):
            raise InputError(f"load_translator has no option {name}; {remedy}")
    translator = _load_generator(
        checkpoint, data, options, FairseqEncoderDecoderModel, "a translator"
    )
    cfg = translator.task.cfg
    if tokenized is None:
        tokenized = "tokenizer" in options or not Path(cfg.data, MADE_FROM).exists()
    if not tokenized:
        translator.raw = read_raw_pairs(cfg.data, cfg.source_lang, cfg.target_lang)
    return translator


def load_language_model(
    checkpoint: Source, data: Folder | None = None, **options: Any
) -> Generator:
    """Load a causal language model, with the methods ``score`` and ``sample``.

    Texts have the form of the data set before it is split into subwords. For other arguments and
    errors, see :func:`load_translator`.

    For example:

        model = load_language_model("checkpoint_best.pt")
        model.sample("the man", sampling=True, sampling_topk=10)  # a text that begins like this
    """
    return _load_generator(checkpoint, data, options, FairseqLanguageModel, "a language model")


def load_classifier(checkpoint: Source, data: Folder | None = None, **options: Any) -> Classifier:
    """Load a classifier, with the method ``classify``.

    Texts are split into symbols as the training data were. For other arguments and errors, see
    :func:`load_translator`. The probabilities of several checkpoints are averaged. The data must
    have the classes of the checkpoint, in the same order.

    For example:

        classifier = load_classifier("checkpoint_best.pt")
        label, probabilities = classifier.classify("a good text")
    """
    check_folder(data)
    models, task = [], None
    for member in read_each(checkpoint):
        if member.num_classes is None:
            raise InputError(f"{member.path} is not the checkpoint of a classifier{advise(member)}")
        model, task, _ = member.build(data, task, **options)
        models.append(model)
    return Classifier(models, task)


def read_each(checkpoint: Source) -> Iterator[Checkpoint]:
    """Yield the checkpoint at a path, or at each of several paths separated by colons.

    Each file is read just before its model is built.

    Raises:
        TypeError: *checkpoint* is not a path.
        InputError: the name of a file or folder contains a colon; or see
            :meth:`.Checkpoint.read`.
    """
    if isinstance(checkpoint, Checkpoint):
        yield checkpoint
        return
    if not isinstance(checkpoint, (str, PathLike)):
        raise TypeError(f"checkpoint {checkpoint!r}: give a path, or several joined by colons")
    check_joined(str(checkpoint))
    yield from map(Checkpoint.read, utils.split_paths(str(checkpoint)))


def check_folder(data: Any) -> None:
    """Check that the folder of a data set, if given, is a path.

    Raises:
        TypeError: *data* is not a path.
    """
    if not isinstance(data, str | PathLike | None):
        raise TypeError(f"data {data!r}: give the path of the folder with the dictionaries")


def _load_generator(
    checkpoint: Source, data: Folder | None, options: dict[str, Any], base: type, name: str
) -> Generator:
    """Load models that derive from *base*, called *name* in messages; see the public loaders."""
    for option in LATER_OPTIONS.keys() & options.keys():
        raise InputError(f"{option} {options[option]!r}: {LATER_OPTIONS[option]}")
    check_folder(data)
    models, task, cfg = [], None, None
    for member in read_each(checkpoint):
        model_class = ARCH_MODEL_REGISTRY.get(member.arch, base)  # build() checks unknown names
        if not issubclass(model_class, base):
            fault = f"is of --arch {member.arch}, which is not {name}"
            raise InputError(f"{member.path} {fault}{advise(member)}")
        overrides = {**find_text_options(member.cfg.task, data), **options}
        check_encoders(member.path, member.cfg, overrides)
        model, task, cfg = member.build(task=task, **overrides)
        models.append(model)
    # The tokenizer and the subwords of an ensemble follow the options of its last file.
    with naming_faults(member.path, "does not fit its tokenizer or subwords"):
        return Generator(cfg, task, models).eval()


def advise(checkpoint: Checkpoint) -> str:
    """Return the end of a message that names what accepts this kind of checkpoint, or ""."""
    if checkpoint.regression:
        return (
            "; it predicts numbers (--regression-target): fairseq-validate scores it, and "
            "odeformers predict STS-B-bin --glue-submission writes predictions for STS-B"
        )
    return f"; {USES[checkpoint.kind]} accept it" if checkpoint.kind in USES else ""


def find_text_options(cfg, data: Folder | None = None) -> dict[str, str]:
    """Find the values of fairseq's options for turning text into tokens of a data set.

    Args:
        cfg: options of the task of a training run.
        data: folder with the dictionaries (default: the data set of the training run).
    """
    names = {"source_lang", "target_lang"}  # options that tokenizers read
    options = {name: value for name in names if (value := getattr(cfg, name, None))}
    if folder := str(data or getattr(cfg, "data", None) or ""):  # the task parity has none
        options |= {"data": folder, **find_codes(folder)}
    return options


def find_codes(data: str) -> dict[str, str]:
    """Find the values of fairseq's options for the BPE codes of a data set, if it has any."""
    folder = Path(data)
    for path in (parent / name for parent in (folder, folder.parent) for name in CODES):
        if path.is_file():
            return {"bpe": "subword_nmt", "bpe_codes": str(path)}
    return {}
