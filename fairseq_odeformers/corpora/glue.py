"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like that of the pretraining corpus: punctuation is normalised, text is lower-cased and tokenised as
Moses does, and byte-pair encoded, by default with codes learnt on the training sentences. The
result of a task, for instance ``RTE-bin``, has in ``input0``, ``input1`` (for pairs) and ``label``
what ``fairseq-train --task sentence_prediction`` loads. Test sets have no labels and keep their
order. MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, Callable, NamedTuple

from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe
from tqdm import tqdm

from fairseq_odeformers.corpora.archives import download, members, unpack
from fairseq_odeformers.corpora.cli import (
    check_source,
    chosen,
    make_parser,
    positive_int,
    reporting,
)
from fairseq_odeformers.corpora.parallel_text import fairseq_preprocess, read_lines
from fairseq_odeformers.corpora.processes import map_in_processes
from fairseq_odeformers.files import build, fingerprints, sha256

logger = logging.getLogger(__name__)

URL = "https://dl.fbaipublicfiles.com"
SPLITS = {"train": "train.tsv", "valid": "dev.tsv", "test": "test.tsv"}
BINARY = ("0", "1")
ENTAILMENT = ("entailment", "not_entailment")
UNDECIDED = "-"  # MultiNLI's label of pairs on which the annotators do not agree
MAX_SCORE = 5
BPE_OPERATIONS = 32_000

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


TASKS = {
    "CoLA": Task(
        {"glue/data/CoLA.zip": "f212fcd832b8f7b435fb991f101abf89f96b933ab400603bf198960dfc32cbff"},
        ("sentence",),
        "label",
        BINARY,
        header=("source", "label", "star", "sentence"),
    ),
    "SST-2": Task(
        {"glue/data/SST-2.zip": "d67e16fb55739c1b32cdce9877596db1c127dc322d93c082281f64057c16deaa"},
        ("sentence",),
        "label",
        BINARY,
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
        ("#1 String", "#2 String"),
        "Quality",
        BINARY,
    ),
    "STS-B": Task(
        {"glue/data/STS-B.zip": "e60a6393de5a8b5b9bac5020a1554b54e3691f9d600b775bd131e613ac179c85"},
        ("sentence1", "sentence2"),
        "score",
        (),
    ),
    "QQP": Task(
        {
            "glue/data/QQP-clean.zip": (
                "40e7c862c04eb26ee04b67fd900e76c45c6ba8e6d8fab4f8f1f8072a1a3fbae0"
            )
        },
        ("question1", "question2"),
        "is_duplicate",
        BINARY,
        ragged=True,
    ),
    "MNLI": Task(
        {"glue/data/MNLI.zip": "e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633"},
        ("sentence1", "sentence2"),
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        files={
            "train": "train.tsv",
            "valid": "dev_matched.tsv",
            "valid1": "dev_mismatched.tsv",
            "test": "test_matched.tsv",
            "test1": "test_mismatched.tsv",
        },
    ),
    "QNLI": Task(
        {
            "glue/data/QNLIv2.zip": (
                "e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5"
            )
        },
        ("question", "sentence"),
        "label",
        ENTAILMENT,
    ),
    "RTE": Task(
        {"glue/data/RTE.zip": "6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee"},
        ("sentence1", "sentence2"),
        "label",
        ENTAILMENT,
    ),
}


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
        out: folder for the results and for what the steps leave: ``raw``, ``tokenized`` and ``bpe``
            with a folder for each task, and ``vocabulary``.
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
        check_dictionary(vocabulary[1])
    recipes = {name: _prepare_text(name, source, out, workers) for name in names}
    if vocabulary is None:
        texts = [
            out / "tokenized" / name / f"train.{column}"
            for name in names
            for column in TASKS[name].inputs
        ]
        build(
            out / "vocabulary",
            {"text": recipes, "bpe_operations": bpe_operations},
            lambda folder: learn_vocabulary(texts, bpe_operations, folder),
        )
        vocabulary = out / "vocabulary" / "code", out / "vocabulary" / "dict.txt"
    return [_prepare_data(name, recipes[name], out, *vocabulary, workers) for name in names]


