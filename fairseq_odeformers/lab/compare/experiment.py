"""Experiments: what is compared, of a folder of data or a recipe, with a command line on top.

A recipe is a YAML file. Its keys are :data:`KEYS`, and options are named as on fairseq's command
line. With ``parts`` one file describes several experiments, each with changes of its own.
"""

from __future__ import annotations

import argparse
import copy
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from glob import escape
from itertools import chain
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from fairseq.data.data_utils import infer_language_pair
from fairseq.data.indexed_dataset import infer_dataset_impl
from fairseq.models import ARCH_MODEL_REGISTRY

from fairseq_odeformers.data.binarised import count_examples
from fairseq_odeformers.files import check_path, check_regular, reading
from fairseq_odeformers.lab.commands import check_program, python_command
from fairseq_odeformers.lab.parsers import explain_unknown_architecture
from fairseq_odeformers.models.common.kinds import Kind, find_architectures, kinds_of
from fairseq_odeformers.models.common.papers import BASELINES, OWN, family_of, paper_of
from fairseq_odeformers.models.common.sizes import NEUTRAL
from fairseq_odeformers.options import underscore
from fairseq_odeformers.parser import explain_missing

from .defaults import describe_data
from .results import Options

# Options that each run has a value of its own for, and those that --budget takes the place of.
PER_RUN = {"seed": "--seeds", "save-dir": "--out"}
LENGTHS = ("epochs", "max-epoch", "max-update")
WIDTHS = ("ffn_embed_dim", "embed_dim")  # that are chosen for equal numbers of parameters
KEYS: dict[str, Any] = {  # of a recipe, with their types
    "data": str,  # the folder, as given to fairseq-train
    "train": Options,  # of all architectures; a value such as 10% is a share of the updates
    # Options by the name of the architecture, or by any name if the option arch has the
    # architecture. The first one is the baseline.
    "architectures": dict[str, Options],
    "shared": Options,  # for those architectures that have them
    # embed-dim, ffn-embed-dim, attention-heads and layers, for the encoder and the decoder of each
    # architecture. The layers of TransEvolve are the depths of its blocks.
    "sizes": dict[str, int],
    "seeds": list[int],  # one training per seed
    # Values of options, by name. Each architecture trains with all combinations and the first seed;
    # its best one continues with all seeds.
    "tune": dict[str, list[Any]],
    "bleu_tokenize": str,  # sacrebleu's tokenizer (default: by the target language)
    "average": int,  # how many of the last checkpoints are averaged; 0 for none
    # Options of fairseq-generate, fairseq-eval-lm or, for classifiers, odeformers predict.
    "evaluate": Options,
    "splits": list[str],  # to evaluate on; by default all test sets, or else valid
    # For a split, a command that prints scores of a file of predictions, {output}.
    "score": dict[str, str],
    "prepare": str,  # the command that makes the data, if they are not there
    # Figures of the paper, by architecture and column of the report.
    "paper": dict[str, dict[str, float]],
}


@dataclass(frozen=True)
class Experiment:
    """What is compared, by which trainings and evaluations.

    If several of these set an option, the last one wins: ``sizes``, ``shared``, ``train``,
    ``architectures``, ``tune``. In the value of an option, ``{arch}`` is replaced by the
    architecture.
    """

    data: str  # an absolute path
    train: Options
    architectures: dict[str, Options]
    shared: Options = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    seeds: tuple[int, ...] = (1,)
    tune: dict[str, list[Any]] = field(default_factory=dict)
    bleu_tokenize: str | None = None
    average: int = 0
    evaluate: Options = field(default_factory=dict)
    # The splits to evaluate on, each with the file of its texts as published, None if not kept.
    test_sets: dict[str, str | None] = field(default_factory=dict)
    score: dict[str, str] = field(default_factory=dict)
    paper: dict[str, dict[str, float]] = field(default_factory=dict)
    match: bool = False  # whether widths are chosen for equal numbers of parameters
    budget: float | None = None  # minutes of each training
    baseline: str | None = None  # the architecture that others are compared with
    plugin: str | None = None  # the user's folder
    check: bool = True  # whether its architectures must have the properties of lab/check

    @property
    def task(self) -> str:
        """fairseq's task; translation if nothing names one."""
        return self.train.get("task", "translation")

    @property
    def kind(self) -> Kind:
        """The kind of models that the task trains."""
        return Kind.of_task(self.task) or Kind.TRANSLATION

    @property
    def validation_texts(self) -> int | None:
        """How many texts choose the best checkpoints; None if it is not known."""
        source, target = (self.train.get(f"{side}-lang") for side in ("source", "target"))
        files = {
            Kind.CLASSIFICATION: "input0/valid",
            Kind.TRANSLATION: f"valid.{source}-{target}.{target}",
        }
        path = f"{self.data}/{files.get(self.kind, '')}"
        known = "valid-subset" not in self.train and infer_dataset_impl(path) == "mmap"
        return count_examples(Path(f"{path}.idx")) if known else None


