"""Trained models from Python: one line loads a model, the next one uses it.

    from fairseq_odeformers import load_translator

    translator = load_translator("checkpoint_best.pt", "data-bin").half()
    translator.translate(["Ein Mann geht.", "Eine Frau liest."], beam=5)

A loader reads a file (:class:`.Checkpoint`), builds the model and its task from what is in it, and
hands both to a :class:`.Generator` or a :class:`.Classifier`. The
result is a module of torch: ``half`` and ``to`` convert it; ``cuda`` is not tested on a GPU.
Translators and language models are fairseq's :class:`~fairseq.hub_utils.GeneratorHubInterface`,
which ``from_pretrained`` of their classes returns as well.

All treat texts alike. A text of spaces has an empty result. A text without a symbol of the
dictionary causes a warning, once. A text that is longer than the model's positions raises an error,
unless the task truncates the data set, as with the options ``truncate_source=True`` of a translator
and ``shorten_method="truncate"`` of other models.
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
from fairseq_odeformers.errors import did_you_mean, naming_faults
from fairseq_odeformers.files import MADE_FROM, check_joined
from fairseq_odeformers.registry import Kind
from fairseq_odeformers.text.moses import read_raw_pairs

from .classifier import Classifier
from .generator import Generator

Folder = str | PathLike[str]
Source = str | PathLike[str] | Checkpoint

# What takes trained models of each kind: commands, and the function.
USES = {
    Kind.TRANSLATION: "odeformers translate, odeformers analyse attention and load_translator",
    Kind.CLASSIFICATION: "odeformers predict, odeformers analyse and load_classifier",
    Kind.LANGUAGE_MODEL: "fairseq-eval-lm and load_language_model",
}
LATER = {  # words that are no options of a loader
    "beam": "give it to the methods of the loaded model",
    "device": "give it to the loaded model's method to()",
}
CODES = ("code", "bpecodes")  # fairseq's from_pretrained looks for these names


def load_translator(
    checkpoint: Source, data: Folder | None = None, tokenized: bool | None = None, **options: Any
) -> Generator:
    """A translator; its ``translate(sentences, beam=5)`` returns a translation of each sentence.

    Args:
        checkpoint: file, or an ensemble, several separated by colons; or a
            :class:`.Checkpoint`.
        data: folder with the dictionaries (default: the data set of the training).
        tokenized: whether sentences are tokens between spaces, and translations as well. If not,
            raw text is tokenised (and lower-cased) as ``odeformers prepare`` did it for the data,
            and translations are detokenised. By default text is raw where the folder of the data
            tells how, and *options* have no ``tokenizer``.
        options: fairseq's options, such as ``bpe``, ``bpe_codes`` and ``tokenizer``. By default
            sentences are split at spaces, and into subwords if the folder of the data, or the one
            above, has their codes as ``code`` or ``bpecodes``.

    Raises:
        OSError: a file is not there.
        ValueError: the file is no checkpoint, or of another kind of model; or raw text is asked
            for, and the data set was not made by ``odeformers prepare``.
    """
    if tokenized not in (None, True, False):
        raise ValueError(f"tokenized {tokenized!r}: give True or False")
    for name in options.keys() - {"tokenizer"}:
        if remedy := did_you_mean(name, ["tokenized"]):
            raise ValueError(f"load_translator has no option {name}; {remedy}")
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
    """A causal language model, with the methods ``score`` and ``sample``.

    For arguments and errors see :func:`load_translator`.
    """
    return _load_generator(checkpoint, data, options, FairseqLanguageModel, "a language model")


def load_classifier(checkpoint: Source, data: Folder | None = None, **options: Any) -> Classifier:
    """A classifier; its ``classify(texts)`` returns the class of each text, and probabilities.

    For arguments and errors see :func:`load_translator`; of several checkpoints the probabilities
    are averaged. Classes that the data lack are an error, too.
    """
    models, task = [], None
    for each in read_each(checkpoint):
        if each.num_classes is None:
            raise ValueError(f"{each.path} is not the checkpoint of a classifier{advise(each)}")
        model, task, _ = each.build(data, task, **options)
        models.append(model)
    return Classifier(models, task)


def read_each(checkpoint: Source) -> Iterator[Checkpoint]:
    """One checkpoint, or several with paths separated by colons.

    A file is read when its model is about to be built.

    Raises:
        TypeError: *checkpoint* is no path.
        ValueError: the name of a file or folder has a colon; or see
            :meth:`.Checkpoint.read`.
    """
    if isinstance(checkpoint, Checkpoint):
        yield checkpoint
        return
    if not isinstance(checkpoint, (str, PathLike)):
        raise TypeError(f"checkpoint {checkpoint!r}: give a path, or several joined by colons")
    check_joined(str(checkpoint))
    yield from map(Checkpoint.read, utils.split_paths(str(checkpoint)))


def _load_generator(
    checkpoint: Source, data: Folder | None, options: dict[str, Any], base: type, name: str
) -> Generator:
    """See :func:`load_translator`; *name* is what messages call models that derive from *base*."""
    for option in LATER.keys() & options.keys():
        raise ValueError(f"{option} {options[option]!r}: {LATER[option]}")
    models, task, cfg = [], None, None
    for each in read_each(checkpoint):
        model_class = ARCH_MODEL_REGISTRY.get(each.arch, base)  # build refuses others
        if not issubclass(model_class, base):
            fault = f"is of --arch {each.arch}, which is not {name}"
            raise ValueError(f"{each.path} {fault}{advise(each)}")
        overrides = {**find_text_options(each.cfg.task, data), **options}
        check_encoders(each.path, each.cfg, overrides)
        model, task, cfg = each.build(task=task, **overrides)
        models.append(model)
    # The last file's options make the tokenizer and the subwords of an ensemble.
    with naming_faults(each.path, "does not fit its tokenizer or subwords"):
        return Generator(cfg, task, models).eval()


def advise(checkpoint: Checkpoint) -> str:
    """The end of a message: the function for a checkpoint of another kind; "" if there is none."""
    if checkpoint.regression:
        return (
            "; it predicts numbers (--regression-target): fairseq-validate scores it, and "
            "odeformers predict STS-B-bin --glue-submission writes predictions for STS-B"
        )
    return f"; {USES[checkpoint.kind]} take it" if checkpoint.kind in USES else ""


def find_text_options(cfg, data: Folder | None = None) -> dict[str, str]:
    """fairseq's options for turning text into tokens of a data set.

    Args:
        cfg: options of the task of a training.
        data: folder with the dictionaries (default: the data set of the training).
    """
    names = {"source_lang", "target_lang"}  # options of a tokenizer
    options = {name: value for name in names if (value := getattr(cfg, name, None))}
    if folder := str(data or getattr(cfg, "data", None) or ""):  # the task parity has none
        options |= {"data": folder, **find_codes(folder)}
    return options


def find_codes(data: str) -> dict[str, str]:
    """fairseq's options for the BPE codes of a data set; none where it has no codes."""
    folder = Path(data)
    for path in (parent / name for parent in (folder, folder.parent) for name in CODES):
        if path.is_file():
            return {"bpe": "subword_nmt", "bpe_codes": str(path)}
    return {}