def _prepare_text(name: str, source: Path | None, out: Path, workers: int) -> dict[str, Any]:
    """Tokenise the sentences of a task; returns the recipe of that step."""
    task = TASKS[name]
    if source is None:
        source = out / "download"
        for address, checksum in task.downloads.items():
            download(f"{URL}/{address}", source / Path(address).name, checksum)
    archive = source / Path(next(iter(task.downloads))).name
    if archive.suffix == ".zip" and archive.exists():
        source = archive
    files = [f"{name}/{file}" for file in task.files.values()]
    if name == "MRPC" and not any(Path(member).match(files[0]) for member, _ in members(source)):
        files = MSR_FILES

    def extract(folder: Path) -> None:
        unpack(source, files, folder)
        if files is MSR_FILES:
            split_mrpc(folder)

    origin = [source]
    if source.is_dir():
        origin = [path for path in sorted(source.rglob("*")) if any(map(path.match, files))]
    recipe = {"from": fingerprints(origin)}
    raw, tokenized = out / "raw" / name, out / "tokenized" / name
    build(raw, recipe, extract)
    build(tokenized, recipe, lambda folder: tokenize(task, raw, folder, workers))
    return recipe


def _prepare_data(
    name: str, recipe: dict[str, Any], out: Path, codes: Path, dictionary: Path, workers: int
) -> Path:
    """Encode and binarise the tokenised sentences of a task."""
    tokenized, bpe, result = out / "tokenized" / name, out / "bpe" / name, out / f"{name}-bin"

    def make(folder: Path) -> None:
        binarize(TASKS[name], tokenized, bpe, dictionary, folder, workers)
        shutil.copy(codes, folder / "code")

    recipe = {**recipe, "codes": sha256(codes)}
    build(bpe, recipe, lambda folder: encode(tokenized, codes, folder, workers))
    build(result, {**recipe, "dictionary": sha256(dictionary)}, make)
    return result


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
        _write_lines(folder / f"{split}.tsv", lines)
    (folder / MSR_TEST).rename(folder / "test.tsv")


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
    names = [names[0].lstrip("\ufeff"), *names[1:]]
    missing = [column for column in columns if column not in names]
    if missing:
        raise ValueError(
            f"{path} has no column {', '.join(missing)}; its columns are {', '.join(names)}"
        )
    positions = [names.index(column) for column in columns]
    fragments = 0
    for number, row in enumerate(lines, start=1 if header else 2):
        if ragged and len(row) != len(names):
            fragments += 1
            continue
        missing = [names[position] for position in positions if position >= len(row)]
        if missing:
            raise ValueError(
                f"{path}, line {number} has no column {', '.join(missing)}, "
                f"only the first {len(row)} of {len(names)}"
            )
        yield number, [row[position] for position in positions]
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


def tokenize(task: Task, raw: Path, folder: Path, workers: int) -> None:
    """Write each column of each split to a file: ``train.input0``, ``train.label``, ..."""
    for split, file in task.files.items():
        labelled = split in task.labelled
        rows = examples(raw / file, task, labelled)
        columns = (*task.inputs, "label") if labelled else task.inputs
        with ExitStack() as stack:
            files = [
                stack.enter_context(open(folder / f"{split}.{column}", "w", encoding="utf-8"))
                for column in columns
            ]
            for row in _map(_tokenizer, (len(task.inputs),), rows, workers, raw / file):
                for column, text in zip(files, row):
                    column.write(text + "\n")


