"""Reading and writing files: checked before they are read, and complete once they appear."""

import bz2
import codecs
import csv
import errno
import glob
import gzip
import hashlib
import json
import logging
import lzma
import os
import secrets
import shutil
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import combinations, count
from pathlib import Path
from typing import IO, Any

from fairseq_odeformers.errors import InputError, naming_faults

logger = logging.getLogger(__name__)

MADE_FROM = "recipe.json"  # lists the inputs that a folder was made from
MAX_LINE_BYTES = 1 << 26  # bytes; the limit stops reading from a device such as /dev/zero
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the system's errors for these name no file
MARK = "\ufeff"  # byte order mark
# Byte order marks of other encodings. UTF-32 comes first because its mark begins with UTF-16's.
ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
FILE_FAULT = "is damaged, truncated, or in a different format"
COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # keys: file name extensions
# The first bytes of compressed files, with the extension that the files should have.
COMPRESSIONS = {
    b"\x1f\x8b": ".gz",
    b"\xfd7zXZ": ".xz",
    b"BZh": ".bz2",
    b"PK\x03\x04": ".zip",
    b"\x28\xb5\x2f\xfd": ".zst",
}
# Extensions of formats other than text, with the name of the format and the remedy.
FORMATS = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "a spreadsheet; save it as text, a table as .csv"),
    **dict.fromkeys(
        (".parquet", ".feather", ".arrow"),
        "a table in columns; save it as .jsonl: pandas.read_parquet(PATH).to_json('table.jsonl', "
        "orient='records', lines=True)",
    ),
    ".json": "JSON; save it with one object per line, as .jsonl: pandas.read_json(PATH).to_json("
    "'table.jsonl', orient='records', lines=True)",
}


def reading(path: str | Path, fault: str = "cannot be read") -> naming_faults:
    """Check a file or folder, and return a context manager that names it in errors of its block.

    Raises:
        InputError: as in :func:`check_regular` and :class:`.naming_faults`.
    """
    check_regular(path)
    return naming_faults(path, fault)


def check_regular(path: str | Path) -> None:
    """Check a file, or a folder and the folders in it, before it is read.

    Raises:
        InputError: one of them is a broken link, or a pipe or device, since these may never end.
    """
    path = Path(path)
    for part in (path, *path.glob("*"), *path.glob("*/*")):
        if os.path.lexists(part) and not (part.is_file() or part.is_dir()):
            raise InputError(f"{part} is a pipe, a device or a broken link; pass a file")


def check_path(path: str | Path, name: str = "", separators: str = os.pathsep) -> None:
    """Check a path that fairseq may mistake for several paths joined by a colon, or for an option.

    Args:
        name: the option with the path, for the message.
        separators: characters that the path must not contain; ``fairseq-preprocess`` also divides
            at commas.

    Raises:
        InputError: the path contains a separator, or begins with a hyphen.
    """
    present = [separator for separator in separators if separator in str(path)]
    if present or str(path).startswith("-"):
        fault = f"divide it at {present[0]!r}" if present else "take it for an option"
        raise InputError(
            f"{f'{name} {path}'.strip()}: fairseq would {fault}; choose a different name"
        )


def find_free_name(path: Path) -> Path:
    """Return the first of ``PATH-2``, ``PATH-3``, ... that does not exist."""
    path = path.resolve() if path.name in ("", "..") else path
    names = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(name for name in names if not os.path.lexists(name))


def check_joined(paths: str) -> None:
    """Check paths joined by colons, as fairseq accepts them, for names that contain a colon.

    Raises:
        InputError: a file or folder with such a name exists.
    """
    parts = paths.split(os.pathsep)
    for start, end in combinations(range(len(parts) + 1), 2):
        path = Path(os.pathsep.join(parts[start:end]))
        for existing in filter(os.path.exists, (path, *path.parents)):
            check_path(existing)


def check_binarised(folder: str | Path) -> None:
    """Check that a folder has binarised data and not merely a ``data-bin`` folder with the data.

    Raises:
        InputError: the data are in ``data-bin``; the message names that folder.
    """
    inner = Path(folder) / "data-bin"
    binarised = any(Path(folder).glob("dict*.txt")) or Path(folder, "input0").exists()
    if inner.is_dir() and not binarised:
        raise InputError(f"{folder}: pass the binarised data in it, {inner}")


def build(folder: Path, inputs: dict[str, Any], make: Callable[[Path], None]) -> None:
    """Fill *folder* with ``make(temporary_folder)``, unless it is up to date.

    Args:
        folder: folder of the result; it appears complete or not at all.
        inputs: everything that determines the result, as JSON values, saved as ``recipe.json`` in
            the folder. A folder that was made from different inputs is replaced.
        make: function that writes the result into an empty folder.

    Raises:
        InputError: *folder* was not made by this function, or its ``recipe.json`` is damaged; the
            folder stays unchanged.
    """
    inputs = json.loads(json.dumps(inputs))
    recipe = folder / MADE_FROM
    if recipe.exists():
        with reading(recipe, f"is damaged; remove {folder}"):
            up_to_date = json.loads(recipe.read_bytes()) == inputs
        if up_to_date:
            logger.info(f"{folder} is up to date")
            return
    elif folder.exists():
        raise InputError(
            f"{folder} is in the way; move it, or choose another folder for the result"
        )
    with replacing_folder(folder) as temporary:
        make(temporary)
        (temporary / MADE_FROM).write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")


TEMPORARY = ".odeformers-tmp"  # extension of temporary files and folders