# --- from a command line -----------------------------------------------------------------------


def read_experiments(args: argparse.Namespace, options: Options) -> dict[str, Experiment]:
    """The experiments that a command line asks for, by the names of the parts of a recipe.

    Without parts, the name is "". What is wrong is refused before data are made.

    Args:
        options: of fairseq-train, for all architectures. They replace a recipe's, but not options
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
    if is_data and not architectures:
        raise ValueError(f"--archs: name the architectures to train on {args.what}")
    typed = {"epochs": args.epochs, **options}
    for own in architectures.values():
        typed |= own
    typed = {name: value for name, value in typed.items() if value is not None}
    for name in filter(typed.__contains__, LENGTHS if args.budget else ()):
        raise ValueError(
            f"--{name} {typed[name]}: --budget sets the updates; leave one of them out"
        )
    if is_data:
        contents = {"": describe_data(args.what, architectures, args.task, args.epochs)}
    else:
        contents = read_parts(args.what, args.part)
    for name, content in contents.items():
        where = f"{args.what}, part {name}" if name else str(args.what)
        contents[name] = content = change_content(content, where, args, architectures, options)
        check_content(content, args, typed)
    return {name: make_experiment(content, args) for name, content in contents.items()}


def change_content(
    content: dict,
    where: str,
    args: argparse.Namespace,
    architectures: Mapping[str, Options],
    options: Options,
) -> dict:
    """The content of a recipe with the data, architectures and options of a command line.

    Raises:
        ValueError: a key is unknown or missing, or its value has another type.
    """
    for key in ("data", "train", "architectures"):
        if not content.get(key):
            raise ValueError(f"{where}: the key {key} is missing")
    described = {name: own or {} for name, own in dict(content["architectures"]).items()}
    content = {**content, "architectures": described}
    for key, value in content.items():
        if key not in KEYS:
            raise ValueError(f"{where}: there is no key {key}; choose from {', '.join(KEYS)}")
        if value is not None and not fits(value, KEYS[key]):
            raise ValueError(f"{where}: {key} is of another type than {show_type(KEYS[key])}")
    if args.data:
        content |= {"data": args.data, "prepare": ""}
    described = {
        name: {**own, **{key: options[key] for key in own.keys() & options.keys()}}
        for name, own in described.items()
    }
    if architectures:  # named as in the recipe, where an option arch may name another, or new ones
        described = {
            name: {**described.get(own["arch"], {}), **own}
            | {"arch": described.get(own["arch"], {}).get("arch", own["arch"])}
            for name, own in architectures.items()
        }
    content |= {"architectures": described, "train": merge(content["train"], options)}
    if args.tune:
        content["tune"] = parse_tuning(args.tune)
    given = {"average": args.average, "bleu_tokenize": args.bleu_tokenize}
    given["seeds"] = [*chain.from_iterable(args.seeds or ())] or None
    return content | {name: value for name, value in given.items() if value is not None}


def check_content(content: dict, args: argparse.Namespace, typed: Options) -> None:
    """Refuse what needs no data to be found wrong.

    Args:
        typed: the options of the command line.
    """
    described, seeds = content["architectures"], content.get("seeds", [1])
    kind = Kind.of_task(content["train"].get("task", "translation")) or Kind.TRANSLATION
    for name, own in described.items():
        arch = own.get("arch", name)
        if arch not in ARCH_MODEL_REGISTRY:
            source = "--archs" if args.archs else f"{args.what}:"
            raise ValueError(
                f"{source} {explain_unknown_architecture(arch, find_architectures(kind))}"
            )
        if args.what.is_dir() and args.task is None:
            check_kind(arch, kind, content["data"])
    for name in content.get("tune") or ():
        if name in typed:
            raise ValueError(f"--{name} is tuned; leave it out, or drop --tune {name}")
        width = name == "size" or NEUTRAL.get(name, underscore(name)).endswith(WIDTHS)
        if width and len(described) > 1 and wants_match(args):
            raise ValueError(f"--tune {name}: equal parameters set widths; add --match none")
    for options in (content["train"], content.get("shared") or {}, *described.values()):
        for name in PER_RUN.keys() & options.keys():
            raise ValueError(
                f"--{name} {options[name]}: give {PER_RUN[name]}; each run has its own"
            )
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"--seeds {' '.join(map(str, seeds))}: give each once")
    if args.baseline and args.baseline not in described:
        raise ValueError(f"--baseline {args.baseline}: give one of {', '.join(described)}")
    for name in described:
        check_path(args.out / name)


def wants_match(args: argparse.Namespace) -> bool:
    """Whether widths are to be chosen: on DATA unless it is declined, with a RECIPE if asked."""
    return (args.match or ("parameters" if args.what.is_dir() else "none")) == "parameters"


def check_kind(arch: str, kind: Kind, data: str) -> None:
    """Check that an architecture is for the data, which have determined the task.

    Raises:
        ValueError: it is for other data; the message has its kin for these data, or else the
            pre-norm Transformer.
    """
    kinds = kinds_of(ARCH_MODEL_REGISTRY[arch])
    if not kinds or kind in kinds:
        return
    fit = find_architectures(kind)
    kin = [name for name in fit if kin_of(name) == kin_of(arch)]
    baselines = [name for name in fit if kin_of(name) == BASELINES["_prenorm"]]
    (near,) = get_close_matches(arch, kin or baselines, 1, 0)
    purpose = " and ".join(each.purpose for each in kinds)
    masked = kind is Kind.LANGUAGE_MODEL and Kind.MASKED_LM in kinds
    task = "--task masked_lm, or " if masked else ""
    raise ValueError(
        f"--archs {arch}: it is for {purpose}, and {data} is for {kind.purpose}; give {task}one "
        f"such as {near} (odeformers list names all)"
    )


def kin_of(arch: str) -> str:
    """The family of an architecture; the module if a plugin or fairseq has it."""
    own = paper_of(arch) == OWN
    return ARCH_MODEL_REGISTRY[arch].__module__ if own else family_of(arch)


def make_experiment(content: dict, args: argparse.Namespace) -> Experiment:
    """The experiment of a checked content, whose data are made if they are not there."""
    content = {key: value for key, value in content.items() if value is not None}
    splits, paper = content.pop("splits", None), content.pop("paper", {})
    prepare_data(content["data"], content.pop("prepare", ""), args.dry_run)
    data = os.path.abspath(content["data"])  # runs have other working folders
    check_path(data)
    train = content["train"]
    if Kind.of_task(train.get("task", "translation")) is Kind.TRANSLATION:
        names = ("source-lang", "target-lang")
        if not all(train.get(name) for name in names):
            train = {**dict(zip(names, infer_language_pair(data))), **train}
    plugin = os.path.abspath(args.user_dir[0]) if args.user_dir else None
    kind = Kind.of_task(train.get("task", "translation")) or Kind.TRANSLATION
    experiment = Experiment(
        **{**content, "data": data, "train": train, "seeds": tuple(content.get("seeds", [1]))},
        test_sets=find_test_sets(kind, Path(data), train, splits),
        paper={name: paper[name] for name in content["architectures"] if name in paper},
        match=wants_match(args),
        budget=args.budget,
        baseline=args.baseline,
        plugin=plugin,
        check=not args.no_check,
    )
    check_scores(experiment)
    return experiment


def prepare_data(data: str, command: str, dry_run: bool = False) -> None:
    """Make the data of a recipe, if they are not there."""
    if Path(data).exists():
        return
    if dry_run or not command:
        how = f"; make it: {command}" if command else ", and no key prepare makes it"
        raise ValueError(f"{data}: no such folder{how}")
    print(f"{data} is not there: {command}", flush=True)
    status = subprocess.run(python_command(shlex.split(command))).returncode
    if status or not Path(data).exists():
        raise ValueError(f"prepare: {command} has not made {data} (status {status})")


def find_test_sets(
    kind: Kind, data: Path, train: Options, splits: list[str] | None = None
) -> dict[str, str | None]:
    """The splits that models are evaluated on, each with the file of its texts, None if not kept.

    By default they are all test sets of the data, or else ``valid``.
    """
    source, target = (train.get(f"{side}-lang") for side in ("source", "target"))
    if splits is None:
        ending = f".{source}-{target}.{target}.idx" if kind is Kind.TRANSLATION else ".idx"
        folder = data / ("label" if kind is Kind.CLASSIFICATION else "")
        names = (path.name.removesuffix(ending) for path in folder.glob(f"test*{escape(ending)}"))
        splits = sorted(names) or ["valid"]
    paths = {
        Kind.TRANSLATION: data.parent / "plain" / f"{{}}.{target}",  # references as published
        Kind.CLASSIFICATION: data / "input0" / "{}.idx",  # texts that have labels
    }
    texts = {split: Path(str(paths.get(kind, "")).format(split)) for split in splits}
    return {split: str(path) if path.is_file() else None for split, path in texts.items()}


def check_scores(experiment: Experiment) -> None:
    """Check that the recipe's own scores are of test sets, and that their programs are there."""
    for split, line in experiment.score.items():
        if split not in experiment.test_sets:
            evaluated = ", ".join(experiment.test_sets) or "no split"
            raise ValueError(
                f"score {split}: models are evaluated on {evaluated}; add {split} to the key "
                "splits, or remove this score"
            )
        check_program(line, "score")


