"""Files that appear complete or not at all, steps that make them, and lines of text."""

import csv
import glob
import hashlib
import json
import logging
import os
import secrets
import shutil
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

RECIPE = "recipe.json"


def build(folder: Path, recipe: dict[str, Any], make: Callable[[Path], None]) -> None:
    """Fill *folder* with ``make(temporary_folder)``, unless that is done already.

    Args:
        folder: where the result stands; it appears complete or not at all.
        recipe: all that determines the result, as JSON values. It is kept in the folder as
            ``recipe.json``. A folder with another recipe is made anew.
        make: writes the result into the empty folder that it is given.

    Raises:
        ValueError: *folder* was not made by this function, or its recipe is damaged; it is left
            alone.
    """
    recipe = json.loads(json.dumps(recipe))
    kept = folder / RECIPE
    if kept.exists() and _read_recipe(kept) == recipe:
        logger.info(f"{folder} is up to date")
        return
    if folder.exists() and not kept.exists():
        raise ValueError(
            f"{folder} is in the way; move it, or choose another folder for the result"
        )
    with replacing_folder(folder) as temporary:
        make(temporary)
        (temporary / RECIPE).write_text(json.dumps(recipe, indent=2) + "\n")


def _read_recipe(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); remove {path.parent}") from error


TEMPORARY = ".odeformers-tmp"  # the end of names that nobody else gives


def _new_name(path: Path) -> Path:
    """A name beside *path*, at random: children of a killed process may still use the last one."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def _remove_left(path: Path) -> None:
    """Remove what killed processes have left under such names."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 8}{TEMPORARY}"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that, once it is filled, takes the place of *folder*.

    A link stays a link, and the folder that it leads to is replaced.
    """
    folder = Path(os.path.realpath(folder))
    _remove_left(folder)
    temporary = _new_name(folder)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if folder.exists():
            folder.rename(_new_name(folder))
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_left(folder)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that, once it is written, takes the place of *path*.

    A link stays a link, and the file that it leads to is replaced. What is no regular file, such as
    a device or a FIFO, is written to directly.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = Path(os.path.realpath(path))
    _remove_left(path)
    temporary = _new_name(path)
    temporary.touch(exist_ok=False)  # fails where anything has the name, a link included
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without "\n"; nothing else ends a line.

    A byte order mark at the start of the file is left out.

    Raises:
        ValueError: a line is not UTF-8.
    """
    with open(path, "rb") as file:
        yield from decode_lines(file, path)


def decode_lines(lines: Iterable[bytes], name: str | Path) -> Iterator[str]:
    r"""The same for the lines of a file called *name* that is open, or in an archive."""
    for number, line in enumerate(lines, start=1):
        line = line.removeprefix(BOM_UTF8) if number == 1 else line
        try:
            yield line.decode("utf-8").rstrip("\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number}: not UTF-8 ({error.reason})") from error


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table, with the keys of its first row as header, or nothing if it is interrupted."""
    with replacing(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, whose header is the first row."""
    header, *others = rows
    lines = [header, ["---"] * len(header), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fingerprints(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Name and SHA-256 of each file or folder, for a recipe."""
    return [(path.name, sha256(path)) for path in paths]


def sha256(path: Path) -> str:
    """SHA-256 of a file, or of names and SHA-256 of all files below a folder, in hexadecimal."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(filter(Path.is_file, path.rglob("*"))):
            digest.update(f"{file.relative_to(path).as_posix()} {sha256(file)}\n".encode())
    else:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()
