"""Experiments: the recipes that a command line of ``odeformers compare`` asks for."""

import argparse
import shlex
import subprocess
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.lab.commands import python_command
from fairseq_odeformers.lab.parsers import explain_unknown_architecture
from fairseq_odeformers.models.common.kinds import Kind, find_architectures, kinds_of
from fairseq_odeformers.models.common.papers import BASELINES, OWN, family_of, paper_of
from fairseq_odeformers.parser import explain_missing

from .defaults import default_recipe
from .recipe import Options, Recipe, merge, name_options, parse_words, read_recipe

# Options that each run has a value of its own for, and those that --budget takes the place of.
PER_RUN = {"seed": "--seeds", "save-dir": "--out"}
LENGTHS = ("epochs", "max-epoch", "max-update")
Architectures = dict[str, tuple[str, Options]]  # by name: ARCH and the options in its brackets


def choose_experiments(args: argparse.Namespace, options: Options) -> dict[str, Recipe]:
    """Recipes by the names of their parts; one without parts has the name "".

    The options of fairseq-train, for all architectures, replace a recipe's options, but not options
    in brackets.
    """
    architectures = parse_architectures(args.archs or [])
    if not args.what.exists():
        raise ValueError(explain_missing("compare", args.what))
    is_data = args.what.is_dir()
    if not is_data and args.what.suffix not in (".yaml", ".yml"):
        raise ValueError(
            f"{args.what}: no recipe, whose name ends in .yaml; for text, give the folder that "
            "odeformers prepare parallel, text-classification or lm makes of it"
        )
    for name in ("part", "data") if is_data else ("task", "epochs"):
        if (value := getattr(args, name)) is not None:
            raise ValueError(f"--{name} {value}: for {'a RECIPE' if is_data else 'DATA'} alone")
    typed = {"epochs": args.epochs, **options}
    for _, changes in architectures.values():
        typed |= changes
    typed = {name: value for name, value in typed.items() if value is not None}
    for name in filter(typed.__contains__, LENGTHS if args.budget else ()):
        raise ValueError(
            f"--{name} {typed[name]}: --budget sets the updates; leave one of them out"
        )
    if is_data:
        recipes = {"": recipe_for_data(args, architectures)}
    else:
        recipes = read_recipe(args.what, args.part)
        for recipe in recipes.values():
            change_recipe(recipe, args, architectures, options)
    for recipe in recipes.values():
        check_names(recipe, "--archs" if args.archs else f"{args.what}:")
        if is_data and args.task is None:
            check_kinds(recipe)
        recipe.train = merge(recipe.train, options)
        if args.average is not None:
            recipe.average = args.average
        recipe.seeds = [*chain.from_iterable(args.seeds or ())] or recipe.seeds
        recipe.bleu_tokenize = args.bleu_tokenize or recipe.bleu_tokenize
        if args.tune:
            recipe.tune = parse_tuning(args.tune)
        for name in filter(typed.__contains__, recipe.tune):
            raise ValueError(f"--{name} is tuned; leave it out, or drop --tune {name}")
        for given in (recipe.train, recipe.shared, *recipe.architectures.values()):
            for name in PER_RUN.keys() & given.keys():
                raise ValueError(
                    f"--{name} {given[name]}: give {PER_RUN[name]}; each run has its own"
                )
        if len(set(recipe.seeds)) < len(recipe.seeds):
            raise ValueError(f"--seeds {' '.join(map(str, recipe.seeds))}: give each once")
    return recipes


def parse_architectures(texts: Iterable[str]) -> Architectures:
    """The architectures of ``--archs``; a name that occurs twice is refused."""
    architectures: Architectures = {}
    for name, arch, options in map(parse_architecture, texts):
        if name in architectures:
            raise ValueError(f"--archs {name}: give each once")
        architectures[name] = arch, options
    return architectures


def recipe_for_data(args: argparse.Namespace, architectures: Architectures) -> Recipe:
    """The default recipe for a folder of data."""
    if not architectures:
        raise ValueError(f"--archs: name the architectures to train on {args.what}")
    options = {name: {"arch": arch, **changes} for name, (arch, changes) in architectures.items()}
    return default_recipe(args.what, options, args.task, args.epochs)


