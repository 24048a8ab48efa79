"""Recipes: what a comparison trains, from a YAML file or for a folder of data.

The keys of a recipe are the fields of :class:`Recipe`, and options are named as on fairseq's
command line. With ``parts``, one file describes several experiments, each with its own changes. For
a folder of data, :func:`describe_data` makes the content of a recipe: the task, and a schedule for
the size of the data.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from omegaconf import OmegaConf

from fairseq_odeformers.data.binarised import language_pair
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.errors import InputError, did_you_mean, naming_faults
from fairseq_odeformers.files import check_binarised, check_regular, reading
from fairseq_odeformers.options import hyphenate
from fairseq_odeformers.registry import Kind
from odeformers.processes import Options
from odeformers.sizes import NEUTRAL

RECIPES = Path(__file__).with_name("defaults.yaml")
UPDATES = 1000  # length of a training run, between 3 and 50 epochs
LARGE = 2_000_000  # number of tokens above which less dropout is needed


@dataclass(frozen=True)
class Recipe:
    """The keys of a recipe.

    If several of the keys ``sizes``, ``shared``, ``train``, ``architectures`` and ``tune`` set an
    option, the last one wins. In the value of an option, ``{arch}`` is replaced by the
    architecture.
    """

    data: str  # the folder, as given to fairseq-train
    train: Options  # options for all architectures; 10% is a share of the updates
    # The options of each architecture, by its name, or by any name if the option arch names the
    # architecture. The first architecture is the baseline.
    architectures: dict[str, Options]
    shared: Options = field(default_factory=dict)  # options of models, for those that have them
    # Sizes of the encoder and the decoder of each architecture: embed-dim, ffn-embed-dim,
    # attention-heads and layers. In TransEvolve, layers are depths of blocks.
    sizes: dict[str, int] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [1])  # one training run per seed
    splits: list[str] | None = None  # default: all test sets, or else valid
    prepare: str = ""  # the command that makes the data if they do not exist
    # Values of options, by name. Each architecture trains with all combinations and a seed that no
    # table of scores uses, and then, from the start, with its best combination and all seeds.
    tune: dict[str, list[Any]] = field(default_factory=dict)
    bleu_tokenize: str = ""  # sacrebleu's tokenizer (default: by the target language)
    average: int = 0  # number of last checkpoints to average
    # Options of fairseq-generate, fairseq-eval-lm or, for classifiers, odeformers predict.
    evaluate: Options = field(default_factory=dict)
    # For each split, a command that prints scores of a file of predictions, {output}.
    score: dict[str, str] = field(default_factory=dict)
    # The paper's figures for these models and metrics, by architecture and column of the report.
    paper: dict[str, dict[str, float]] = field(default_factory=dict)
    # Such figures for other models or metrics, by source.
    cited: dict[str, dict[str, dict[str, float]]] = field(default_factory=dict)


# --- a file ------------------------------------------------------------------------------------


def read_parts(path: Path, part: str | None = None) -> dict[str, dict]:
    """Read the contents of a recipe by the names of its parts; without parts, the name is "".

    With the key ``base``, a recipe or a part begins with the content of another file (or of a part
    of it, with the key ``part``); its own architectures replace the base's architectures.
    """
    with reading(path, "is not a recipe in YAML"):
        content = add_base(read_yaml(path), path)
        parts = content.pop("parts", None) or {"": {}}
        if part is not None and part not in parts:
            available = ", ".join(parts) if "" not in parts else "no parts"
            raise InputError(f"--part {part}: {path} has {available}")
        names = list(parts) if part is None else [part]
        return {name: merge(content, add_base(parts[name] or {}, path)) for name in names}


def read_yaml(path: Path) -> dict:
    check_regular(path)
    content = yaml.load(path.read_text(encoding="utf-8"), Loader)  # noqa: S506  a SafeLoader
    if not isinstance(content, dict):
        raise InputError(f"{path} is not a recipe: it has no keys such as data and architectures")
    return content


def add_base(content: dict, path: Path) -> dict:
    """Merge the content of a recipe or part into the base that it names."""
    if "base" not in content:
        return content
    changes = dict(content)
    name, part = path.parent / changes.pop("base"), changes.pop("part", None)
    if not name.is_file():
        fault = f"base: there is no recipe {name}; give its path from {path.parent}"
        raise InputError(f"{path}: {fault}")
    base = add_base(read_yaml(name), name)
    if part is not None:
        parts = base.pop("parts", {})
        if part not in parts:
            raise InputError(f"{path}: part: {name} has no part {part}; it has {', '.join(parts)}")
        base = merge(base, parts[part])
    if "architectures" in changes:
        base.pop("architectures", None)
    return merge(base, changes)


def merge(base: Mapping, changes: Mapping) -> dict:
    """Merge *changes* into *base*; dictionaries are merged key by key, and None removes a key."""
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merge(result[key], value)
        elif value is None and key in result:
            del result[key]
        else:
            result[key] = copy.deepcopy(value)
    return result


NECESSARY = {  # keys, each with an example
    "data": "data/pairs/data-bin",
    "train": "{task: translation}",
    "architectures": "{transformer_prenorm: {}}",
}


def check_keys(content: dict, where: str) -> None:
    """Check that a recipe has all necessary keys and no unknown keys, and check their types."""
    for key, example in NECESSARY.items():
        if not content.get(key):
            raise InputError(f"{where}: the key {key} is missing; add it, such as {key}: {example}")
    if isinstance(described := content["architectures"], Mapping):
        content["architectures"] = {name: own or {} for name, own in described.items()}
    typed = OmegaConf.structured(Recipe)
    OmegaConf.set_readonly(typed, False)
    for key, value in content.items():
        if key not in (known := [item.name for item in fields(Recipe)]):
            remedy = did_you_mean(key, known, f"choose from {', '.join(known)}")
            raise InputError(f"{where}: there is no key {key}; {remedy}")
        if value is not None:
            with naming_faults(f"{where}: {key}", "has the wrong type"):
                typed[key] = value
    values: Any = OmegaConf.to_container(typed)
    content |= {key: values[key] for key, value in content.items() if value is not None}
    sizes = [*map(hyphenate, NEUTRAL.values())]
    for name in content.get("sizes") or ():
        if hyphenate(name) not in sizes:
            remedy = did_you_mean(name, sizes, f"choose from {', '.join(sizes)}")
            raise InputError(f"{where}: sizes has no key {name}; {remedy}")


class Loader(yaml.SafeLoader):
    """Loads YAML so that, as in YAML 1.2, all words except true, false and null are strings.

    In YAML 1.1, the language code ``no`` is false, 2016-05-01 is a date, 012 is 10, and 1:30 is 90.
    """

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(("bool", "stamp"))]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def resolve(self, kind, value, implicit):
        """Return the tag of a node; a number is decimal."""
        text = kind is yaml.ScalarNode and implicit[0] and NOT_DECIMAL.match(value)
        return self.DEFAULT_SCALAR_TAG if text else super().resolve(kind, value, implicit)

    def compose_mapping_node(self, anchor):
        """Compose the node of a dictionary, before ``<<`` is replaced by the keys of others.

        Raises:
            ValueError: the dictionary contains a key twice.
        """
        node = super().compose_mapping_node(anchor)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, count in keys.items():
            if count > 1:
                line = node.start_mark.line + 1
                raise ValueError(f"duplicate key {key} in the mapping at line {line}")
        return node


NOT_DECIMAL = re.compile(r"[-+]?0[\dbox_]|[-+\d]+:")
BOOLEAN = re.compile("true|True|TRUE|false|False|FALSE")
Loader.add_implicit_resolver("tag:yaml.org,2002:bool", BOOLEAN, list("tTfF"))


# --- a folder of data --------------------------------------------------------------------------


def describe_data(
    data: Path, architectures: dict[str, Options], task: str | None, epochs: int | None
) -> dict:
    """Return the content of a recipe whose schedule fits the size of a data set.

    Args:
        task: fairseq's task (default: the task that the data are for).
        epochs: number of epochs (default: about :data:`UPDATES` updates).
    """
    task = task or find_task(data)
    kind = Kind.of_task(task)
    if kind is None:
        tasks = ", ".join(name for kind in Kind for name in kind.tasks)
        raise InputError(f"--task {task}: there is a default recipe only for {tasks}")
    with reading(data):
        size, options = DESCRIPTIONS[kind](data, task)
    batch = BATCHES[kind].choose(size)
    epochs = epochs or choose_epochs(size // batch)
    train = {"criterion": kind.criterion, "task": task, **options}
    train |= {BATCHES[kind].option: batch, "max-epoch": epochs}
    content: dict = {"base": str(RECIPES), "part": kind.name.lower()}
    content |= {"data": str(data), "train": train, "architectures": architectures}
    if kind is not Kind.CLASSIFICATION and size >= LARGE:
        content["shared"] = {"dropout": 0.1}
    if kind is Kind.MASKED_LM:  # fairseq-eval-lm cannot evaluate it
        content["splits"] = []
    return add_base(content, data)


def choose_epochs(per_epoch: int) -> int:
    """Choose the number of epochs, of *per_epoch* updates each, for about :data:`UPDATES`."""
    return min(max(3, -(-UPDATES // max(1, per_epoch))), 50)


def find_task(data: Path) -> str:
    """Find the task of fairseq that a folder of binarised data is for."""
    if (data / "label").is_dir():
        return "long_range_arena"
    if language_pair(data):
        return "translation"
    if (data / "dict.txt").is_file() and (data / "train.idx").is_file():
        return "language_modeling"
    check_binarised(data)
    raise InputError(
        f"{data} has neither sentence pairs (train.SRC-TGT.SRC.idx), nor labelled texts (label/), "
        "nor text (train.idx and dict.txt); odeformers prepare makes such folders"
    )


def describe_pairs(data: Path, task: str) -> tuple[int, Options]:
    """Return the number of tokens in the target language, and the options for both languages."""
    pair = language_pair(data)
    if pair is None:
        raise InputError(
            f"--task {task}: {data} has no sentence pairs (no file such as train.de-en.de.idx); "
            "omit --task, or make a folder with odeformers prepare parallel"
        )
    source, target = pair
    ours, theirs = (Dictionary.load(str(data / f"dict.{side}.txt")) for side in pair)
    options = {"source-lang": source, "target-lang": target, "share-all-embeddings": ours == theirs}
    return sum(read_lengths(data / f"train.{source}-{target}.{target}")), options


def describe_classes(data: Path, task: str) -> tuple[int, Options]:
    """Return the number of texts, and the options for their classes."""
    size = len(read_lengths(data / "label" / "train"))
    if task == "sentence_prediction":
        names = class_names(Dictionary.load(str(data / "label" / "dict.txt")))
        return size, {"num-classes": len(names), "shorten-method": "truncate"}
    kind = "retrieval" if (data / "input1").is_dir() else "text"
    return size, {"lra-task": kind, "num-batch-buckets": 8}


def describe_text(data: Path, task: str) -> tuple[int, Options]:
    """Return the number of tokens, and the options of BERT's pretraining if that is the task."""
    bert = {"criterion": task, "sample-break-mode": "complete_doc"}
    return sum(read_lengths(data / "train")), bert if task == "bert_pretraining" else {}


