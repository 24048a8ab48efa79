"""What is registered: the kind, the family, the options and the sizes of an architecture.

Presets are registered here, and plugins imported, which register their own.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, make_dataclass
from enum import Enum
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

from .errors import blaming
from .options import SIDES, hyphenate

# --- kinds ---


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


# --- families ---

BASELINES, OWN = "baselines", "your own"  # in place of a paper; the second is a plugin's


@dataclass(frozen=True)
class Family:
    """A family of architectures, whatever their tasks.

    The folder of its models declares one as ``FAMILY``, a plugin's too; a model that is of another
    family than its folder, as ``family``.

    Attributes:
        name: such as ``TransEvolve``.
        authors, year: the authors and year of the paper; a family without a year is a baseline.
        color: in figures, a name of ``odeformers.plots`` or of matplotlib.
        variants: other colours, of architectures with these words in their names.
    """

    name: str
    authors: str = ""
    year: int = 0
    color: str | None = None
    variants: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def paper(self) -> str:
        """The family with its paper, such as ``TransEvolve (Dutta et al. 2021)``."""
        return f"{self.name} ({self.authors} {self.year})" if self.year else BASELINES


def declared_family(model: type) -> Family | None:
    """The family that a model or a package around it declares; None if there is none."""
    declared, module = vars(model).get("family"), model.__module__
    while module and not declared:
        declared = getattr(sys.modules.get(module), "FAMILY", None)
        module = module.rpartition(".")[0]
    return declared


def paper_of(arch: str) -> str:
    """The paper that an architecture is of; :data:`OWN` for one that declares none."""
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    return family.paper if family else OWN


def paper_order(arch: str) -> tuple[bool, bool, int, str]:
    """A key that sorts architectures by the years of their papers; then baselines, and others."""
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    return not family, not (family and family.year), family.year if family else 0, paper_of(arch)


def family_of(arch: str) -> str:
    """The family of an architecture, whatever its task, such as ``TransEvolve``."""
    family = declared_family(ARCH_MODEL_REGISTRY.get(arch, Family))
    if family is None:
        return arch  # perhaps a plugin's that this process has not loaded
    options = {} if family.year else default_options(arch)
    prenorm = any(options.get(f"{side}_normalize_before") for side in SIDES)
    return f"pre-norm {family.name}" if prenorm else family.name


def color_of(text: str) -> str | None:
    """The colour of the family that a text names, as a run or a line of a figure does.

    The longest name counts, of an architecture, of a family or of its folder. None if there is
    none.
    """
    text, named = text.lower(), dict[str, Family]()
    for arch, model in ARCH_MODEL_REGISTRY.items():
        if family := declared_family(model):
            named |= dict.fromkeys((arch, family.name.lower()), family)
            if "family" not in vars(model):  # the folder's own
                named[model.__module__.split(".")[-2:][0]] = family
    found = max((name for name in named if name in text), key=len, default=None)
    if found is None:
        return None
    words = (color for word, color in named[found].variants.items() if word in text)
    return next(words, named[found].color)


# --- options and sizes ---

# Names that are the same for all architectures. The inner width is a Transformer's: the halves of a
# Macaron Net's feed-forward network have half of it each.
NEUTRAL = {
    "layers": "layers",
    "width": "embed_dim",
    "heads": "attention_heads",
    "ffn": "ffn_embed_dim",
}
SIZES = {  # by the names of --size
    "small": {"layers": 2, "width": 128, "heads": 4, "ffn": 512},
    "base": {"layers": 6, "width": 512, "heads": 8, "ffn": 2048},
}


def model_parser(arch: str) -> ArgumentParser:
    """A parser of the options of an architecture alone."""
    parser = ArgumentParser(allow_abbrev=False, add_help=False)
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    return parser


def option_names(arch: str) -> dict[str, str]:
    """The names of the options of an architecture, by how they may be typed after ``--``.

    A switch that is on by default is typed ``no-...``; some options can be typed in two ways.
    """
    return {
        hyphenate(typed[2:]): action.dest
        for action in model_parser(arch)._actions
        for typed in action.option_strings
    }


def default_options(arch: str) -> dict[str, Any]:
    """All options of an architecture, by their names, with its defaults; None where it has none.

    A default that follows another option is an interpolation, such as
    ``${model.encoder_embed_dim}``.
    """
    preset = Namespace()
    ARCH_CONFIG_REGISTRY[arch](preset)
    config = MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[arch])
    defaults = {**(vars(config()) if config else {}), **vars(preset)}
    return {name: defaults.get(name) for name in option_names(arch).values()}


def split_sizes(options: Mapping[str, Any]) -> tuple[dict[str, int], dict[str, Any]]:
    """The sizes that options give by neutral names, and all other options.

    Raises:
        ValueError: a size is no whole number, or has no such name.
    """
    others = {name: value for name, value in options.items() if name not in (*NEUTRAL, "size")}
    name = options.get("size", "")
    if name and name not in SIZES:
        raise ValueError(f"--size {name}: choose from {', '.join(SIZES)}")
    named = {**SIZES.get(name, {}), **{key: options[key] for key in NEUTRAL if key in options}}
    for key, value in named.items():
        if not str(value).isdecimal() or not int(value):
            raise ValueError(f"--{key} {value}: give a whole number from 1")
    width, heads = int(named.get("width", 0)), int(named.get("heads", 1))
    if width % heads:
        raise ValueError(f"--heads {heads}: give a divisor of --width {width}")
    return {NEUTRAL[key]: int(value) for key, value in named.items()}, others


def size_options(
    arch: str, sizes: Mapping[str, int], chosen: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The options that give an architecture the sizes of a Transformer.

    The model's ``side_sizes`` says which options of a side these are. Where a decoder's option
    follows the encoder's by default, it is not set. Where a size is chosen for the encoder alone,
    the decoder takes it as well.

    Args:
        sizes: some of ``embed_dim``, ``ffn_embed_dim``, ``attention_heads`` and ``layers``.
        chosen: options that have other values than their defaults, and keep them.

    Raises:
        ValueError: the architecture cannot have these sizes.
    """
    chosen, defaults = dict(chosen or {}), default_options(arch)
    side_sizes = getattr(ARCH_MODEL_REGISTRY[arch], "side_sizes", transformer_sizes)
    options_of_sizes: dict[str, Any] = {}
    for side in SIDES:
        wanted = dict(sizes)
        if "embed_dim" in sizes and f"{side}_embed_dim" in chosen:
            wanted["embed_dim"] = int(chosen[f"{side}_embed_dim"])
        options = side_options({**defaults, **chosen}, side)
        for name, value in side_sizes(wanted, options).items():
            default = defaults.get(f"{side}_{name}")
            follows = side == "decoder" and str(default).startswith("${model.encoder")
            if f"{side}_{name}" in defaults and not follows:
                options_of_sizes[f"{side}_{name}"] = chosen.get(f"encoder_{name}", value)
    return {name: value for name, value in options_of_sizes.items() if name not in chosen}


