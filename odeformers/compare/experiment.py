"""Experiments: what to compare, according to a recipe or a folder of data, and a command line."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from difflib import get_close_matches
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any

from fairseq.data.data_utils import infer_language_pair
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.data.binarised import check_complete
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import check_path, sha256_once
from fairseq_odeformers.options import flag, underscore
from fairseq_odeformers.registry import (
    Kind,
    check_kind,
    explain_unknown_architecture,
    family_of,
    find_architectures,
    kinds_of,
)
from odeformers.fairseq_options import find_owners
from odeformers.parser import DATA, check_exists
from odeformers.processes import (
    Options,
    check_program,
    name_options,
    parse_architecture,
    python_command,
)
from odeformers.sizes import NEUTRAL

from .recipe import Recipe, check_keys, describe_data, find_task, merge, read_parts
from .results.rows import find_kind

REFUSED = {  # options of fairseq-train that compare sets itself, and what to do instead
    "seed": "give --seeds; each run has its own",
    "save-dir": "give --out; each run has its own",
    "log-file": "each run has its log, train.log in its folder; leave the option out",
    **dict.fromkeys(
        ("disable-validation", "no-save", "checkpoint-suffix"),
        "the best checkpoint is evaluated; leave the option out",
    ),
}
BOARD = "tensorboard-logdir"  # its value is a folder, with one folder per run
LENGTHS = ("epochs", "max-epoch", "max-update")  # options that --budget replaces
BASELINE = "pre-norm Transformer"  # the family that is the best baseline for others
WIDTHS = ("ffn_embed_dim", "embed_dim")  # widths that equal numbers of parameters set


@dataclass(frozen=True)
class Experiment(Recipe):
    """The architectures of a comparison, and how they are trained and evaluated."""

    # The splits to evaluate on, each with the file of its published texts or None.
    test_sets: dict[str, str | None] = field(default_factory=dict)
    train_of_recipe: Options = field(default_factory=dict)  # without the command line's options
    typed: frozenset[str] = frozenset()  # names of options on the command line, for all runs
    data_digest: str = ""  # covers the files of the data
    match: bool = False  # whether widths are chosen for equal numbers of parameters
    budget: float | None = None  # minutes per training run
    baseline: str = ""  # the architecture to compare others with; "" for the first command's
    tuning_seed: int = 0
    extend: bool = True  # whether a grid whose best value is at an edge gets one more value
    plugin: str | None = None  # folder of the user's plugin
    check: bool = True  # whether the plugin's architectures must pass odeformers check
    command: str = ""  # time when the command was started

    @property
    def task(self) -> str:
        return self.train.get("task", "translation")

    @property
    def kind(self) -> Kind:
        return find_kind(self.task)


# --- from a command line -----------------------------------------------------------------------


def read_experiments(args: argparse.Namespace, options: Options) -> dict[str, Experiment]:
    """Read the experiments that a command line asks for, by the names of a recipe's parts.

    Without parts, the name is "". Their data may not exist yet; see :func:`find_data`.

    Args:
        options: options of fairseq-train for all architectures. They replace the recipe's options,
            except options in brackets.
    """
    architectures = parse_architectures(args.archs or [])
    sizes = {name: getattr(args, name) for name in (*NEUTRAL, "size")}
    options = {**options, **{name: size for name, size in sizes.items() if size}}
    requested = dict(chain(options.items(), *(own.items() for own in architectures.values())))
    experiments, started = {}, datetime.now().isoformat(timespec="seconds")
    for name, content in read_contents(args, architectures).items():
        check_keys(content, f"{args.what}, part {name}" if name else str(args.what))
        experiments[name] = Experiment(
            **change_content(content, args, architectures, options),
            train_of_recipe=dict(content["train"]),
            typed=frozenset(options),
            match=args.match == "parameters" or args.match is None and args.what.is_dir(),
            budget=args.budget,
            baseline=args.baseline or "",
            plugin=os.path.abspath(args.user_dir[0]) if args.user_dir else None,
            extend=not args.no_extend,
            check=not args.no_check,
            command=started,
        )
        check_experiment(experiments[name], args, {"epochs": args.epochs, **requested})
    return experiments


def read_contents(args: argparse.Namespace, architectures: dict[str, Options]) -> dict[str, dict]:
    """Read a recipe's contents by part, or make the content of a recipe for a folder of data."""
    what, is_data = args.what, args.what.is_dir()
    check_exists(what, f"{DATA}, or a recipe in YAML")
    if not is_data and what.suffix not in (".yaml", ".yml"):
        raise InputError(
            f"{what}: a recipe's name ends in .yaml; for text, give the folder that "
            "odeformers prepare parallel, text-classification or lm makes of it"
        )
    for name in ("part", "data") if is_data else ("task", "epochs"):
        if (value := getattr(args, name)) is not None:
            instead = f"; give --max-epoch {value}" if name == "epochs" else ""
            place = "a RECIPE" if is_data else "DATA"
            raise InputError(f"--{name} {value}: only for {place}{instead}")
    if not is_data:
        return read_parts(what, args.part)
    if not architectures:
        fit = find_architectures(Kind.of_task(args.task or find_task(what)))
        plain = [name for name in fit if name.endswith("_prenorm") and family_of(name) == BASELINE]
        raise InputError(
            f"--archs: name the architectures to train on {what}, such as {(plain or fit)[0]} "
            "(odeformers list names all)"
        )
    return {"": describe_data(what, architectures, args.task, args.epochs)}


