"""Makes the content of a recipe for a folder of data: the task, and a schedule for its size."""

from pathlib import Path
from typing import NamedTuple

from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.data.binarised import language_pair
from fairseq_odeformers.data.classification import class_names
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import check_binarised, reading
from fairseq_odeformers.registry import Kind
from odeformers.commands import Options

RECIPES = Path(__file__).with_suffix(".yaml")
UPDATES = 1000  # length of a training, between 3 and 50 epochs
LARGE = 2_000_000  # number of tokens above which less dropout is needed


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
    return content


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


# --- the size of the data, and the options that depend on the data -----------------------------


def describe_pairs(data: Path, task: str) -> tuple[int, Options]:
    """Return the number of tokens in the target language, and the options for both languages."""
    pair = language_pair(data)
    if pair is None:
        raise FileNotFoundError(f"{data} has no file such as train.de-en.de.idx")
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
        raise FileNotFoundError(f"{path}.idx: no such file")
    dataset = MMapIndexedDataset(str(path))  # keeps the memory of its sizes
    return dataset.sizes.tolist()


DESCRIPTIONS = {
    Kind.TRANSLATION: describe_pairs,
    Kind.CLASSIFICATION: describe_classes,
    Kind.LANGUAGE_MODEL: describe_text,
    Kind.MASKED_LM: describe_text,
}
