"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like the pretraining corpus: punctuation is normalised, text is lower-cased and tokenised as
Moses does, and byte-pair encoded, by default with codes learnt on the training sentences. The
result of a task, for instance ``RTE-bin``, has in ``input0``, ``input1`` (for pairs) and ``label``
what ``fairseq-train --task sentence_prediction`` loads. Test sets have no labels and keep their
order. MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

import logging
import math
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.corpora.archives import extract, fetch, find
from fairseq_odeformers.corpora.cli import (
    add_options,
    existing_path,
    make_parser,
    parse_options,
    preparing,
)
from fairseq_odeformers.corpora.text import (
    Row,
    bpe_encoder,
    count_words,
    learn_codes,
    load_codes,
    map_rows,
    moses_tokenizer,
    write_rows,
)
from fairseq_odeformers.data.classification import write_dictionaries, write_split
from fairseq_odeformers.files import build, fingerprints, read_lines, write_lines
from fairseq_odeformers.options import positive_int

logger = logging.getLogger(__name__)

BPE_OPERATIONS = 32_000
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
UNDECIDED = "-"  # MultiNLI's label of pairs on which the annotators do not agree


def read_table(
    path: Path, columns: Sequence[str], header: Sequence[str] = (), ragged: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of *columns* for each line of a table of tab-separated values.

    Args:
        header: the names of all columns, if the first line does not have them.
        ragged: whether to leave out lines that have not as many columns as the header.

    Raises:
        ValueError: the table has no such column, or a line is too short to have it.
    """
    lines = (line.rstrip("\r").split("\t") for line in read_lines(path))
    names = header or next(lines, [""])
    if missing := [column for column in columns if column not in names]:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        )
    fragments = 0
    for number, row in enumerate(lines, start=1 if header else 2):
        values = dict(zip(names, row))
        if ragged and len(row) != len(names):
            fragments += 1
        elif missing := [column for column in columns if column not in values]:
            raise ValueError(
                f"{path}, line {number} has no column {', '.join(missing)}, "
                f"only the first {len(row)} of {len(names)}"
            )
        else:
            yield number, [values[column] for column in columns]
    if fragments:
        logger.info(f"{path}: left out {fragments:,} lines that have not {len(names)} columns")


def examples(path: Path, task: Task, labelled: bool) -> Iterator[list[str]]:
    """The sentences of each example, and its label if it has one, as the files of results have it.

    Raises:
        ValueError: there is no example, or one has a label or score that the task does not have.
    """
    if labelled:
        table = read_table(path, (*task.sentences, task.label), task.header, task.ragged)
    else:
        table = read_table(path, task.sentences)
    found = undecided = 0
    for number, row in table:
        if labelled:
            if row[-1] == UNDECIDED:
                undecided += 1
                continue
            try:
                row[-1] = task.target(row[-1])
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {task.label} {error}") from error
        found += 1
        yield row
    if not found:
        raise ValueError(f"{path} has no examples")
    skipped = f"; left out {undecided:,} that are labelled {UNDECIDED}" if undecided else ""
    logger.info(f"{path}: {found:,} examples{skipped}")


def split_mrpc(folder: Path) -> None:
    """Make MRPC's ``train.tsv``, ``dev.tsv`` and ``test.tsv`` of Microsoft's files in *folder*.

    Raises:
        ValueError: the development set would be empty.
    """
    task = TASKS["MRPC"]
    columns = (task.label, *task.sentences)
    dev_ids = {line.strip() for line in read_lines(folder / MSR_DEV_IDS)}
    splits = {"train": ["\t".join(columns)], "dev": ["\t".join(columns)]}
    for _, row in read_table(folder / MSR_TRAIN, ("#1 ID", "#2 ID", *columns)):
        split = "dev" if "\t".join(row[:2]) in dev_ids else "train"
        splits[split].append("\t".join(row[2:]))
    if len(splits["dev"]) == 1:
        raise ValueError(f"{folder / MSR_DEV_IDS} names no pair of {MSR_TRAIN}")
    for split, lines in splits.items():
        write_lines(folder / f"{split}.tsv", lines)
    (folder / MSR_TEST).rename(folder / "test.tsv")


def prepare(
    names: Sequence[str],
    source: Path | None,
    out: Path,
    vocabulary: tuple[Path, Path] | None,
    bpe_operations: int,
    workers: int,
) -> list[Path]:
    """Prepare GLUE tasks for fairseq's ``sentence_prediction``.

    A call that was interrupted resumes with the step it was in, and steps whose inputs and options
    have not changed are not repeated. The result does not depend on *workers*.

    Args:
        names: keys of ``TASKS``.
        source: folder that has the published files or what they contain, or an archive that
            contains the tasks; None to download the published files.
        out: folder for the results and for what the steps leave: ``raw`` and ``tokenized`` with a
            folder for each task, and ``vocabulary``.
        vocabulary: subword-nmt's byte-pair codes and fairseq's dictionary; None to learn both on
            the training sentences of the named tasks together.
        bpe_operations: merges to learn if there is no *vocabulary*.
        workers: number of processes.

    Returns:
        The folder of each task: the binarised data, and in ``code`` the byte-pair codes.

    Raises:
        ValueError: a file is missing, damaged, empty or not UTF-8; a table lacks a column or has a
            label or score that the task does not have; *vocabulary* cannot be read.
    """
    if vocabulary:
        load_codes(vocabulary[0])
        Dictionary.load(str(vocabulary[1]))
    recipes = {name: _prepare_text(name, source, out, workers) for name in names}
    tokenized = out / "tokenized"
    if vocabulary is None:
        texts = [
            tokenized / name / f"train.{column}" for name in names for column in TASKS[name].inputs
        ]
        build(
            out / "vocabulary",
            {"text": recipes, "bpe_operations": bpe_operations},
            lambda folder: learn_vocabulary(texts, bpe_operations, folder),
        )
        vocabulary = out / "vocabulary" / "code", out / "vocabulary" / "dict.txt"
    for name in names:

        def make(folder: Path, name=name) -> None:
            binarize(TASKS[name], tokenized / name, vocabulary, folder, workers)

        build(out / f"{name}-bin", {**recipes[name], "vocabulary": fingerprints(vocabulary)}, make)
    return [out / f"{name}-bin" for name in names]


def _prepare_text(name: str, source: Path | None, out: Path, workers: int) -> dict[str, Any]:
    """Tokenise the sentences of a task; returns the recipe of that step."""
    task = TASKS[name]
    raw, tokenized = out / "raw" / name, out / "tokenized" / name
    if source is None:
        downloads = {f"{URL}/{address}": checksum for address, checksum in task.downloads.items()}
        source = fetch(downloads, out / "download")
    files = [f"{name}/{file}" for file in task.files.values()]
    finish = None
    if name == "MRPC" and not any(find(source, files)):
        files, finish = MSR_FILES, split_mrpc
    extract(source, {next(iter(task.downloads)): files}, raw, finish=finish)
    recipe = {"raw": fingerprints(raw / file for file in task.files.values())}
    build(tokenized, recipe, lambda folder: tokenize(task, raw, folder, workers))
    return recipe


def tokenize(task: Task, raw: Path, folder: Path, workers: int) -> None:
    """Write each column of each split to a file: ``train.input0``, ``train.label``, ..."""
    for split, file in task.files.items():
        labelled = split in task.labelled
        rows = examples(raw / file, task, labelled)
        label = f"{raw.name}/{file}"
        rows = map_rows(_row_tokenizer, (len(task.inputs),), rows, workers, label)
        columns = (*task.inputs, "label") if labelled else task.inputs
        write_rows(zip(repeat(split), rows), folder, columns)


def _row_tokenizer(sentences: int) -> Callable[[Row], Row]:
    tokenize = tokenizer()
    return lambda row: [*map(tokenize, row[:sentences]), *row[sentences:]]


def tokenizer() -> Callable[[str], str]:
    """A function that makes text like the pretraining corpus: lower-case Moses tokens."""
    normalize = MosesPunctNormalizer("en").normalize
    tokenize = moses_tokenizer("en", escape=False)
    return lambda text: tokenize(normalize(text).lower())


def learn_vocabulary(texts: Sequence[Path], bpe_operations: int, folder: Path) -> None:
    """Learn a joint byte-pair encoding, ``code``, and its dictionary, ``dict.txt``."""
    words = count_words(texts)
    learn_codes(words, bpe_operations, folder / "code")
    bpe = load_codes(folder / "code")
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def binarize(
    task: Task, tokenized: Path, vocabulary: tuple[Path, Path], folder: Path, workers: int
) -> None:
    """Encode and binarise the tokenised sentences of a task, and its labels; scores stay text."""
    codes, dictionary = vocabulary
    shutil.copy(codes, folder / "code")
    write_dictionaries(folder, len(task.inputs), Dictionary.load(str(dictionary)), task.labels)
    label = folder / "label"
    if task.labels:
        counts = Counter(read_lines(tokenized / "train.label"))
        write_lines(label / "dict.txt", (f"{name} {counts[name]}" for name in task.labels))
    for split in task.files:
        texts = zip(*(read_lines(tokenized / f"{split}.{column}") for column in task.inputs))
        progress = f"{tokenized.name}/{split}"
        sentences = map_rows(_indexer, (codes, dictionary), texts, workers, progress)
        classes = repeat(None)
        if labelled := bool(task.labels) and split in task.labelled:
            classes = read_lines(tokenized / f"{split}.label")
        elif split in task.labelled:
            label.mkdir(exist_ok=True)
            shutil.copy(tokenized / f"{split}.label", label)
        write_split(folder, split, zip(sentences, classes), labelled)


def _indexer(codes: Path, dictionary: Path) -> Callable[[Row], list[np.ndarray]]:
    """A function that gives the indices of the byte pairs of each text of a row."""
    encode = bpe_encoder(codes)
    symbols = Dictionary.load(str(dictionary))

    def index(row: Row) -> list[np.ndarray]:
        return [symbols.encode_line(text, add_if_not_exist=False).numpy() for text in encode(row)]

    return index


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "glue",
        "Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
        out="data/glue",
        result="TASK-bin",
        source="folder with the published files or the unpacked tasks, or an archive of them "
        "(default: download the files)",
        tasks=TASKS,
    )
    learnt = f"merges to learn without --bpe-codes (default: {BPE_OPERATIONS})"
    codes = "byte-pair codes of the pretraining corpus (default: learn them on the tasks)"
    add_options(
        parser,
        ("--bpe-codes", existing_path, None, codes),
        ("--dict", existing_path, None, "fairseq's dictionary of the pretraining corpus"),
        ("--bpe-operations", positive_int, None, learnt),
    )
    args = parse_options(parser, arguments)
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; give both or neither")
    if args.bpe_codes and args.bpe_operations:
        parser.error("--bpe-operations is for learning codes; leave it out with --bpe-codes")
    vocabulary = (args.bpe_codes, args.dict) if args.bpe_codes else None
    operations = args.bpe_operations or BPE_OPERATIONS
    with preparing(args.out):
        results = prepare(args.tasks, args.source, args.out, vocabulary, operations, args.workers)
        logging.info(f"ready for fairseq-train: {', '.join(map(str, results))}")