def learn_vocabulary(texts: Sequence[Path], bpe_operations: int, folder: Path) -> None:
    """Learn a joint byte-pair encoding, ``code``, and its dictionary, ``dict.txt``."""
    logger.info(f"learning {bpe_operations:,} BPE operations")
    code = folder / "code"
    with open(code, "w", encoding="utf-8") as file:
        learn_bpe(chain.from_iterable(map(read_lines, texts)), file, bpe_operations)
    bpe = load_codes(code)
    words = Counter(word for text in texts for line in read_lines(text) for word in line.split())
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def load_codes(path: Path) -> BPE:
    """Byte-pair codes of subword-nmt.

    Raises:
        ValueError: the file has something else.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return BPE(file)
    except (SystemExit, ValueError) as error:  # subword-nmt exits if it cannot read a line
        raise ValueError(f"{path} has no byte-pair codes of subword-nmt") from error


def check_dictionary(path: Path) -> None:
    """Check that a file is a dictionary of fairseq.

    Raises:
        ValueError: it is something else.
    """
    try:
        Dictionary.load(str(path))
    except Exception as error:  # of several types, Exception itself among them
        raise ValueError(f"{path} is no dictionary of fairseq: {error}") from error


def encode(tokenized: Path, codes: Path, folder: Path, workers: int) -> None:
    """Byte-pair encode the files of sentences in *tokenized*."""
    for path in sorted(tokenized.glob("*.input?")):
        text = _map(_bpe_encoder, (codes,), read_lines(path), workers, path)
        _write_lines(folder / path.name, text)


def binarize(
    task: Task, tokenized: Path, bpe: Path, dictionary: Path, folder: Path, workers: int
) -> None:
    """Binarise the encoded sentences and the labels; scores stay text."""
    for column in task.inputs:
        _binarize_column(bpe, column, task.files, dictionary, folder / column, workers)
    labels = folder / "label"
    labels.mkdir()
    if task.labels:
        counts = Counter(read_lines(tokenized / "train.label"))
        _write_lines(labels / "dict.txt", (f"{label} {counts[label]}" for label in task.labels))
        _binarize_column(tokenized, "label", task.labelled, labels / "dict.txt", labels, workers)
    else:
        for split in task.labelled:
            shutil.copy(tokenized / f"{split}.label", labels)


def _binarize_column(
    texts: Path, column: str, splits: Iterable[str], dictionary: Path, folder: Path, workers: int
) -> None:
    files = {"train": [], "valid": [], "test": []}
    for split in splits:
        files[split.rstrip("1")].append(str(texts / f"{split}.{column}"))
    fairseq_preprocess(
        *["--only-source", "--srcdict", str(dictionary)],
        *(f"--{split}pref={','.join(paths)}" for split, paths in files.items() if paths),
        *["--destdir", str(folder), "--workers", str(workers)],
    )


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def _map(
    make_function: Callable, args: tuple, items: Iterable, workers: int, label: Path
) -> Iterable:
    results = map_in_processes(make_function, args, items, workers)
    return tqdm(results, desc=f"{label.parent.name}/{label.name}", unit=" lines", mininterval=1)


def _tokenizer(sentences: int) -> Callable[[list[str]], list[str]]:
    tokenize = tokenizer()
    return lambda row: [*map(tokenize, row[:sentences]), *row[sentences:]]


def tokenizer() -> Callable[[str], str]:
    """Normalises punctuation, lower-cases and tokenises, as the pretraining corpus has to be."""
    normalizer, moses = MosesPunctNormalizer("en"), MosesTokenizer("en")

    def tokenize(text: str) -> str:
        return " ".join(moses.tokenize(normalizer.normalize(text).lower(), escape=False))

    return tokenize


def _bpe_encoder(codes: Path) -> Callable[[str], str]:
    return load_codes(codes).segment


def main() -> None:
    """The command line; an error ends the program with a message of one line."""
    parser = make_parser(
        "glue",
        source="folder with the published files or the unpacked tasks, or an archive of them "
        "(default: download the files)",
        out="where to put the results, in DIR/TASK-bin (default: %(default)s)",
        description="Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
    )
    parser.set_defaults(out=Path("data", "glue"))
    parser.add_argument(
        "tasks", metavar="TASK", nargs="*", help=f"{', '.join(TASKS)} (default: all of them)"
    )
    parser.add_argument(
        "--bpe-codes",
        metavar="FILE",
        type=Path,
        help="byte-pair codes of the pretraining corpus (default: learn them on the tasks)",
    )
    parser.add_argument(
        "--dict", metavar="FILE", type=Path, help="fairseq's dictionary of the pretraining corpus"
    )
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        help=f"merges to learn without --bpe-codes (default: {BPE_OPERATIONS})",
    )
    args = parser.parse_args()
    tasks = chosen(parser, args.tasks, TASKS)
    check_source(parser, args.source, args.out / "raw")
    for option, path in (("--bpe-codes", args.bpe_codes), ("--dict", args.dict)):
        if path and not path.exists():
            parser.error(f"{option} {path}: no such file or folder")
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; give both or neither")
    if args.bpe_codes and args.bpe_operations:
        parser.error("--bpe-operations is for learning codes; leave it out with --bpe-codes")
    with reporting(parser.prog):
        results = prepare(
            tasks,
            args.source,
            args.out,
            (args.bpe_codes, args.dict) if args.bpe_codes else None,
            args.bpe_operations or BPE_OPERATIONS,
            args.workers,
        )
        logging.info(f"ready for fairseq-train: {', '.join(map(str, results))}")


if __name__ == "__main__":
    main()