def read_lengths(path: Path) -> list[int]:
    """Read the number of tokens of each example of a binarised file, named without its suffix."""
    if not path.with_name(f"{path.name}.idx").is_file():
        raise FileNotFoundError(f"{path}.idx: no such file; run odeformers prepare")
    dataset = MMapIndexedDataset(str(path))  # keeps the memory of its sizes
    return dataset.sizes.tolist()


DESCRIPTIONS = {
    Kind.TRANSLATION: describe_pairs,
    Kind.CLASSIFICATION: describe_classes,
    Kind.LANGUAGE_MODEL: describe_text,
    Kind.MASKED_LM: describe_text,
}


class Batches(NamedTuple):
    """The size of batches: a multiple of *least* that makes *per_epoch* updates per epoch."""

    option: str  # option of fairseq-train, in tokens or examples
    per_epoch: int
    least: int
    most: int

    def choose(self, size: int) -> int:
        """Choose the size of a batch for an amount of data."""
        multiple = max(1, size // (self.per_epoch * self.least))
        return self.least * min(self.most // self.least, multiple)


BATCHES = {
    Kind.TRANSLATION: Batches("max-tokens", 20, 512, 4096),
    Kind.CLASSIFICATION: Batches("batch-size", 30, 8, 32),
    Kind.LANGUAGE_MODEL: Batches("max-tokens", 20, 512, 2048),
    Kind.MASKED_LM: Batches("max-tokens", 20, 512, 2048),
}