def _new_name(path: Path) -> Path:
    """Return a random path next to *path*; children of a killed process may use an earlier one."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def _remove_leftovers(path: Path) -> None:
    """Remove the temporary files and folders that killed processes left next to *path*."""
    for leftover in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 8}{TEMPORARY}"):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Name *path* in errors for a full disk, since the system's errors do not name the file."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise InputError(f"{path} cannot be written ({error})") from error
        raise


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces *folder* when the block ends.

    A link stays a link; the folder that it points to is replaced.

    Raises:
        InputError: the disk is full.
    """
    folder = Path(os.path.realpath(folder))
    _remove_leftovers(folder)
    temporary = _new_name(folder)
    temporary.mkdir(parents=True)
    try:
        with naming_full_disk(folder):
            yield temporary
        if folder.exists():
            folder.rename(_new_name(folder))
        temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _remove_leftovers(folder)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file that replaces *path* when the block ends.

    A link stays a link; the file that it points to is replaced. If *path* is not a regular file but
    a device or a FIFO, the block writes to it directly.

    Raises:
        InputError: the file cannot be written, for example because the disk is full.
    """
    with naming_faults(path, "cannot be written"):
        if path.exists() and not path.is_file():
            yield path
            return
        target = Path(os.path.realpath(path))
        _remove_leftovers(target)
        temporary = _new_name(target)
        temporary.touch(exist_ok=False)  # fails if the name exists, even as a link
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def decompress(name: str, stream: IO[bytes]) -> IO[bytes]:
    """Decompress an open file if the extension of its *name* is ``.gz``, ``.bz2`` or ``.xz``."""
    return COMPRESSED.get(Path(name).suffix, lambda file: file)(stream)


def read_lines(path: Path) -> Iterator[str]:
    r"""Yield the lines of a UTF-8 file, separated only by "\n" and without it.

    Files with the extension ``.gz``, ``.bz2`` or ``.xz`` are decompressed. Byte order marks are
    dropped, even within the file, since files may have been joined.

    Raises:
        InputError: a line is not UTF-8 or is too long, or lines end with carriage returns only.
    """
    with naming_faults(path, FILE_FAULT), open(path, "rb") as file:
        yield from decode_lines(decompress(path.name, file), path)


def decode_lines(file: IO[bytes], name: str | Path) -> Iterator[str]:
    r"""Yield lines as :func:`read_lines` does, from an open file; errors call it *name*."""
    start = b""
    for number, line in enumerate(iter(partial(file.readline, MAX_LINE_BYTES), b""), start=1):
        start, place = start or line, f"{name}, line {number}"
        if len(line) == MAX_LINE_BYTES:
            raise InputError(f"{place}: longer than {MAX_LINE_BYTES:,} bytes; split the line")
        try:
            text = line.decode("utf-8")
            fault = "it has zeros" if has_zeros(line) else ""
        except UnicodeDecodeError as error:
            text, fault = "", error.reason
        if fault:
            for magic in filter(start.startswith, COMPRESSIONS):
                ending = COMPRESSIONS[magic]
                readable = ending in COMPRESSED and os.path.exists(name)  # not standard input
                rename = f", or name it *{ending}" if readable else ""
                raise InputError(f"{name} is compressed ({ending}); decompress it{rename}")
            raise InputError(
                f"{place}: not UTF-8 ({fault}); convert the file, for example with iconv -f "
                f"{guess_encoding(line)} -t utf-8"
            )
        if number == 1 and "\r" in text[:-1] and not text.endswith("\n"):
            raise InputError(
                f"{name}: lines end with carriage returns; convert the file, for example with tr "
                "'\\r' '\\n'"
            )
        yield text.rstrip("\n").replace(MARK, "")


def has_zeros(line: bytes) -> bool:
    """Return whether more than a third of the bytes are 0, as in UTF-16; UTF-8 allows them too."""
    return 3 * line.count(b"\0") > len(line)


def guess_encoding(line: bytes) -> str:
    """Guess the encoding of a line that is not UTF-8.

    ``windows-1252`` is preferred to latin1, since later lines may contain the euro sign or curly
    quotes, for which latin1 has control characters.
    """
    for mark, encoding in ENCODINGS.items():
        if line.startswith(mark):
            return encoding
    return "utf-16le" if has_zeros(line) else "windows-1252"


def is_blank(text: str) -> bool:
    """Return whether a text has only spaces and invisible characters, such as zero-width spaces."""
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table with the keys of its first row as header, completely or not at all."""
    with replacing(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of cells as a Markdown table; the first row is the header."""
    header, *others = rows
    lines = [header, ["---"] * len(header), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fingerprints(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """Return the name and SHA-256 of each file or folder, as inputs of :func:`build`."""
    return [(path.name, sha256(path)) for path in paths]


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, or of names and SHA-256 of all files in a folder, in hex."""
    digest = hashlib.sha256()
    if path.is_dir():
        for file in sorted(filter(Path.is_file, path.rglob("*"))):
            digest.update(f"{file.relative_to(path).as_posix()} {sha256(file)}\n".encode())
    else:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def sha256_once(folder: Path) -> str:
    """Return :func:`sha256` of a folder; read its files again only if one of them has changed.

    Processes that are forked later share the result.
    """
    files = sorted(filter(Path.is_file, folder.rglob("*")))
    stats = [(str(file), file.stat()) for file in files]
    return _sha256_of(folder, tuple((n, s.st_ino, s.st_size, s.st_mtime_ns) for n, s in stats))


@cache
def _sha256_of(folder: Path, state: tuple) -> str:
    return sha256(folder)
