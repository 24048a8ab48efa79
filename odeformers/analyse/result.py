"""The result of an analysis, written as a page, tables and figures."""

import math
from collections.abc import Callable, Sequence
from inspect import getdoc
from pathlib import Path
from typing import Any

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import find_free_name, markdown_table, replacing_folder, write_csv
from odeformers.plots import save

PAGE = "index.md"

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def check_free(out: Path, command: str) -> None:
    """Check that a folder does not exist, or contains a result of the same command.

    Raises:
        InputError: something else is there, such as the result of another analysis.
    """
    page = out / PAGE
    same = page.is_file() and page.read_bytes().endswith(made_by(command).encode())
    if out.exists() and not same:
        raise InputError(
            f"--out {out} is in the way, and is not a result of this command; choose "
            f"another, such as {find_free_name(out)}"
        )


def made_by(command: str) -> str:
    """Return the end of a page, which names the command."""
    return f"\nMade by\n\n    {command}\n"


def write(out: Path, text: str, tables: Tables, plots: Sequence[Callable], command: str) -> None:
    """Write the page, a CSV file for each table that has rows, and the figures.

    Args:
        text: text of the page in Markdown, without the figures.
        tables: rows of JSON values, by the name of the table.
        plots: functions that draw a figure of the tables; the docstring of each is its caption.
        command: command line that makes the result; the same command may replace the result.
    """
    with replacing_folder(out) as folder:
        for name, rows in tables.items():
            if rows:
                rounded = [{key: plain(value) for key, value in row.items()} for row in rows]
                write_csv(folder / f"{name}.csv", rounded)
        for plot in plots:
            save(plot, tables, folder / f"{plot.__name__}.png")
            text += f"\n![{plot.__name__}]({plot.__name__}.png)\n\n{getdoc(plot)}\n"
        (folder / PAGE).write_text(text + made_by(command), encoding="utf-8")


def file_name(model: str) -> str:
    """Return the name of a model in the form that a file name may contain."""
    return model.replace("/", "-")


def plain(value):
    """Round a number to six digits, or return None if it is not finite; keep other values."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def markdown(rows: Sequence[Row]) -> str:
    """Format a table in Markdown, without empty columns."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    return markdown_table([list(names), *([cell(row.get(name)) for name in names] for row in rows)])


def cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value).replace("|", "\\|")