def check_names(recipe: Recipe, source: str) -> None:
    """Check the names of architectures; *source* is the option or the file that has them.

    Raises:
        ValueError: an architecture is not registered; the message has a similar one for the task.
    """
    names = find_architectures(recipe.kind)
    for name, options in recipe.architectures.items():
        arch = options.get("arch", name)
        if arch not in ARCH_MODEL_REGISTRY:
            raise ValueError(f"{source} {explain_unknown_architecture(arch, names)}")


def check_kinds(recipe: Recipe) -> None:
    """Check that the architectures are for the data, which have determined the task.

    Raises:
        ValueError: one is for other data; the message has its kin for these data, or else the
            pre-norm Transformer.
    """
    for options in recipe.architectures.values():
        arch = options["arch"]
        kinds = kinds_of(ARCH_MODEL_REGISTRY[arch])
        if kinds and recipe.kind not in kinds:
            fit = find_architectures(recipe.kind)
            kin = [name for name in fit if kin_of(name) == kin_of(arch)]
            baselines = [name for name in fit if kin_of(name) == BASELINES["_prenorm"]]
            (near,) = get_close_matches(arch, kin or baselines, 1, 0)
            purpose = " and ".join(kind.purpose for kind in kinds)
            masked = recipe.kind is Kind.LANGUAGE_MODEL and Kind.MASKED_LM in kinds
            task = "--task masked_lm, or " if masked else ""
            raise ValueError(
                f"--archs {arch}: it is for {purpose}, and {recipe.data} is for "
                f"{recipe.kind.purpose}; give {task}one such as {near} (odeformers list names all)"
            )


def kin_of(arch: str) -> str:
    """The family of an architecture; the module if a plugin or fairseq has it."""
    own = paper_of(arch) == OWN
    return ARCH_MODEL_REGISTRY[arch].__module__ if own else family_of(arch)


def change_recipe(
    recipe: Recipe, args: argparse.Namespace, architectures: Architectures, options: Options
) -> None:
    """Put the data, architectures and options of a command line in the place of a recipe's."""
    if args.data:
        recipe.data, recipe.prepare = args.data, ""
    described = recipe.architectures
    for changes in described.values():
        changes.update({name: value for name, value in options.items() if name in changes})
    if architectures:  # named as in the recipe, where an option arch may name another, or new ones
        recipe.architectures = {
            name: {"arch": arch, **described.get(arch, {}), **changes}
            for name, (arch, changes) in architectures.items()
        }


def prepare_data(recipe: Recipe, dry_run: bool = False) -> None:
    """Make the data of a recipe, if they are not there."""
    if Path(recipe.data).exists():
        return
    if dry_run or not recipe.prepare:
        how = f"; make it: {recipe.prepare}" if recipe.prepare else ", and no key prepare makes it"
        raise ValueError(f"{recipe.data}: no such folder{how}")
    print(f"{recipe.data} is not there: {recipe.prepare}", flush=True)
    status = subprocess.run(python_command(shlex.split(recipe.prepare))).returncode
    if status or not Path(recipe.data).exists():
        raise ValueError(f"prepare: {recipe.prepare} has not made {recipe.data} (status {status})")


def parse_architecture(text: str) -> tuple[str, str, Options]:
    """A name for tables and folders, ARCH and the options, of ``ARCH[--option value ...]``."""
    arch, bracket, rest = text.partition("[")
    if bracket and not rest.endswith("]"):
        raise ValueError(
            f"{text}: the bracket of the options is not closed; quote it: '{arch}[--option value]'"
        )
    if "," in arch:
        raise ValueError(f"--archs {text}: separate architectures by spaces")
    options = parse_words(shlex.split(rest[:-1]))
    return arch + name_options(options), arch, options


def parse_tuning(texts: Iterable[str]) -> dict[str, list[Any]]:
    """The values of each option, of texts such as ``lr=5e-4,1e-3``."""
    tuning: dict[str, list[Any]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        tuning[name.removeprefix("--")] = choices = values.split(",")
        if not all(choices) or not 1 < len(choices) == len({*choices}):
            repeated = len(choices) > len({*choices})
            remedy = "each value once" if repeated else "two or more values between commas"
            raise ValueError(f"--tune {text}: give {remedy}, such as lr=5e-4,1e-3")
    return tuning
