"""GLUE (Wang et al., 2019): the eight tasks that pretrained models are fine-tuned on.

The published files are tables of tab-separated values without quoting. Their sentences become text
like the pretraining corpus: punctuation is normalised, text is lower-cased and tokenised as
Moses does, and byte-pair encoded, by default with codes learnt on the training sentences. The
result of a task, for instance ``RTE-bin``, has in ``input0``, ``input1`` (for pairs) and ``label``
what ``fairseq-train --task sentence_prediction`` loads. Test sets have no labels and keep their
order. MNLI's mismatched sets are ``valid1`` and ``test1``. STS-B's scores are divided by 5.
"""

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary
from sacremoses import MosesPunctNormalizer

from fairseq_odeformers.corpora.archives import extract, fetch, members
from fairseq_odeformers.corpora.cli import (
    check_overlap,
    choose_tasks,
    existing_path,
    make_parser,
    preparing,
)
from fairseq_odeformers.corpora.glue_tables import examples, split_mrpc
from fairseq_odeformers.corpora.glue_tasks import MSR_FILES, TASKS, URL, Task
from fairseq_odeformers.corpora.text import (
    Row,
    bpe_encoder,
    fairseq_preprocess,
    learn_codes,
    load_codes,
    map_rows,
    moses_tokenizer,
    write_rows,
)
from fairseq_odeformers.files import build, fingerprints, read_lines, sha256, write_lines
from fairseq_odeformers.options import positive_int

BPE_OPERATIONS = 32_000


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
        Dictionary.load(str(vocabulary[1]))
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
    raw, tokenized = out / "raw" / name, out / "tokenized" / name
    if source is None:
        downloads = {f"{URL}/{address}": checksum for address, checksum in task.downloads.items()}
        source = fetch(downloads, out / "download")
    files = [f"{name}/{file}" for file in task.files.values()]
    finish = None
    if name == "MRPC" and not any(members(source, files)):
        files, finish = MSR_FILES, split_mrpc
    extract(source, {next(iter(task.downloads)): files}, raw, finish)
    recipe = {"raw": fingerprints(raw / file for file in task.files.values())}
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
    build(bpe, recipe, lambda folder: encode(TASKS[name], tokenized, codes, folder, workers))
    build(result, {**recipe, "dictionary": sha256(dictionary)}, make)
    return result


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
    code = folder / "code"
    learn_codes(chain.from_iterable(map(read_lines, texts)), bpe_operations, code)
    bpe = load_codes(code)
    words = Counter(word for text in texts for line in read_lines(text) for word in line.split())
    dictionary = Dictionary()
    for word, count in words.items():
        for symbol in bpe.segment(word).split():
            dictionary.add_symbol(symbol, n=count)
    dictionary.finalize(padding_factor=8)
    dictionary.save(str(folder / "dict.txt"))


def encode(task: Task, tokenized: Path, codes: Path, folder: Path, workers: int) -> None:
    """Byte-pair encode the sentences in *tokenized*."""
    for split in task.files:
        texts = (read_lines(tokenized / f"{split}.{column}") for column in task.inputs)
        label = f"{tokenized.name}/{split}"
        rows = map_rows(bpe_encoder, (codes,), zip(*texts), workers, label)
        write_rows(zip(repeat(split), rows), folder, task.inputs)


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
        write_lines(labels / "dict.txt", (f"{label} {counts[label]}" for label in task.labels))
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


def main(arguments: Sequence[str]) -> None:
    parser = make_parser(
        "glue",
        "Prepare GLUE tasks for fairseq-train --task sentence_prediction.",
        out="data/glue",
        result="TASK-bin",
        source="folder with the published files or the unpacked tasks, or an archive of them "
        "(default: download the files)",
    )
    parser.add_argument(
        "tasks", metavar="TASK", nargs="*", help=f"{', '.join(TASKS)} (default: all of them)"
    )
    parser.add_argument(
        "--bpe-codes",
        metavar="FILE",
        type=existing_path,
        help="byte-pair codes of the pretraining corpus (default: learn them on the tasks)",
    )
    parser.add_argument(
        "--dict",
        metavar="FILE",
        type=existing_path,
        help="fairseq's dictionary of the pretraining corpus",
    )
    parser.add_argument(
        "--bpe-operations",
        metavar="N",
        type=positive_int,
        help=f"merges to learn without --bpe-codes (default: {BPE_OPERATIONS})",
    )
    args = parser.parse_args(arguments)
    tasks = choose_tasks(parser, args.tasks, TASKS)
    check_overlap(parser, args.source, args.out / "raw")
    if bool(args.bpe_codes) != bool(args.dict):
        parser.error("--bpe-codes and --dict belong together; give both or neither")
    if args.bpe_codes and args.bpe_operations:
        parser.error("--bpe-operations is for learning codes; leave it out with --bpe-codes")
    with preparing(args.out):
        results = prepare(
            tasks,
            args.source,
            args.out,
            (args.bpe_codes, args.dict) if args.bpe_codes else None,
            args.bpe_operations or BPE_OPERATIONS,
            args.workers,
        )
        logging.info(f"ready for fairseq-train: {', '.join(map(str, results))}")
