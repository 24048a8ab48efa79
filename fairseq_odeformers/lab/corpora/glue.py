"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like the pretraining corpus: with normalised punctuation, in lower-case Moses tokens, byte-pair
encoded, by default with codes learned on the training sentences. The result of a task, such as
``RTE-bin``, has the folders ``input0``, ``input1`` (for pairs) and ``label`` that ``fairseq-train
--task sentence_prediction`` loads. Test sets have no labels and keep their
order. MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.data.classification import write_dictionaries, write_split
from fairseq_odeformers.data.moses import make_moses_tokenizer
from fairseq_odeformers.data.raw_text import read_codes
from fairseq_odeformers.files import build, decode_lines, fingerprints, read_lines

from . import tokens
from .archives import fetch, find, fingerprint, locate, read_files
from .command import add_number, add_path, make_parser, parse_options, preparing

logger = logging.getLogger(__name__)

URL = "https://dl.fbaipublicfiles.com"
SPLITS = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
MNLI_SPLITS = {
    "train": "train.tsv",
    "valid": "dev_matched.tsv",
    "valid1": "dev_mismatched.tsv",
    "test": "test_matched.tsv",
    "test1": "test_mismatched.tsv",
}
BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
PAIR = ("sentence1", "sentence2")
MAX_SCORE = 5
UNDECIDED = "-"  # MultiNLI's label of pairs on which the annotators do not agree

# MRPC is published as Microsoft's corpus and a list of the pairs that are GLUE's development set.
MSR_TRAIN, MSR_TEST, MSR_DEV_IDS = MSR_FILES = (
    "msr_paraphrase_train.txt",
    "msr_paraphrase_test.txt",
    "mrpc_dev_ids.tsv",
)
MSR_PATHS = (
    f"senteval/senteval_data/{MSR_TRAIN}",
    f"senteval/senteval_data/{MSR_TEST}",
    f"glue/data/{MSR_DEV_IDS}",
)


class Task(NamedTuple):
    """How a task is published.

    Args:
        paths: its files, below ``URL``.
        sentences: the columns of one or two sentences.
        label: the column of the label.
        labels: the labels in the order of the classes; none for a score from 0 to 5.
        files: the file of each split.
        header: the columns of the files with labels, if these have no header line.
        ragged: whether some lines of the files with labels are fragments, to be skipped.
    """

    paths: tuple[str, ...]
    sentences: tuple[str, ...]
    label: str = "label"
    labels: tuple[str, ...] = BINARY
    files: dict[str, str] = SPLITS
    header: tuple[str, ...] = ()
    ragged: bool = False

    @property
    def columns(self) -> list[str]:
        """The sentences' names in ``sentence_prediction``: ``input0``, ``input1``."""
        return [f"input{number}" for number in range(len(self.sentences))]

    def target(self, label: str) -> str | None:
        """The label, or the score divided by the largest one; None if it is not of this task."""
        if self.labels:
            return label if label in self.labels else None
        try:
            score = float(label)
        except ValueError:
            return None
        return str(score / MAX_SCORE) if 0 <= score <= MAX_SCORE else None


COLA_HEADER = ("source", "label", "star", "sentence")
NLI = ("entailment", "neutral", "contradiction")
QUESTIONS = ("question1", "question2")
TASKS = {
    "CoLA": Task(("glue/data/CoLA.zip",), ("sentence",), header=COLA_HEADER),
    "SST-2": Task(("glue/data/SST-2.zip",), ("sentence",)),
    "MRPC": Task(MSR_PATHS, ("#1 String", "#2 String"), "Quality"),
    "STS-B": Task(("glue/data/STS-B.zip",), PAIR, "score", labels=()),
    "QQP": Task(("glue/data/QQP-clean.zip",), QUESTIONS, "is_duplicate", ragged=True),
    "MNLI": Task(("glue/data/MNLI.zip",), PAIR, "gold_label", NLI, MNLI_SPLITS),
    "QNLI": Task(("glue/data/QNLIv2.zip",), ("question", "sentence"), labels=ENTAILMENT),
    "RTE": Task(("glue/data/RTE.zip",), PAIR, labels=ENTAILMENT),
}


