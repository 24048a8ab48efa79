"""Entries: the architectures of a plan, each with its options for fairseq-train.

The command lines that train and evaluate it follow from these. While a plan is made they are
parsed, by fairseq's own parsers, so that a wrong option ends no run later.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.options import get_eval_lm_parser, get_generation_parser, parse_args_and_arch
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

from fairseq_odeformers.files import naming_faults, sha256
from fairseq_odeformers.inference.predict import make_parser
from fairseq_odeformers.lab.parsers import raise_errors, training_parser
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.models.common.sizes import size_options, split_sizes
from fairseq_odeformers.options import hyphenate, underscore

from .recipe import Options, Recipe, name_options, to_words

BLOCKS = ("tokens-per-sample", "sample-break-mode", "add-bos-token")
# Options of a training that an evaluation repeats: fairseq takes the task from its command line,
# and guesses the languages.
REPEATED = {
    Kind.TRANSLATION: (
        *("source-lang", "target-lang"),
        *("max-source-positions", "max-target-positions", "truncate-source"),
    ),
    Kind.LANGUAGE_MODEL: BLOCKS,
    Kind.MASKED_LM: BLOCKS,
}
# A share such as 10% is taken of these until the trial has counted the updates.
PROVISIONAL_UPDATES = 1000
# Where a plan is made, plugins are imported already; the folder that joins them is written later.
IMPORTED: Options = {"user-dir": None}


@dataclass(frozen=True)
class Entry:
    """An architecture of a plan, or a candidate of one whose options are tuned."""

    name: str  # in tables
    options: Options  # of fairseq-train, except for the seed and the folder
    parameters: int = 0  # that are trained
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
        """The number of checkpoints that fairseq saves in a training and that can be averaged.

        At the end of an epoch it saves none that is named by updates.
        """
        if interval := int(self.options.get("save-interval-updates") or 0):
            saved = range(interval, self.updates + 1, interval)
            return sum(updates % self.epoch_updates > 0 for updates in saved)
        if self.options.get("no-epoch-checkpoints"):
            return 0
        return self.updates // self.epoch_updates // int(self.options.get("save-interval") or 1)

    def folder(self, seed: int) -> str:
        """The name of the folder of a run."""
        return f"{self.label}-seed{seed}"


def make_entry(recipe: Recipe, name: str, changes: Options) -> Entry:
    """An architecture with the options of the recipe, and *changes* of its own."""
    arch = changes.get("arch", name)
    supported = option_names(recipe, arch)
    shared = {key: value for key, value in recipe.shared.items() if key in supported}
    neutral, chosen = split_sizes({**recipe.train, **changes})
    sizes, given = (
        {underscore(key): value for key, value in options.items()}
        for options in (recipe.sizes, chosen)
    )
    sizes = size_options(arch, {**sizes, **neutral}, given)
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


def option_names(recipe: Recipe, arch: str) -> set[str]:
    """The names of fairseq-train's options that an architecture supports."""
    parser = training_parser()
    choices = {name: recipe.train.get(name) for name in ("task", "criterion")}
    line = [recipe.data, "--arch", arch, *to_words(choices)]
    # Adds the options of the architecture, and refuses one that the task does not train.
    parse_args_and_arch(parser, line, parse_known=True)
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


# --- command lines ---------------------------------------------------------------------


def train_options(recipe: Recipe, entry: Entry, **more: object) -> list[str]:
    """The arguments of fairseq-train; *more* has ``seed`` and ``save-dir``.

    By default fairseq leaves up to seven examples out of every validation, and starts a process per
    epoch that reads batches. Such processes stay, and from time to time torch waits for five
    seconds for each of them.
    """
    options = {"required-batch-size-multiple": 1, "num-workers": 0, **entry.options, **more}
    return [recipe.data, *to_words(options)]


def evaluation_command(recipe: Recipe, entry: Entry, split: str, **more: object) -> list[str]:
    """The command that predicts a split, word by word; *more* has the checkpoint's ``path``."""
    options: Options = {"user-dir": recipe.train.get("user-dir"), **more}
    if recipe.kind is Kind.CLASSIFICATION:
        options |= {"split": split, **recipe.evaluate}
        return ["odeformers", "predict", recipe.data, *to_words(options)]
    program = "fairseq-generate" if recipe.kind is Kind.TRANSLATION else "fairseq-eval-lm"
    names = REPEATED[recipe.kind]
    options |= {name: entry.options[name] for name in names if name in entry.options}
    # With its default of 8, fairseq leaves out up to seven examples.
    options |= {"gen-subset": split, "required-batch-size-multiple": 1, **recipe.evaluate}
    return [program, recipe.data, *to_words(options)]


def parse_training(recipe: Recipe, entry: Entry) -> DictConfig:
    """The configuration that ``fairseq-train`` makes of the options of an architecture."""
    options = resolve_shares(entry.options, entry.updates or PROVISIONAL_UPDATES)
    line = train_options(recipe, replace(entry, options=options), **IMPORTED)
    cfg = convert_namespace_to_omegaconf(parse_args_and_arch(training_parser(), line))
    if min(cfg.optimization.lr) <= 0:
        raise ValueError(f"--lr {options['lr']}: give a rate above 0")
    return cfg


def parse_evaluation(recipe: Recipe, entry: Entry, split: str) -> Any:
    """What the program of an evaluation makes of its command: a namespace, or fairseq's config."""
    more = {"path": "checkpoint", **IMPORTED}
    program, *words = evaluation_command(recipe, entry, split, **more)
    with naming_faults("evaluate", "is refused"):
        if program == "odeformers":
            return raise_errors(make_parser()).parse_args(words[1:])
        translates = recipe.kind is Kind.TRANSLATION
        parser = raise_errors(get_generation_parser() if translates else get_eval_lm_parser())
        args = parse_args_and_arch(parser, words)
    return convert_namespace_to_omegaconf(args)