def transformer_sizes(
    sizes: Mapping[str, int], options: Mapping[str, Any], ffns_per_layer: int = 1
) -> dict[str, int]:
    """The options of a side that give it a Transformer's sizes, see ``BaseModel.side_sizes``.

    Args:
        ffns_per_layer: the FFNs of a layer, which share the inner width of a Transformer's.
    """
    values = dict(sizes)
    if "embed_dim" in sizes and "input_dim" in options:  # a language model's
        values["input_dim"] = values["output_dim"] = sizes["embed_dim"]
    if "ffn_embed_dim" in sizes:
        values["ffn_embed_dim"] = sizes["ffn_embed_dim"] // ffns_per_layer
    return values


def side_options(options: Mapping[str, Any], side: str) -> dict[str, Any]:
    """The options of the ``encoder`` or the ``decoder``, by their names without the side."""
    start = f"{side}_"
    return {
        name.removeprefix(start): value for name, value in options.items() if name.startswith(start)
    }


# --- presets ---


def register_preset(model: str, *names: str, **options: Any) -> None:
    """Register names for a model whose *options* are these, unless the command line sets them.

    Args:
        model: a registered model that has a dataclass.
    """

    def preset(args: Namespace) -> None:
        for option, value in options.items():
            setattr(args, option, getattr(args, option, value))

    for name in names:
        register_model_architecture(model, name)(preset)
        register_config(name, model, options)


def register_config(name: str, model: str, options: Mapping[str, Any]) -> None:
    """Register the options of a preset as the defaults of a config of its own.

    fairseq applies a preset to a command line alone: for ``model: {_name: PRESET}`` Hydra would
    make the model with its own defaults. The config also gives an older checkpoint the options that
    are newer, and drops options that are gone.
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


PLUGINS: dict[str, str] = {}  # the package that has registered an architecture, of a plugin's


def registered_by(arch: str) -> str:
    """The package that has registered an architecture, a model or a preset of any model."""
    if arch in PLUGINS:
        return PLUGINS[arch]
    return str(ARCH_CONFIG_REGISTRY.get(arch, ARCH_MODEL_REGISTRY[arch]).__module__).split(".")[0]


def import_plugins(folders: Iterable[str]) -> None:
    """Import folders as fairseq's ``--user-dir`` does; they register models and tasks.

    Raises:
        ValueError: a folder is not there, has the name of another module, or its code raises.
    """
    for folder in folders:
        if os.path.isfile(folder):
            parent = os.path.dirname(folder)
            remedy = f"give its folder, {parent or '.'}"
            if not os.path.isfile(os.path.join(parent, "__init__.py")):
                remedy = "give a folder that has it as its __init__.py"
            raise ValueError(f"--user-dir {folder}: a file; {remedy}")
        if not os.path.isdir(folder):
            raise ValueError(f"--user-dir {folder}: no such folder; give one with an __init__.py")
        if not os.path.isfile(os.path.join(folder, "__init__.py")):
            raise ValueError(f"--user-dir {folder}: no __init__.py there; give a folder with one")
        name = os.path.basename(os.path.abspath(folder))
        imported = [*getattr(sys.modules.get(name), "__path__", [])]
        if name not in sys.modules:
            known = {*ARCH_MODEL_REGISTRY}
            with blaming():
                import_user_module(Namespace(user_dir=folder))
            PLUGINS.update(dict.fromkeys(ARCH_MODEL_REGISTRY.keys() - known, name))
        elif not any(os.path.isdir(path) and os.path.samefile(path, folder) for path in imported):
            raise ValueError(
                f"--user-dir {folder}: a module {name} is imported already, from "
                f"{', '.join(imported) or 'Python'}; leave the option out, or rename the folder"
            )