def read_table(
    name: str,
    content: bytes,
    columns: Sequence[str],
    header: Sequence[str] = (),
    ragged: bool = False,
) -> Iterator[tuple[int, list[str]]]:
    """Line number and values of *columns* for each line of a table; see :class:`Task`."""
    lines = (line.rstrip("\r").split("\t") for line in decode_lines(BytesIO(content), name))
    names = header or next(lines, [""])
    if missing := [column for column in columns if column not in names]:
        raise ValueError(
            f"{name} has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        )
    places = [names.index(column) for column in columns]
    fragments = 0
    for number, row in enumerate(lines, start=1 if header else 2):
        if ragged and len(row) != len(names):
            fragments += 1
        elif len(row) <= max(places):
            raise ValueError(f"{name}, line {number} has {len(row)} of {len(names)} columns")
        else:
            yield number, [row[place] for place in places]
    if fragments:
        logger.info(f"{name}: skipped {fragments:,} lines without {len(names)} columns")


def read_examples(name: str, content: bytes, task: Task, labelled: bool) -> Iterator[list[str]]:
    """The sentences of each example, and :meth:`Task.target` of its label if it has one."""
    if labelled:
        columns = (*task.sentences, task.label)
        table = read_table(name, content, columns, task.header, task.ragged)
    else:
        table = read_table(name, content, task.sentences)
    count = undecided = 0
    for number, row in table:
        if labelled:
            if row[-1] == UNDECIDED:
                undecided += 1
                continue
            if (target := task.target(row[-1])) is None:
                expected = ", ".join(task.labels) or f"0 to {MAX_SCORE}"
                raise ValueError(
                    f"{name}, line {number}: {task.label} is {row[-1]!r}, expected {expected}"
                )
            row[-1] = target
        count += 1
        yield row
    if not count:
        raise ValueError(f"{name} has no examples")
    skipped = f"; skipped {undecided:,} with label {UNDECIDED}" if undecided else ""
    logger.info(f"{name}: {count:,} examples{skipped}")


def split_mrpc(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """MRPC's ``train.tsv``, ``dev.tsv`` and ``test.tsv`` from Microsoft's files."""
    task = TASKS["MRPC"]
    columns = (task.label, *task.sentences)
    dev_ids = {line.strip() for line in decode_lines(BytesIO(files[MSR_DEV_IDS]), MSR_DEV_IDS)}
    splits = {"train": ["\t".join(columns)], "dev": ["\t".join(columns)]}
    for _, row in read_table(MSR_TRAIN, files[MSR_TRAIN], ("#1 ID", "#2 ID", *columns)):
        split = "dev" if "\t".join(row[:2]) in dev_ids else "train"
        splits[split].append("\t".join(row[2:]))
    if len(splits["dev"]) == 1:
        raise ValueError(f"{MSR_DEV_IDS} names no pair of {MSR_TRAIN}")
    tables = {f"MRPC/{split}.tsv": "\n".join(lines).encode() for split, lines in splits.items()}
    return {**tables, "MRPC/test.tsv": files[MSR_TEST]}


def prepare(
    names: Sequence[str],
    source: Path | None,
    out: Path,
    vocabulary: tuple[Path, Path] | None,
    bpe_operations: int,
    workers: int,
) -> list[Path]:
    """The binarised data of each task, with the byte-pair codes in ``code``.

    Args:
        source: None to download the published files.
        vocabulary: subword-nmt's codes and fairseq's dictionary; None to learn both on the training
            sentences of all named tasks.
    """
    if vocabulary:
        read_codes(vocabulary[0])
        Dictionary.load(str(vocabulary[1]))
    inputs = {name: tokenize(name, source, out, workers) for name in names}
    tokenized = out / "tokenized"
    if vocabulary is None:
        learned = out / "vocabulary"
        texts = [
            tokenized / name / f"train.{column}" for name in names for column in TASKS[name].columns
        ]
        learn = partial(learn_vocabulary, texts, bpe_operations)
        build(learned, {"text": inputs, "bpe_operations": bpe_operations}, learn)
        vocabulary = learned / "code", learned / "dict.txt"
    for name in names:
        make = partial(binarize, TASKS[name], tokenized / name, vocabulary, workers)
        build(out / f"{name}-bin", {**inputs[name], "vocabulary": fingerprints(vocabulary)}, make)
    return [out / f"{name}-bin" for name in names]


def tokenize(name: str, source: Path | None, out: Path, workers: int) -> dict[str, Any]:
    """Write each column of each split of a task: ``out/tokenized/RTE/train.input0``, ...

    Returns what determines the text, as inputs of ``build``.
    """
    task = TASKS[name]
    urls = [f"{URL}/{path}" for path in task.paths]
    source = source or fetch(urls, out)
    names = [f"{name}/{file}" for file in task.files.values()]
    source = locate(source, urls[0], [*names, *MSR_FILES])
    if name == "MRPC" and not any(find(source, names)):
        files = split_mrpc(read_files(source, MSR_FILES))
    else:
        files = read_files(source, names)

    def make(folder: Path) -> None:
        for split, file in zip(task.files, names):
            labelled = not split.startswith("test")
            rows = read_examples(file, files[file], task, labelled)
            rows = tokens.map_rows(_make_row_tokenizer, (len(task.columns),), rows, workers, file)
            columns = [*task.columns, "label"] if labelled else task.columns
            tokens.write_rows(zip(repeat(split), rows), folder, columns)

    inputs = {"from": fingerprint(files)}
    build(out / "tokenized" / name, inputs, make)
    return inputs


def _make_row_tokenizer(sentences: int) -> Callable[[tokens.Row], tokens.Row]:
    tokenize = make_tokenizer()
    return lambda row: [*map(tokenize, row[:sentences]), *row[sentences:]]


def make_tokenizer() -> Callable[[str], str]:
    """A function that makes text like the pretraining corpus: lower-case Moses tokens."""
    normalize = MosesPunctNormalizer("en").normalize
    tokenize = make_moses_tokenizer("en", escape=False)
    return lambda text: tokenize(normalize(text).lower())


def learn_vocabulary(texts: Sequence[Path], bpe_operations: int, folder: Path) -> None:
    """Learn a joint byte-pair encoding, ``code``, and its dictionary, ``dict.txt``."""
    words = tokens.count_words(texts)
    tokens.learn_codes(words, bpe_operations, folder / "code")
    bpe = read_codes(folder / "code")
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def binarize(
    task: Task, tokenized: Path, vocabulary: tuple[Path, Path], workers: int, folder: Path
) -> None:
    """Encode and binarise the tokenised sentences of a task, and its labels; scores stay text."""
    codes, dictionary = vocabulary
    shutil.copy(codes, folder / "code")
    write_dictionaries(folder, len(task.columns), Dictionary.load(str(dictionary)), task.labels)
    for split in task.files:
        texts = zip(*(read_lines(tokenized / f"{split}.{column}") for column in task.columns))
        progress = f"{tokenized.name}/{split}"
        sentences = tokens.map_rows(_make_indexer, vocabulary, texts, workers, progress)
        labels = tokenized / f"{split}.label"
        labelled = labels.exists() and bool(task.labels)
        classes = read_lines(labels) if labelled else repeat(None)
        write_split(folder, split, zip(sentences, classes), labelled)
        if labels.exists() and not labelled:
            (folder / "label").mkdir(exist_ok=True)
            shutil.copy(labels, folder / "label")


def _make_indexer(codes: Path, dictionary: Path) -> Callable[[tokens.Row], list[np.ndarray]]:
    """A function that returns the indices of the subwords of each text of a row."""
    encode = tokens.make_bpe_encoder(codes)
    symbols = Dictionary.load(str(dictionary))

    def index(row: tokens.Row) -> list[np.ndarray]:
        return [symbols.encode_line(text, add_if_not_exist=False).numpy() for text in encode(row)]

    return index


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "glue",
        "Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
        source="folder with the published files or the unpacked tasks, or an archive of them "
        "(default: download the files)",
        tasks=TASKS,
    )
    codes = parser.add_mutually_exclusive_group()
    what = "BPE codes of the pretraining corpus (default: learn BPE on the tasks)"
    add_path(codes, "--bpe-codes", what)
    add_number(codes, "--bpe-operations", 32_000, "merges of the joint BPE")
    what = "fairseq's dictionary of the pretraining corpus, needed with --bpe-codes"
    add_path(parser, "--dict", what)
    args = parse_options(parser, arguments)
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; give both or neither")
    names = list(TASKS if "all" in args.tasks else dict.fromkeys(args.tasks))
    vocabulary = (args.bpe_codes, args.dict) if args.bpe_codes else None
    options = args.source, args.out, vocabulary, args.bpe_operations, args.workers
    with preparing(args):
        prepare(names, *options)
