"""The kinds, families and options of architectures, and the registration of presets and plugins."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqEncoderModel,
    FairseqLanguageModel,
    register_model_architecture,
)
from fairseq.tasks import TASK_REGISTRY
from fairseq.utils import import_user_module
from hydra.core.config_store import ConfigStore

from .errors import InputError, did_you_mean, naming_faults
from .options import SIDES, hyphenate

# --- kinds ---


class Kind(Enum):
    """The kind of a model: its purpose, and the tasks that train it.

    A model class sets ``kinds`` if fairseq's base class does not imply them.

    Attributes:
        tasks: fairseq's tasks that train models of this kind, the default first.
        criterion: the default criterion.
        score: name of the score that a comparison of such models reports first.
        purpose: the purpose in words, such as ``language modelling``.
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
        "language modelling",
    )
    MASKED_LM = ("masked_lm", "bert_pretraining"), "masked_lm", "loss", "masked language modelling"

    def __init__(self, tasks: tuple[str, ...], criterion: str, score: str, purpose: str):
        self.tasks = tasks
        self.criterion = criterion
        self.score = score
        self.purpose = purpose

    @classmethod
    def of_task(cls, task: str) -> "Kind | None":
        """Return the kind of model that a task trains, or None for an unknown task."""
        task_class = TASK_REGISTRY.get(task)
        if task_class is None:
            return None
        classes = {kind: tuple(map(TASK_REGISTRY.get, kind.tasks)) for kind in cls}
        return next((kind for kind in cls if issubclass(task_class, classes[kind])), None)


def kinds_of(model: type) -> Collection[Kind]:
    """Return the kinds of a model class; empty for other models, such as those for speech.

    A class may declare its ``kinds``. Otherwise, they are inferred from fairseq's base classes: an
    encoder with classification heads, such as RoBERTa, is also a masked language model.
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
    """Return the kind of a model class for a task (its first kind if no task is given), or None."""
    kinds = kinds_of(model)
    if task is not None:
        kind = Kind.of_task(task)
        return kind if kind in kinds else None
    return next(iter(kinds), None)


def find_architectures(kind: Kind | None = None) -> list[str]:
    """Return the names of the architectures of a kind, or of all kinds.

    Models come before presets, and architectures with *kind* as their first kind before others.
    Ties are broken by kind (translators first), then by reverse order of registration, so that
    plugins come first.
    """
    order = [*([kind] if kind else []), *Kind, None]
    names = [n for n, model in ARCH_MODEL_REGISTRY.items() if kind in (None, *kinds_of(model))]

    def key(name: str) -> tuple[bool, int]:
        return name not in MODEL_REGISTRY, order.index(kind_of(ARCH_MODEL_REGISTRY[name]))

    return sorted(reversed(names), key=key)


def explain_unknown_architecture(arch: str, names: Iterable[str]) -> str:
    """Return the error message for an unregistered name.

    Args:
        names: names that the user may have meant, the likeliest first.
    """
    remedy = did_you_mean(arch, names, "odeformers list shows all")
    return f"{arch}: no such architecture; {remedy} (--user-dir finds your own)"


def check_kind(arch: str, task: str) -> None:
    """Check that a task can train an architecture, if the kinds of both are known.

    Raises:
        ValueError: the kinds differ; the message names both options and the remedy.
    """
    kinds, task_kind = kinds_of(ARCH_MODEL_REGISTRY[arch]), Kind.of_task(task)
    if kinds and task_kind and task_kind not in kinds:
        tasks = ", ".join(name for kind in kinds for name in kind.tasks)
        raise ValueError(
            f"--task {task}: it does not train --arch {arch}, which is for {tasks}; odeformers "
            "list shows the architectures of each task"
        )


# --- families ---

BASELINES, OWN = "baselines", "your own"  # names in place of a paper; plugins use the second


@dataclass(frozen=True)
class Family:
    """The name, the paper and the plot colours of a family of architectures.

    The folder with its models, here or in a plugin, declares the family as ``FAMILY``. A model that
    belongs to a different family than its folder declares that family as ``family``.

    Attributes:
        name: name of the family, such as ``TransEvolve``.
        authors, year: authors and year of the paper; a family without a year is a baseline.
        color: colour in figures: a name from ``odeformers.plots`` or matplotlib.
        variants: other colours for architectures with a word in their names.
        arxiv: arXiv number of the paper, such as ``2109.15142``; it orders papers of one year.
    """

    name: str
    authors: str = ""
    year: int = 0
    color: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict, hash=False)
    arxiv: str = ""

    @property
    def paper(self) -> str:
        """The name of the family and its paper, such as ``TransEvolve (Dutta et al. 2021)``."""
        return f"{self.name} ({self.authors} {self.year})" if self.year else BASELINES


def declared_family(model: type) -> Family | None:
    """Return the family that a model or a package around it declares, or None."""
    declared, module = vars(model).get("family"), model.__module__
    while module and not declared:
        declared = getattr(sys.modules.get(module), "FAMILY", None)
        module = module.rpartition(".")[0]
    return declared


def paper_of(arch: str) -> str:
    """Return the paper of an architecture, or :data:`OWN` if it declares none."""
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    return family.paper if family else OWN


def paper_order(arch: str) -> tuple[bool, bool, int, str, str]:
    """Return a sort key: by the paper's year and arXiv number, then baselines, then others."""
    if arch not in ARCH_MODEL_REGISTRY:
        return True, True, 0, "", arch  # it may come from a plugin that is not loaded here
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    if family is None:
        return True, True, 0, "", paper_of(arch)
    return False, not family.year, family.year, family.arxiv, family.paper


