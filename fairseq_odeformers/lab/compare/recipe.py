"""Recipes: the architectures, the data and the options of an experiment.

A recipe is a YAML file. Its keys are the fields of :class:`Recipe`, and options are named as on
fairseq's command line. With ``parts`` one file describes several experiments, each with changes of
its own.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml
from fairseq.data.indexed_dataset import infer_dataset_impl

from fairseq_odeformers.data.binarised import count_examples
from fairseq_odeformers.files import check_regular, reading
from fairseq_odeformers.models.common.kinds import Kind

Made = TypeVar("Made")
Options = dict[str, Any]  # of a command, by their names without "--"; True is a switch


@dataclass
class Recipe:
    """An experiment. In the value of an option, ``{arch}`` is replaced by the architecture.

    If several of these set an option, the last one wins: ``sizes``, ``shared``, ``train``,
    ``architectures``, ``tune``. The command line replaces an option in ``train`` and
    ``architectures``; in brackets, for one architecture.
    """

    data: str  # the folder, as given to fairseq-train
    train: Options  # of all architectures; a value such as 10% is a share of the updates
    # Options by the name of the architecture, or by any name if the option arch has the
    # architecture. The first one is the baseline.
    architectures: dict[str, Options]
    shared: Options = field(default_factory=dict)  # for those architectures that have them
    # embed-dim, ffn-embed-dim, attention-heads and layers, for the encoder and the decoder of each
    # architecture. The layers of TransEvolve are the depths of its blocks.
    sizes: dict[str, int] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [1])  # one training per seed
    # Values of options, by name. Each architecture trains with all combinations and the first seed;
    # its best one continues with all seeds.
    tune: dict[str, list[Any]] = field(default_factory=dict)
    bleu_tokenize: str | None = None  # sacrebleu's tokenizer (default: by the target language)
    # How many of the last checkpoints to average; None for up to three.
    average: int | None = 0
    # Options of fairseq-generate, fairseq-eval-lm or, for classifiers, odeformers predict.
    evaluate: Options = field(default_factory=dict)
    splits: list[str] | None = None  # to evaluate on; by default all test sets, or else valid
    # For a split, a command that prints scores of a file of predictions, {output}.
    score: dict[str, str] = field(default_factory=dict)
    prepare: str = ""  # the command that makes the data, if they are not there
    # Figures of the paper, by architecture and column of the report.
    paper: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """fairseq's task; translation if the recipe names none."""
        return self.train.get("task", "translation")

    @property
    def kind(self) -> Kind:
        """The kind of models that the task trains."""
        return Kind.of_task(self.task) or Kind.TRANSLATION

    @property
    def metric(self) -> str:
        """The validation metric that chooses checkpoints, and between tuned options."""
        return self.train.get("best-checkpoint-metric", "loss")

    def best(self, values: Iterable[float]) -> float:
        """The best of several values of that metric."""
        return (max if self.train.get("maximize-best-checkpoint-metric") else min)(values)


def read_recipe(path: Path, part: str | None = None) -> dict[str, Recipe]:
    """The experiments of a YAML file, by the names of its parts; "" where it has none.

    With the key ``base`` a recipe, or a part, begins with the content of another file (of its
    ``part``, if that key is there, too); its own architectures take the place of the base's.
    """
    with reading(path, "is not a recipe in YAML"):
        return {
            name: make_recipe(content, f"{path}, part {name}" if name else str(path))
            for name, content in read_parts(path, part).items()
        }


def read_parts(path: Path, part: str | None = None) -> dict[str, dict]:
    """The same as :func:`read_recipe`, as dictionaries that need not be complete."""
    content = _with_base(_read(path), path)
    parts = content.pop("parts", None) or {"": {}}
    if part is not None and part not in parts:
        available = ", ".join(parts) if "" not in parts else "no parts"
        raise ValueError(f"--part {part}: {path} has {available}")
    names = list(parts) if part is None else [part]
    return {name: merge(content, _with_base(parts[name] or {}, path)) for name in names}


def _read(path: Path) -> dict:
    check_regular(path)
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(content, dict):
        raise ValueError(f"{path} is not a recipe: it has no keys such as data and architectures")
    return content


