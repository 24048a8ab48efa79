"""Restores files that a report reads and somebody has removed, from what their runs have left."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from .outcome import TRAIN_LOG
from .results.rows import RESULTS, RUN, Row, collect_rows, find_runs, read_rows
from .run import read_run


def restore_files(out: Path, order: Iterable[str] = ()) -> None:
    """Make the missing rows, learning curves and predictions of a comparison again.

    The rows of a run whose folder has been removed are dropped.

    Args:
        order: see :func:`.collect_rows`; if given, the rows of all runs are collected again.

    Raises:
        ValueError: the folder belongs to a single run.
        FileNotFoundError: the sources of a file are missing too; the message names the remedy.
    """
    if (out / RUN).exists():
        raise ValueError(f"{out}: a run; give the folder of its comparison, {out.resolve().parent}")
    if find_runs(out) and (order or not (out / RESULTS).is_file() or has_lost_runs(out)):
        collect_rows(out, order)
    rows = read_rows(out) if (out / RESULTS).is_file() else []
    for folder in {out / row.run: None for row, _ in find_missing(out, rows)}:
        if (folder / RUN).exists():
            states = [row.state for row in rows if row.run == folder.name]
            read_run(folder).make_rows(states[0])
    for row, path in find_missing(out, rows):
        if not (out / row.run / RUN).exists():
            remedy = "copy the folders of the runs as well"
        elif path.name == Path(row.curve).name:
            remedy = f"and {TRAIN_LOG} is; delete {path.parent}, and repeat the command"
            remedy += " odeformers compare, which trains the run again"
        else:
            remedy = "and what it is made from; repeat the command odeformers compare, which makes"
            remedy += " both"
        raise FileNotFoundError(f"{path} is missing, {remedy}")


def has_lost_runs(out: Path) -> bool:
    """Return whether there are rows of a run whose folder has been removed."""
    return not all((out / row.run).is_dir() for row in read_rows(out))


def find_missing(out: Path, rows: list[Row]) -> Iterator[tuple[Row, Path]]:
    """Yield the files that rows name but that do not exist."""
    for row in rows:
        for name in filter(None, (row.curve, row.predictions)):
            if not (out / name).exists():
                yield row, out / name