# --- YAML --------------------------------------------------------------------------------------


class Loader(yaml.SafeLoader):
    """YAML whose only words that are no strings are true, false and null, as in YAML 1.2.

    In YAML 1.1 the language code ``no`` is false, and 2016-05-01 a date.
    """

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("bool", "stamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


BOOLEAN = re.compile("true|True|TRUE|false|False|FALSE")
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", BOOLEAN, list("tTfF"))


def read_parts(path: Path, part: str | None = None) -> dict[str, dict]:
    """The contents of a recipe by the names of its parts; "" where it has none.

    With the key ``base`` a recipe, or a part, begins with the content of another file (of its
    ``part``, if that key is there, too); its own architectures take the place of the base's.
    """
    with reading(path, "is not a recipe in YAML"):
        content = add_base(read_yaml(path), path)
        parts = content.pop("parts", None) or {"": {}}
        if part is not None and part not in parts:
            available = ", ".join(parts) if "" not in parts else "no parts"
            raise ValueError(f"--part {part}: {path} has {available}")
        names = list(parts) if part is None else [part]
        return {name: merge(content, add_base(parts[name] or {}, path)) for name in names}


def read_yaml(path: Path) -> dict:
    check_regular(path)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506  a SafeLoader
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a recipe: it has no keys such as data and architectures")
    return content


def add_base(content: dict, path: Path) -> dict:
    """The content of a recipe or part on top of the base that it names."""
    if "base" not in content:
        return content
    changes = dict(content)
    name, part = path.parent / changes.pop("base"), changes.pop("part", None)
    base = add_base(read_yaml(name), name)
    if part is not None:
        base = merge(base, base.pop("parts")[part])
    if "architectures" in changes:
        base.pop("architectures", None)
    return merge(base, changes)


def merge(base: Mapping, changes: Mapping) -> dict:
    """*base* with *changes*, dictionaries key by key; a value None removes a key."""
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        elif value is None and key in result:
            del result[key]
        else:
            result[key] = copy.deepcopy(value)
    return result


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type such as ``dict[str, list[int]]``; Any has no dictionaries."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        parts = value if isinstance(value, list) else [value]
        return not any(isinstance(part, (Mapping, list)) for part in parts)
    if origin is dict:
        items = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(fits(key, inner[0]) and fits(item, inner[1]) for key, item in items)
    if origin is list:
        return isinstance(value, list) and all(fits(item, inner[0]) for item in value)
    return isinstance(value, (int, float) if kind is float else kind)


def show_type(kind: Any) -> str:
    return re.sub(r"typing\.", "", str(kind) if get_args(kind) else kind.__name__)


# --- words -------------------------------------------------------------------------------------


def parse_words(words: Iterable[str]) -> Options:
    """Options of the words of a command line; one without a value is a switch."""
    options: Options = {}
    name = None
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            options[name] = value if equals else True
        elif name is not None and options[name] is True:
            options[name] = word
        else:
            raise ValueError(
                f"{word}: give an option such as --dropout here, and architectures after --archs"
            )
    return options


def name_options(options: Options) -> str:
    """The end of a name that tells options, such as ``-lr-1e-3``."""
    words = (f"-{key}" if value is True else f"-{key}-{value}" for key, value in options.items())
    return re.sub(r"[^\w.=+-]", "_", "".join(words))


def parse_architectures(texts: Iterable[str]) -> dict[str, Options]:
    """The architectures of ``--archs``, each ``ARCH[--option value ...]``, by names for tables.

    Their options have ``arch``, which may be a name in a recipe.
    """
    architectures: dict[str, Options] = {}
    for text in texts:
        arch, bracket, rest = text.partition("[")
        if bracket and not rest.endswith("]"):
            raise ValueError(
                f"{text}: the bracket of the options is not closed; quote it: "
                f"'{arch}[--option value]'"
            )
        if "," in arch:
            raise ValueError(f"--archs {text}: separate architectures by spaces")
        options = parse_words(shlex.split(rest[:-1]))
        name = arch + name_options(options)
        if name in architectures:
            raise ValueError(f"--archs {name}: give each once")
        architectures[name] = {"arch": arch, **options}
    return architectures


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
