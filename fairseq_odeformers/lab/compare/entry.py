"""Entries: the architectures of a plan, each with the options that fairseq-train gets."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.options import parse_args_and_arch
from fairseq.tasks import TASK_REGISTRY

from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab.parsers import training_parser
from fairseq_odeformers.models.common.kinds import check_kind
from fairseq_odeformers.models.common.sizes import size_options, split_sizes
from fairseq_odeformers.options import did_you_mean, hyphenate

from .recipe import Options, Recipe, name_options, to_words


@dataclass(frozen=True)
class Entry:
    """An architecture of a plan, or a candidate of one whose options are tuned."""

    name: str  # in tables
    options: Options  # of fairseq-train, except for the seed and the folder
    parameters: int = 0
    updates: int = 0  # of a training
    training_seconds: float = 0.0  # that a training may take, on one run's share of this machine
    note: str = ""  # how its size was chosen
    budget: float | None = None  # minutes that have determined the updates
    tried: Options = field(default_factory=dict)  # the values of tuned options
    epoch_updates: int = 0  # of an epoch; 0 in plans of earlier versions
    evaluation_seconds: float = 0.0  # of validations and predictions
    plugin: str = ""  # a digest of the user's files that it depends on

    @property
    def label(self) -> str:
        """The name among all candidates of a plan."""
        return self.name + name_options(self.tried)

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that a training saves, apart from the best and the last."""
        return self.updates // int(self.options.get("save-interval-updates") or self.epoch_updates)

    def folder(self, seed: int) -> str:
        """The name of the folder of a run."""
        return f"{self.label}-seed{seed}"


def make_entry(recipe: Recipe, name: str, changes: Options) -> Entry:
    """An architecture with the options of the recipe, and *changes* of its own."""
    arch = changes.get("arch", name)
    if arch not in ARCH_MODEL_REGISTRY:
        remedy = did_you_mean(arch, ARCH_MODEL_REGISTRY) or "odeformers list names them"
        raise ValueError(
            f"--arch {arch}: no such architecture; {remedy} (--user-dir finds your own)"
        )
    check_kind(arch, recipe.task)
    supported = option_names(recipe, arch)
    shared = {key: value for key, value in recipe.shared.items() if key in supported}
    neutral, chosen = split_sizes({**recipe.train, **changes})
    sizes = size_options(arch, {**underscore(recipe.sizes), **neutral}, underscore(chosen))
    sizes = {hyphenate(key): size for key, size in sizes.items()}
    options = {
        key: value.replace("{arch}", arch) if isinstance(value, str) else value
        for key, value in {"arch": arch, **sizes, **shared, **chosen}.items()
        if value is not None
    }
    return Entry(name, options)


def plugin_digest(recipe: Recipe, arch: str, plugins: Iterable[Path]) -> str:
    """A digest of the Python files of all plugins that define the model, task or criterion."""
    names = arch, recipe.task, recipe.train.get("criterion")
    registries = ARCH_MODEL_REGISTRY, TASK_REGISTRY, CRITERION_REGISTRY
    classes = (registry.get(name, object) for registry, name in zip(registries, names))
    modules = {parent.__module__ for each in classes for parent in each.__mro__}
    files = [getattr(sys.modules.get(name), "__file__", None) or "/" for name in modules]
    digests = [
        f"{path.relative_to(folder)} {sha256(path)}\n"
        for folder in map(Path.resolve, plugins)
        if any(Path(file).resolve().is_relative_to(folder) for file in files)
        for path in sorted(folder.rglob("*.py"))
    ]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""


def underscore(options: Options) -> Options:
    """Options by the names that they have in a configuration."""
    return {name.replace("-", "_"): value for name, value in options.items()}


def option_names(recipe: Recipe, arch: str) -> set[str]:
    """The names of fairseq-train's options that an architecture supports."""
    parser = training_parser()
    choices = {name: recipe.train.get(name) for name in ("task", "criterion")}
    line = [recipe.data, "--arch", arch, *to_words(choices)]
    parse_args_and_arch(parser, line, parse_known=True)  # adds to the parser
    unsupported = getattr(ARCH_MODEL_REGISTRY[arch], "unsupported", {})
    names = {name[2:] for action in parser._actions for name in action.option_strings}
    return names - set(map(hyphenate, unsupported))


def resolve_shares(options: Options, updates: int) -> Options:
    """Options with shares of a training, such as ``10%``, replaced by numbers of updates."""
    return {
        name: max(1, round(float(value[:-1]) / 100 * updates))
        if isinstance(value, str) and re.fullmatch(r"[\d.]+%", value)
        else value
        for name, value in options.items()
    }
