"""The tables that GLUE is published as: tab-separated values without quoting."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_odeformers.corpora.glue_tasks import MSR_DEV_IDS, MSR_TEST, MSR_TRAIN, TASKS, Task
from fairseq_odeformers.files import read_lines, write_lines

logger = logging.getLogger(__name__)

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