def _with_base(content: dict, path: Path) -> dict:
    """The content of a recipe or part on top of the base that it names."""
    if "base" not in content:
        return content
    changes = dict(content)
    name, part = path.parent / changes.pop("base"), changes.pop("part", None)
    base = _with_base(_read(name), name)
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


def make_recipe(content: Mapping, where: str) -> Recipe:
    """A recipe from the content of a file, or of a part of it."""
    for key in ("data", "train", "architectures"):
        if not content.get(key):
            raise ValueError(f"{where}: the key {key} is missing")
    described = dict(content["architectures"])
    architectures = {name: options or {} for name, options in described.items()}
    recipe = construct(Recipe, {**content, "architectures": architectures}, where)
    recipe.paper = {name: scores for name, scores in recipe.paper.items() if name in architectures}
    return recipe


def construct(kind: type[Made], content: Mapping, where: str) -> Made:
    """A dataclass from the content of a YAML file, if its values have the types of the fields."""
    hints = get_type_hints(kind)
    for key, value in content.items():
        if key not in hints:
            raise ValueError(f"{where}: there is no key {key}; choose from {', '.join(hints)}")
        if not fits(value, hints[key]):
            expected = kind.__annotations__[key]
            raise ValueError(f"{where}: {key} is of another type than {expected}")
    return kind(**content)


def fits(value: object, kind: Any) -> bool:
    """Whether a value is of a type such as ``dict[str, list[int]]``; Any has no dictionaries."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        parts = value if isinstance(value, list) else [value]
        return not any(isinstance(part, (Mapping, list)) for part in parts)
    if origin is dict:
        items = value.items() if isinstance(value, Mapping) else [(None, None)]
        return all(fits(key, inner[0]) and fits(item, inner[1]) for key, item in items)
    if origin in (list, tuple):
        return isinstance(value, origin) and all(fits(item, inner[0]) for item in value)
    if origin is UnionType:
        return any(fits(value, one) for one in inner)
    return isinstance(value, (int, float) if kind is float else kind)


def to_words(options: Options) -> list[str]:
    """Options as the words of a command line."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words


def parse_words(words: Iterable[str]) -> Options:
    """The inverse of :func:`to_words`; an option without a value is a switch."""
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


def find_test_sets(recipe: Recipe) -> dict[str, str | None]:
    """The splits that models are evaluated on, each with the file of its texts, None if not kept.

    They are the recipe's ``splits``; by default all test sets of the data, or else ``valid``.
    """
    splits = recipe.splits
    if splits is None:
        source, target = (recipe.train.get(f"{side}-lang") for side in ("source", "target"))
        ending = f".{source}-{target}.{target}.idx" if recipe.kind is Kind.TRANSLATION else ".idx"
        folder = Path(recipe.data, "label" if recipe.kind is Kind.CLASSIFICATION else "")
        names = (path.name.removesuffix(ending) for path in folder.glob(f"test*{escape(ending)}"))
        splits = sorted(names) or ["valid"]
    paths = {split: texts_path(recipe, split) for split in splits}
    return {split: str(path) if path and path.is_file() else None for split, path in paths.items()}


def texts_path(recipe: Recipe, split: str) -> Path | None:
    """The file where a split has its references as published, or the texts that have labels."""
    data = Path(recipe.data)
    if recipe.kind is Kind.TRANSLATION:
        return data.parent / "plain" / f"{split}.{recipe.train.get('target-lang')}"
    return data / "input0" / f"{split}.idx" if recipe.kind is Kind.CLASSIFICATION else None


def count_validation_texts(recipe: Recipe) -> int:
    """How many texts choose the best checkpoints; 0 if it is not known."""
    source, target = (recipe.train.get(f"{side}-lang") for side in ("source", "target"))
    files = {
        Kind.CLASSIFICATION: "input0/valid",
        Kind.TRANSLATION: f"valid.{source}-{target}.{target}",
    }
    path = f"{recipe.data}/{files.get(recipe.kind, '')}"
    known = "valid-subset" not in recipe.train and infer_dataset_impl(path) == "mmap"
    return count_examples(Path(f"{path}.idx")) if known else 0