def change_content(
    content: dict, args: argparse.Namespace, chosen: dict[str, Options], options: Options
) -> dict:
    """Apply the changes of a command line to the content of a recipe.

    Args:
        chosen: architectures of the command line, new or named as in the recipe.
        options: options for all architectures.
    """
    described = {
        name: {**own, **{key: options[key] for key in own.keys() & options.keys()}}
        for name, own in content["architectures"].items()
    }
    if chosen:  # the option arch may name another architecture
        bases = {name: described.get(own["arch"], {}) for name, own in chosen.items()}
        described = {
            name: {**bases[name], **own, "arch": bases[name].get("arch", own["arch"])}
            for name, own in chosen.items()
        }
    changes = {
        "data": args.data,
        "prepare": "" if args.data else None,
        "average": args.average,
        "bleu_tokenize": args.bleu_tokenize,
        "seeds": [*chain.from_iterable(args.seeds or ())] or None,
        "tune": parse_tuning(args.tune) if args.tune else None,
        "architectures": described,
        "train": merge(content["train"], options),
    }
    content = {**content, **{key: value for key, value in changes.items() if value is not None}}
    return {key: value for key, value in content.items() if value is not None}


def parse_architectures(texts: Iterable[str]) -> dict[str, Options]:
    """Parse ``--archs``, each ``ARCH[--option value ...]``; returns options by names for tables.

    The options include ``arch``, which may be a name in a recipe.
    """
    architectures: dict[str, Options] = {}
    for text in texts:
        arch, options = parse_architecture(text)
        if "," in arch:
            raise InputError(f"--archs {text}: separate architectures by spaces")
        name = arch + name_options(options)
        if name in architectures:
            raise InputError(f"--archs {name}: list each architecture once")
        architectures[name] = {"arch": arch, **options}
    return architectures


def parse_tuning(texts: Iterable[str]) -> dict[str, list[Any]]:
    """Parse texts such as ``lr=5e-4,1e-3``: the values of each option."""
    tuning: dict[str, list[Any]] = {}
    for text in texts:
        name, _, values = text.removeprefix("--").partition("=")
        choices = values.split(",")
        if not all(choices) or len(choices) < 2:
            remedy = "two or more values with commas and no spaces between them: lr=5e-4,1e-3"
            raise InputError(f"--tune {text}: give {remedy}")
        if name in tuning:
            raise InputError(f"--tune {text}: {name} is given twice; list all its values once")
        tuning[name] = choices
    return tuning


def parse_value(value: object) -> float | str:
    """Parse the value of an option as a number if possible, so that 1e-3 equals 0.001."""
    try:
        return float(str(value))
    except ValueError:
        return str(value)


# --- checks before the data exist --------------------------------------------------------------


def check_experiment(experiment: Experiment, args: argparse.Namespace, requested: Options) -> None:
    """Check everything that can be checked before the data exist.

    Args:
        requested: options of the command line, for all architectures or one.
    """
    described, seeds = experiment.architectures, experiment.seeds
    for name in LENGTHS:
        if experiment.budget and requested.get(name) is not None:
            raise InputError(
                f"--{name} {requested[name]}: --budget sets the updates; leave one of them out"
            )
    if requested.get("epochs") is not None and requested.get("max-epoch") is not None:
        raise InputError(
            f"--max-epoch {requested['max-epoch']}: --epochs sets the length; leave one of them out"
        )
    for name, own in described.items():
        check_path(args.out / name)
        check_architecture(own.get("arch", name), experiment, args)
    for name in experiment.shared if args.what.is_file() else ():
        if not find_owners(flag(name)):
            raise InputError(f"{args.what}: shared: no model has the option {name}; correct it")
    for name, values in experiment.tune.items():
        if name in REFUSED:
            raise InputError(f"--tune {name}: {REFUSED[name]}")
        if len({*map(parse_value, values)}) < len(values):
            grid = f"{name}={','.join(map(str, values))}"
            source = "--tune" if args.tune else f"{args.what}: tune:"
            raise InputError(f"{source} {grid}: give each value once")
        if requested.get(name) is not None:
            raise InputError(f"--{name} is tuned; leave it out, or drop --tune {name}")
        width = name == "size" or NEUTRAL.get(name, underscore(name)).endswith(WIDTHS)
        if width and len(described) > 1 and experiment.match:
            raise InputError(f"--tune {name}: equal parameters set widths; add --match none")
    for options in (experiment.train, experiment.shared, *described.values()):
        for name in REFUSED.keys() & options.keys():
            raise InputError(f"--{name} {options[name]}: {REFUSED[name]}")
    if not seeds or min(seeds) < 0:
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: give whole numbers from 0")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: list each seed once")
    if experiment.baseline and experiment.baseline not in described:
        raise InputError(f"--baseline {experiment.baseline}: give one of {', '.join(described)}")


