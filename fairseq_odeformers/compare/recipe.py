"""Recipes: what an experiment trains, on which data, with which options.

A recipe is a YAML file, or what :func:`default_recipe` makes of a folder of data. Its keys are the
fields of :class:`Recipe`; options have the names that they have on fairseq's command line. With
``parts`` one file describes several experiments, each with changes of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.files import check_regular, reading

Made = TypeVar("Made")
Options = dict[str, Any]  # of a command, by their names without "--"; True is a switch

TRANSLATION, CLASSIFICATION, LANGUAGE_MODELING = KINDS = (
    "translation",
    "classification",
    "language_modeling",
)
TASKS = {
    "translation": TRANSLATION,
    "long_range_arena": CLASSIFICATION,
    "sentence_prediction": CLASSIFICATION,
    "language_modeling": LANGUAGE_MODELING,
    "masked_lm": LANGUAGE_MODELING,
}


@dataclass
class Recipe:
    """An experiment.

    Attributes:
        data: folder, as given to fairseq-train.
        train: options of fairseq-train for all architectures. A value such as ``10%`` is a share of
            the updates of the training.
        shared: options for those architectures that have them.
        sizes: ``embed-dim``, ``ffn-embed-dim``, ``attention-heads`` and ``layers``, for encoder and
            decoder of each architecture; blocks have the depth that makes as many layers.
        architectures: the options of each, by a name. The name is that of the architecture unless
            the option ``arch`` names it. The first one is the baseline.
        seeds: of the trainings of each architecture.
        average: how many of the last epochs' checkpoints are averaged; 0 for none.
        evaluate: options of fairseq-generate or fairseq-eval-lm.
        splits: the parts of the data to evaluate on; by default all test sets, or else ``valid``.
        score: for a split, a command that prints scores of a file of predictions, ``{output}``.
        prepare: the command that makes the data, if they are not there.
        paper: figures of the paper, by architecture and column of the report.
    """

    data: str
    train: Options
    architectures: dict[str, Options]
    shared: Options = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=lambda: [1])
    average: int = 0
    evaluate: Options = field(default_factory=dict)
    splits: list[str] | None = None
    score: dict[str, str] = field(default_factory=dict)
    prepare: str = ""
    paper: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """One of :data:`KINDS`."""
        return TASKS.get(self.train.get("task", "translation"), TRANSLATION)


def read_recipe(path: Path, part: str | None = None) -> dict[str, Recipe]:
    """The experiments of a YAML file, by the names of its parts; "" where it has none.

    With the key ``base`` a recipe, or a part, begins with the content of another file (of its
    ``part``, if that key is there, too); its own architectures take the place of the base's.

    Args:
        part: the only part to read.

    Raises:
        OSError: there is no such file.
        ValueError: it is not a recipe, or has no such part; the message names file and key.
    """
    with reading(path, "is not a recipe in YAML"):
        content = _with_base(_read(path), path)
        parts = content.pop("parts", None) or {"": {}}
        if part is not None and part not in parts:
            known = ", ".join(parts) if "" not in parts else "no parts"
            raise ValueError(f"--part {part}: {path} has {known}")
        chosen = parts if part is None else {part: parts[part]}
        return {
            name: _recipe(merged(content, _with_base(own or {}, path)), path, name)
            for name, own in chosen.items()
        }


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
    own = dict(content)
    name, part = path.parent / own.pop("base"), own.pop("part", None)
    base = _with_base(_read(name), name)
    if part is not None:
        base = merged(base, base.pop("parts")[part])
    if "architectures" in own:
        base.pop("architectures", None)
    return merged(base, own)


def merged(base: Mapping, changes: Mapping) -> dict:
    """*base* with *changes*, dictionaries key by key; a value None removes a key."""
    result = copy.deepcopy(dict(base))
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        elif value is None and key in result:
            del result[key]
        else:
            result[key] = copy.deepcopy(value)
    return result


def _recipe(content: Mapping, path: Path, part: str) -> Recipe:
    where = f"{path}, part {part}" if part else str(path)
    for key in ("data", "train", "architectures"):
        if not content.get(key):
            raise ValueError(f"{where}: the key {key} is missing")
    architectures = {name: own or {} for name, own in dict(content["architectures"]).items()}
    recipe = checked(Recipe, {**content, "architectures": architectures}, where)
    recipe.paper = {name: own for name, own in recipe.paper.items() if name in architectures}
    return recipe


def checked(kind: type[Made], content: Mapping, where: str) -> Made:
    """A dataclass of what a YAML file has, whose values are of the types of its fields.

    Raises:
        ValueError: a key is unknown, or a value of another type; the message begins with *where*.
    """
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
        return all(fits(key, inner[0]) and fits(own, inner[1]) for key, own in items)
    if origin is list:
        return isinstance(value, list) and all(fits(own, inner[0]) for own in value)
    if origin is UnionType:
        return any(fits(value, one) for one in inner)
    return isinstance(value, (int, float) if kind is float else kind)


def command_line(options: Options) -> list[str]:
    """Options as words of a command line."""
    words = []
    for name, value in options.items():
        if value is True:
            words.append(f"--{name}")
        elif value is not False and value is not None:
            words += [f"--{name}", str(value)]
    return words


def parse_words(words: Iterable[str]) -> Options:
    """The options of a command line; one without a value is a switch.

    Raises:
        ValueError: a word is not an option, nor the value of one.
    """
    options: Options = {}
    name = None
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            options[name] = value or True
        elif name is not None and options[name] is True:
            options[name] = word
        else:
            raise ValueError(f"{word}: an option such as --dropout is expected here")
    return options


def parse_architecture(text: str) -> tuple[str, Options]:
    """The name and the options of ``ARCH`` or ``ARCH[--option value ...]``.

    Raises:
        ValueError: the brackets do not close, or hold something else.
    """
    arch, bracket, rest = text.partition("[")
    if bracket and not rest.endswith("]"):
        raise ValueError(f"{text}: the bracket of the options is not closed")
    options = parse_words(rest[:-1].split())
    name = "".join(
        f"-{key}-{value}" if value is not True else f"-{key}" for key, value in options.items()
    )
    name = arch + name.replace("/", "_")
    return name, {"arch": arch, **options} if options else {}


def find_task(data: Path) -> str:
    """The task of fairseq that a folder of binarised data is for.

    Raises:
        ValueError: it holds none that is known.
    """
    if not data.is_dir():
        raise ValueError(
            f"{data}: no such folder; give the one that fairseq-preprocess has written"
        )
    if (data / "label").is_dir() or (data / "label-bin").is_dir():
        return "long_range_arena"
    if language_pair(data):
        return "translation"
    if (data / "dict.txt").is_file() and (data / "train.idx").is_file():
        return "language_modeling"
    raise ValueError(
        f"{data} has neither sentence pairs (train.SRC-TGT.SRC.idx), nor labelled texts (label/), "
        "nor text (train.idx and dict.txt); odeformers prepare makes such folders"
    )


def language_pair(data: Path) -> tuple[str, str] | None:
    """Source and target language of a translation data set, by the dictionaries that are there."""
    for path in sorted(data.glob("train.*-*.*.idx")):
        pair, language = path.name.split(".")[1:3]
        source, _, target = pair.partition("-")
        if language == source and (data / f"dict.{target}.txt").is_file():
            return source, target
    return None


def default_recipe(
    data: Path,
    architectures: dict[str, Options],
    task: str | None = None,
    epochs: int | None = None,
) -> Recipe:
    """A recipe whose schedule fits the size of a data set.

    Args:
        data: folder of binarised data.
        task: of fairseq; by default the one that the data are for.
        epochs: by default as many as make about a thousand updates, and at least three.

    Raises:
        ValueError: the data are for no task that is known.
    """
    task = task or find_task(data)
    if TASKS.get(task) is None:
        raise ValueError(f"--task {task}: there is a default recipe for {', '.join(TASKS)} alone")
    make = {
        TRANSLATION: translation_recipe,
        CLASSIFICATION: classification_recipe,
        LANGUAGE_MODELING: language_modeling_recipe,
    }[TASKS[task]]
    with reading(data):
        recipe = make(data, task, epochs)
    recipe.architectures = architectures
    return recipe


def translation_recipe(data: Path, task: str, epochs: int | None) -> Recipe:
    """That of Multi30k and its like: four layers of width 256."""
    pair = language_pair(data)
    if pair is None:
        raise ValueError(f"--task {task}: {data} has no file such as train.de-en.de.idx")
    source, target = pair
    name = f"{source}-{target}"
    tokens = sum(lengths(data / f"train.{name}.{target}"))
    batch = rounded(tokens / 20, 512, 4096)
    dictionaries = [Dictionary.load(str(data / f"dict.{lang}.txt")) for lang in pair]
    train = {
        "task": task,
        "source-lang": source,
        "target-lang": target,
        "criterion": "label_smoothed_cross_entropy",
        "label-smoothing": 0.1,
        "share-all-embeddings": dictionaries[0] == dictionaries[1],
        "dropout": 0.3 if tokens < 2_000_000 else 0.1,
        "max-tokens": batch,
        **schedule(tokens / batch, epochs, lr=2e-3, warmup="25%"),
    }
    return Recipe(
        data=str(data),
        train=train,
        architectures={},
        shared=dict.fromkeys(("attention-dropout", "activation-dropout", "embedding-dropout"), 0),
        sizes={"embed-dim": 256, "ffn-embed-dim": 1024, "attention-heads": 4, "layers": 4},
        average=min(3, train["max-epoch"]),
        evaluate={"beam": 5},
    )


def classification_recipe(data: Path, task: str, epochs: int | None) -> Recipe:
    """Six layers of width 256 over texts of up to 512 symbols."""
    labels = data / "label" / "train"
    if not labels.with_suffix(".idx").is_file():
        raise ValueError(f"--task {task}: {data} has no labels of training texts (label/train.idx)")
    examples = len(lengths(labels))
    batch = rounded(examples / 30, 8, 32, step=8)
    train = {
        "task": task,
        "max-positions": 512,
        "criterion": "sequence_classification",
        "num-batch-buckets": 8,
        "best-checkpoint-metric": "accuracy",
        "maximize-best-checkpoint-metric": True,
        "clip-norm": 1,
        "batch-size": batch,
        **schedule(examples / batch, epochs, lr=5e-4, warmup="10%"),
    }
    if task == "long_range_arena":
        train["lra-task"] = "retrieval" if (data / "input1").is_dir() else "text"
    else:
        classes = Dictionary.load(str(data / "label" / "dict.txt"))
        train["num-classes"] = len(classes) - classes.nspecial
    return Recipe(
        data=str(data),
        train=train,
        architectures={},
        shared={  # some architectures, such as TransJect, have no dropout
            "dropout": 0.3,
            "embedding-dropout": 0.3,
            "attention-dropout": 0.1,
            "activation-dropout": 0,
        },
        sizes={"embed-dim": 256, "ffn-embed-dim": 1024, "attention-heads": 8, "layers": 6},
    )


def language_modeling_recipe(data: Path, task: str, epochs: int | None) -> Recipe:
    """Six layers of width 256 over blocks of 64 tokens."""
    if not (data / "train.idx").is_file():
        raise ValueError(f"--task {task}: {data} has no file train.idx")
    tokens = sum(lengths(data / "train"))
    batch = rounded(tokens / 20, 512, 2048)
    causal = task == "language_modeling"
    train = {
        "task": task,
        "tokens-per-sample": 64,
        "sample-break-mode": "none",
        "criterion": "label_smoothed_cross_entropy_with_regularizers" if causal else "masked_lm",
        "clip-norm": 1,
        "max-tokens": batch,
        **schedule(tokens / batch, epochs, lr=1e-3, warmup="10%"),
    }
    return Recipe(
        data=str(data),
        train=train,
        architectures={},
        shared={
            "dropout": 0.3 if tokens < 2_000_000 else 0.1,
            **dict.fromkeys(("attention-dropout", "activation-dropout"), 0),
        },
        sizes={"embed-dim": 256, "ffn-embed-dim": 1024, "attention-heads": 4, "layers": 6},
    )


def lengths(path: Path) -> list[int]:
    """The number of tokens of each example of a binarised file, named without its suffix."""
    dataset = MMapIndexedDataset(str(path))
    return dataset.sizes.tolist()


def schedule(updates_per_epoch: float, epochs: int | None, lr: float, warmup: str) -> Options:
    """Adam, with a rate that rises for a share of the updates and then falls to zero."""
    least = -(-1000 // max(1, round(updates_per_epoch)))
    return {
        "max-epoch": epochs or min(max(3, least), 50),
        "optimizer": "adam",
        "adam-betas": "(0.9, 0.98)",
        "lr": lr,
        "lr-scheduler": "polynomial_decay",
        "warmup-updates": warmup,
        "total-num-update": "100%",
    }


def rounded(value: float, least: int, most: int, step: int = 128) -> int:
    """The value in these bounds, a multiple of *step*."""
    return int(min(max(value, least), most)) // step * step
