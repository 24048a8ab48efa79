"""The recipe for a folder of data: its task, and a schedule that fits its size."""

from __future__ import annotations

from pathlib import Path

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.files import reading

from .recipe import (
    CLASSIFICATION,
    LANGUAGE_MODELING,
    TASKS,
    TRANSLATION,
    Options,
    Recipe,
    make_recipe,
    merged,
    read_parts,
)

RECIPES = Path(__file__).with_suffix(".yaml")
# The option for the size of a batch, updates an epoch that it aims at, and its bounds; it is a
# multiple of the first.
BATCHES = {
    TRANSLATION: ("max-tokens", 20, 512, 4096),
    CLASSIFICATION: ("batch-size", 30, 8, 32),
    LANGUAGE_MODELING: ("max-tokens", 20, 512, 2048),
}
UPDATES = 1000  # of a training, if that is neither less than 3 epochs nor more than 50
LARGE = 2_000_000  # tokens, from which on less dropout is needed


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
    """
    task = task or find_task(data)
    if task not in TASKS:
        raise ValueError(f"--task {task}: there is a default recipe for {', '.join(TASKS)} alone")
    kind = TASKS[task]
    describe = {TRANSLATION: pairs, CLASSIFICATION: classes, LANGUAGE_MODELING: tokens}[kind]
    with reading(data):
        size, own = describe(data, task)
    option, per_epoch, least, most = BATCHES[kind]
    batch = least * min(most // least, max(1, size // (per_epoch * least)))
    epochs = epochs or min(max(3, -(-UPDATES // max(1, size // batch))), 50)
    train = {"task": task, **own, option: batch, "max-epoch": epochs}
    changes = {"data": str(data), "train": train, "architectures": architectures}
    recipe = make_recipe(merged(read_parts(RECIPES, kind)[kind], changes), str(RECIPES))
    if kind != CLASSIFICATION and size >= LARGE:
        recipe.shared["dropout"] = 0.1
    if task == "masked_lm":  # which fairseq-eval-lm cannot evaluate
        recipe.splits = []
    recipe.average = min(recipe.average, epochs)
    return recipe


def find_task(data: Path) -> str:
    """The task of fairseq that a folder of binarised data is for."""
    if (data / "label").is_dir():
        return "long_range_arena"
    if language_pair(data):
        return "translation"
    if (data / "dict.txt").is_file() and (data / "train.idx").is_file():
        return "language_modeling"
    if (data / "data-bin").is_dir():
        raise ValueError(f"{data}: give the binarised data in it, {data / 'data-bin'}")
    raise ValueError(
        f"{data} has neither sentence pairs (train.SRC-TGT.SRC.idx), nor labelled texts (label/), "
        "nor text (train.idx and dict.txt); odeformers prepare makes such folders"
    )


def language_pair(data: Path) -> tuple[str, str] | None:
    """Source and target language of a translation data set, by its files of training.

    fairseq's ``infer_language_pair`` takes ``notes.2026-01.txt`` for a pair.
    """
    for path in sorted(data.glob("train.*-*.*.idx")):
        pair, language = path.name.split(".")[1:3]
        source, _, target = pair.partition("-")
        if language == source and (data / f"dict.{target}.txt").is_file():
            return source, target
    return None


def pairs(data: Path, task: str) -> tuple[int, Options]:
    """The number of tokens of the target language, and the options for these languages."""
    pair = language_pair(data)
    if pair is None:
        raise FileNotFoundError(f"{data} has no file such as train.de-en.de.idx")
    source, target = pair
    dictionaries = [Dictionary.load(str(data / f"dict.{side}.txt")) for side in pair]
    return sum(lengths(data / f"train.{source}-{target}.{target}")), {
        "source-lang": source,
        "target-lang": target,
        "share-all-embeddings": dictionaries[0] == dictionaries[1],
    }


def classes(data: Path, task: str) -> tuple[int, Options]:
    """The number of texts, and the options for their classes."""
    size = len(lengths(data / "label" / "train"))
    if task == "long_range_arena":
        kind = "retrieval" if (data / "input1").is_dir() else "text"
        return size, {"lra-task": kind, "num-batch-buckets": 8}
    names = class_names(Dictionary.load(str(data / "label" / "dict.txt")))
    return size, {"num-classes": len(names), "shorten-method": "truncate"}


def tokens(data: Path, task: str) -> tuple[int, Options]:
    """The number of tokens, and the criterion of masked models."""
    return sum(lengths(data / "train")), {"criterion": task} if task == "masked_lm" else {}


def lengths(path: Path) -> list[int]:
    """The number of tokens of each example of a binarised file, named without its suffix."""
    if not path.with_name(f"{path.name}.idx").is_file():
        raise FileNotFoundError(f"{path}.idx: no such file")
    dataset = MMapIndexedDataset(str(path))  # which its sizes are a view of
    return dataset.sizes.tolist()
