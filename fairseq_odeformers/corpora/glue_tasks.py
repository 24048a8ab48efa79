"""The eight tasks of GLUE: where they are published, and what their tables have."""

import math
from typing import NamedTuple

URL = "https://dl.fbaipublicfiles.com"
SPLITS = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
MAX_SCORE = 5

# MRPC is published as Microsoft's corpus and a list of the pairs that are GLUE's development set.
MSR_TRAIN, MSR_TEST, MSR_DEV_IDS = MSR_FILES = (
    "msr_paraphrase_train.txt",
    "msr_paraphrase_test.txt",
    "mrpc_dev_ids.tsv",
)


class Task(NamedTuple):
    """How a task is published.

    Args:
        downloads: SHA-256 of each file, by its path below ``URL``.
        sentences: columns of the sentence or of the two sentences.
        label: column of the label.
        labels: the labels in the order of the classes; none for a score from 0 to 5.
        files: the file of each split.
        header: columns of the files with labels, if they have no header line.
        ragged: whether some lines of the files with labels are fragments, to be left out.
    """

    downloads: dict[str, str]
    sentences: tuple[str, ...]
    label: str
    labels: tuple[str, ...]
    files: dict[str, str] = SPLITS
    header: tuple[str, ...] = ()
    ragged: bool = False

    @property
    def inputs(self) -> list[str]:
        """``sentence_prediction``'s names of the sentences."""
        return [f"input{number}" for number in range(len(self.sentences))]

    @property
    def labelled(self) -> list[str]:
        """The splits that have labels."""
        return [split for split in self.files if not split.startswith("test")]

    def target(self, label: str) -> str:
        """A label as it is, a score divided by the largest one.

        Raises:
            ValueError: the task has no such label or score.
        """
        if self.labels:
            if label not in self.labels:
                raise ValueError(f"is {label!r}, not one of {', '.join(self.labels)}")
            return label
        try:
            score = float(label)
        except ValueError:
            score = math.nan
        if not 0 <= score <= MAX_SCORE:
            raise ValueError(f"is {label!r}, not a number from 0 to {MAX_SCORE}")
        return str(score / MAX_SCORE)


def _zip(name: str, checksum: str) -> dict[str, str]:
    return {f"glue/data/{name}.zip": checksum}


PAIR = ("sentence1", "sentence2")
TASKS = {
    "CoLA": Task(
        _zip("CoLA", "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"),
        *(("sentence",), "label", BINARY),
        header=("source", "label", "star", "sentence"),
    ),
    "SST-2": Task(
        _zip("SST-2", "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"),
        *(("sentence",), "label", BINARY),
    ),
    "MRPC": Task(
        {
            f"senteval/senteval_data/{MSR_TRAIN}": (
                "60a9b09084528f0673eedee2b69cb941920f0b8cd0eeccefc464a98768457f89"
            ),
            f"senteval/senteval_data/{MSR_TEST}": (
                "a04e271090879aaba6423d65b94950c089298587d9c084bf9cd7439bd785f784"
            ),
            f"glue/data/{MSR_DEV_IDS}": (
                "971d7767d81b997fd9060ade0ec23c4fc31cbb226a55d1bd4a1bac474eb81dc7"
            ),
        },
        *(("#1 String", "#2 String"), "Quality", BINARY),
    ),
    "STS-B": Task(
        _zip("STS-B", "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"),
        *(PAIR, "score", ()),
    ),
    "QQP": Task(
        _zip("QQP-clean", "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"),
        *(("question1", "question2"), "is_duplicate", BINARY),
        ragged=True,
    ),
    "MNLI": Task(
        _zip("MNLI", "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"),
        *(PAIR, "gold_label", ("entailment", "neutral", "contradiction")),
        files={
            "train": "train.tsv",
            "valid": "dev_matched.tsv",
            "valid1": "dev_mismatched.tsv",
            "test": "test_matched.tsv",
            "test1": "test_mismatched.tsv",
        },
    ),
    "QNLI": Task(
        _zip("QNLIv2", "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"),
        *(("question", "sentence"), "label", ENTAILMENT),
    ),
    "RTE": Task(
        _zip("RTE", "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"),
        *(PAIR, "label", ENTAILMENT),
    ),
}