def family_of(arch: str) -> str:
    """Return the name of an architecture's family, such as ``TransEvolve``, for any task.

    A baseline with LayerNorm before its sub-layers belongs to the family ``pre-norm Transformer``.
    For an architecture that is not registered or declares no family, the architecture's own name is
    returned.
    """
    if arch not in ARCH_MODEL_REGISTRY:
        return arch  # it may come from a plugin that this process has not loaded
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    if family is None:
        return arch
    options = {} if family.year else default_options(arch)
    prenorm = any(options.get(f"{side}_normalize_before") for side in SIDES)
    return f"pre-norm {family.name}" if prenorm else family.name


def describe_limitations(
    models: Iterable[tuple[str, Mapping[str, Any]]],
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """For each limitation, yield a sentence and the names of the models that have it.

    See ``BaseModel.limitation``.

    Args:
        models: name and options of each model; the options have their names on the command line.
            The option ``arch`` defaults to the model's name.
    """
    lacking: dict[str, dict[str, None]] = {}  # names by what they lack
    for name, options in models:
        # A plugin's model may not be loaded.
        model = ARCH_MODEL_REGISTRY.get(str(options.get("arch", name)))
        if hasattr(model, "limitation") and (limitation := model.limitation(options)):
            lacking.setdefault(limitation, {})[name] = None
    for limitation, names in lacking.items():
        yield f"{limitation}: {', '.join(names)}.", tuple(names)


# --- options ---


def model_parser(arch: str) -> ArgumentParser:
    """Return a parser with the options of an architecture and no others."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    return parser


def option_names(arch: str) -> dict[str, str]:
    """Map an architecture's options, as spelled on the command line without ``--``, to their names.

    A switch that is on by default is spelled ``no-...``. Some options have two spellings.
    """
    return {
        hyphenate(spelling[2:]): action.dest
        for action in model_parser(arch)._actions
        for spelling in action.option_strings
    }


def default_options(arch: str) -> dict[str, Any]:
    """Map the names of an architecture's options to their defaults, or to None if they have none.

    A default that depends on another option is an interpolation, such as
    ``${model.encoder_embed_dim}``.
    """
    preset = Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    defaults = {**(vars(config()) if config else {}), **vars(preset)}
    return {name: defaults.get(name) for name in option_names(arch).values()}


def transformer_sizes(
    sizes: Mapping[str, int], options: Mapping[str, Any], ffns_per_layer: int = 1
) -> dict[str, int]:
    """Return the options that give a side the sizes of a Transformer; see ``BaseModel.side_sizes``.

    Args:
        sizes: sizes of a Transformer by option name without the side, such as ``embed_dim``.
        options: all options of the side, by name without the side.
        ffns_per_layer: number of FFNs per layer; together, they have the inner width of a
            Transformer's FFN.
    """
    values = dict(sizes)
    if "embed_dim" in sizes and "input_dim" in options:  # only language models have this option
        values["input_dim"] = values["output_dim"] = sizes["embed_dim"]
    if "ffn_embed_dim" in sizes:
        values["ffn_embed_dim"] = sizes["ffn_embed_dim"] // ffns_per_layer
    return values


def side_options(options: Mapping[str, Any], side: str) -> dict[str, Any]:
    """Return the options of the ``encoder`` or the ``decoder``, by name without this prefix."""
    prefix = f"{side}_"
    return {
        name.removeprefix(prefix): value
        for name, value in options.items()
        if name.startswith(prefix)
    }


# --- presets ---


def register_preset(model: str, *names: str, **options: Any) -> None:
    """Register presets: architectures with new defaults for the options of a model.

    The command line can override these defaults.

    Args:
        model: name of a registered model that has a dataclass.
        names: names of the presets.
        options: the new defaults, by name of the option.

    For example:

        register_preset("ode_transformer", "ode_transformer_rk4", rk_order=4)
    """

    def preset(args: Namespace) -> None:
        for option, value in options.items():
            setattr(args, option, getattr(args, option, value))

    for name in names:
        register_model_architecture(model, name)(preset)
        register_config(name, model, options)


def register_config(name: str, model: str, options: Mapping[str, Any]) -> None:
    """Register a config for a preset, with its options as defaults.

    fairseq only applies presets to a command line: without this config, Hydra would build
    ``model: {_name: PRESET}`` with the defaults of the model. When an older checkpoint is loaded,
    the config also adds newer options and drops options that no longer exist.
    """
    base = MODEL_DATACLASS_REGISTRY[model]
    changed = [
        (item.name, item.type, field(default=options[item.name], metadata=item.metadata))
        for item in fields(base)
        if item.name in options
    ]
    config = make_dataclass(f"{base.__name__}_{name}", changed, bases=(base,))
    MODEL_DATACLASS_REGISTRY[name] = config
    ARCH_MODEL_NAME_REGISTRY[name] = name
    node = config()
    node._name = name
    ConfigStore.instance().store(name=name, group="model", node=node, provider="fairseq")


# --- plugins ---


PLUGINS: dict[str, str] = {}  # architectures of plugins, with the package that registered each


def registered_by(arch: str) -> str:
    """Return the package that registered an architecture (a model or a preset)."""
    if arch in PLUGINS:
        return PLUGINS[arch]
    return str(ARCH_CONFIG_REGISTRY.get(arch, ARCH_MODEL_REGISTRY[arch]).__module__).split(".")[0]


def import_plugins(folders: str | Path | Iterable[str | Path]) -> None:
    """Import one or several folders that register models and tasks, as ``--user-dir`` does.

    Raises:
        InputError: a folder does not exist, lacks an ``__init__.py``, has the name of a module
            that is already imported, or contains code that raises an error.
        TypeError: an argument is not a path.
    """
    paths = [folders] if isinstance(folders, (str, os.PathLike)) else folders
    paths = [*paths] if isinstance(paths, Iterable) else [paths]
    for path in paths:
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"folders {folders!r}: give the path of a folder, or a list of paths")
    for folder in map(str, paths):
        if os.path.isfile(folder):
            parent = os.path.dirname(folder)
            remedy = f"pass its folder, {parent or '.'}"
            if not os.path.isfile(os.path.join(parent, "__init__.py")):
                remedy = "pass a folder with this file as its __init__.py"
            raise InputError(f"--user-dir {folder}: a file; {remedy}")
        if not os.path.isdir(folder):
            raise InputError(f"--user-dir {folder}: no such folder; pass one with an __init__.py")
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            raise InputError(f"--user-dir {folder}: no __init__.py there; pass a folder with one")
        name = os.path.basename(os.path.abspath(folder))
        imported = [*getattr(sys.modules.get(name), "__path__", [])]
        if name not in sys.modules:
            earlier = {*ARCH_MODEL_REGISTRY}
            with naming_faults(f"--user-dir {folder}", "cannot be imported"):
                import_user_module(Namespace(user_dir=folder))
            PLUGINS.update(dict.fromkeys(ARCH_MODEL_REGISTRY.keys() - earlier, name))
        elif not any(os.path.isdir(path) and os.path.samefile(path, folder) for path in imported):
            raise InputError(
                f"--user-dir {folder}: a module {name} has already been imported from "
                f"{', '.join(imported) or 'Python'}; leave the option out, or rename the folder"
            )
