"""Files that appear complete or not at all, steps that make them, and lines of text."""

import csv
import glob
import hashlib
import json
import logging
import os
import shutil
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


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that, once it is filled, takes the place of *folder*.

    Its name includes the process id, because children of a killed process may still be writing.
    """
    temporary = folder.with_name(f"{folder.name}.{os.getpid()}.tmp")
    replaced = folder.with_name(f"{folder.name}.old")
    for left in folder.parent.glob(f"{glob.escape(folder.name)}.*.tmp"):
        if left.name[len(folder.name) + 1 : -len(".tmp")].isdigit():
            shutil.rmtree(left, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        shutil.rmtree(replaced, ignore_errors=True)
        if folder.exists():
            folder.rename(replaced)
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    shutil.rmtree(replaced, ignore_errors=True)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path that, once something is written there, takes the place of *path*."""
    temporary = path.with_name(path.name + ".tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without "\n"; nothing else ends a line.

    Raises:
        ValueError: a line is not UTF-8.
    """
    with open(path, "rb") as file:
        yield from decode_lines(file, path)


def decode_lines(lines: Iterable[bytes], name: str | Path) -> Iterator[str]:
    r"""The same for the lines of a file called *name* that is open, or in an archive."""
    for number, line in enumerate(lines, start=1):
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