def check_architecture(arch: str, experiment: Experiment, args: argparse.Namespace) -> None:
    """Check that an architecture is registered and fits the task or the data."""
    kind = experiment.kind
    fit = find_architectures(kind)
    if arch not in ARCH_MODEL_REGISTRY:
        source = "--archs" if args.archs else f"{args.what}:"
        raise InputError(f"{source} {explain_unknown_architecture(arch, fit)}")
    kinds = kinds_of(ARCH_MODEL_REGISTRY[arch])
    if kinds and kind not in kinds and args.what.is_dir() and args.task is None:
        masked = kind is Kind.LANGUAGE_MODEL and Kind.MASKED_LM in kinds
        task = "--task masked_lm, or " if masked else ""
        meant = (
            [name for name in fit if family_of(name) == family_of(arch)]
            or get_close_matches(arch, fit, 1, 0.9)  # a plugin's has no family
            or [name for name in fit if family_of(name) == BASELINE]
        )
        (near,) = get_close_matches(arch, meant, 1, 0)
        raise InputError(
            f"--archs {arch}: it is for {' and '.join(each.purpose for each in kinds)}, and "
            f"{experiment.data} is for {kind.purpose}; give {task}one such as {near} (odeformers "
            "list names all)"
        )
    check_kind(arch, experiment.task)


# --- the data ----------------------------------------------------------------------------------


def find_data(experiment: Experiment, dry_run: bool) -> Experiment:
    """Add data, which are made if they do not exist, and their test sets to an experiment."""
    prepare_data(experiment.data, experiment.prepare, dry_run)
    data = os.path.abspath(experiment.data)  # runs have other working directories
    check_path(data)
    check_complete(Path(data))
    train, names = dict(experiment.train), ("source-lang", "target-lang")
    if BOARD in train:
        train[BOARD] = os.path.abspath(train[BOARD])
    if experiment.kind is Kind.TRANSLATION and not all(train.get(name) for name in names):
        train = {**dict(zip(names, infer_language_pair(data))), **train}
    test_sets = find_test_sets(experiment.kind, Path(data), train, experiment.splits)
    for split, line in experiment.score.items():
        if split not in test_sets:
            raise InputError(
                f"score {split}: models are evaluated on {', '.join(test_sets) or 'no split'}; add "
                f"{split} to the key splits, or remove this score"
            )
        check_program(line, "score")
    digest = sha256_once(Path(data))
    return replace(experiment, data=data, train=train, test_sets=test_sets, data_digest=digest)


def prepare_data(data: str, command: str, dry_run: bool) -> None:
    """Make the data of a recipe if they do not exist."""
    if Path(data).exists():
        return
    if dry_run or not command:
        how = f"; make it: {command}" if command else ", and no key prepare makes it"
        raise InputError(f"{data}: no such folder{how}")
    print(f"{data} does not exist; running: {command}", flush=True)
    status = subprocess.run(python_command(shlex.split(command))).returncode
    if status or not Path(data).exists():
        raise InputError(f"prepare: {command} has not made {data} (status {status})")


def find_test_sets(
    kind: Kind, data: Path, train: Options, splits: list[str] | None = None
) -> dict[str, str | None]:
    """Find the splits to evaluate models on, each with the file of its texts, or None.

    By default, these are all test sets of the data, or else ``valid``.
    """
    source, target = (train.get(f"{side}-lang") for side in ("source", "target"))
    if splits is None:
        pairs = (f"{source}-{target}", f"{target}-{source}")  # in the order that fairseq looks
        translated = [f".{pair}.{target}.idx" for pair in pairs]
        folder = data / ("label" if kind is Kind.CLASSIFICATION else "")
        names = {
            path.name.removesuffix(ending)
            for ending in (translated if kind is Kind.TRANSLATION else [".idx"])
            for path in folder.glob(f"test*{escape(ending)}")
        }
        splits = sorted(names) or ["valid"]
    paths = {
        Kind.TRANSLATION: data.parent / "plain" / f"{{}}.{target}",  # references as published
        Kind.CLASSIFICATION: data / "input0" / "{}.idx",  # texts with labels
    }
    texts = {split: Path(str(paths.get(kind, "")).format(split)) for split in splits}
    return {split: str(path) if path.is_file() else None for split, path in texts.items()}
