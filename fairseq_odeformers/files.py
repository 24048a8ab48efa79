"""Files: they appear complete or not at all, and lines are read the same way."""

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

MADE_FROM = "recipe.json"  # the inputs that a folder was made from; older data use this name
LONGEST_LINE = 1 << 26  # bytes; a device such as /dev/zero has no end
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # errors that name no file
MARK = "\ufeff"  # byte order mark
# Byte order marks of other encodings. UTF-32 comes first: its mark begins with UTF-16's.
ENCODINGS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
BROKEN = "is damaged, cut off, or in another format"
COMPRESSED = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # keys: file name extensions
# The first bytes of compressed files, and the extension that these should have.
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
    """Check a file, or a folder with files, and name it in errors of the block that reads it.

    Raises:
        InputError: as in :func:`check_regular` and :class:`.naming_faults`.
    """
    check_regular(path)
    return naming_faults(path, fault)


def check_regular(path: str | Path) -> None:
    """Check a file, or a folder and the folders in it, before it is read.

    Raises:
        InputError: one of them is a pipe or a device, which may never end, or a broken link.
    """
    path = Path(path)
    for part in (path, *path.glob("*"), *path.glob("*/*")):
        if os.path.lexists(part) and not (part.is_file() or part.is_dir()):
            raise InputError(f"{part} is a pipe, a device or a broken link; give a file")


def check_path(path: str | Path, name: str = "", separators: str = os.pathsep) -> None:
    """Check a path that fairseq may mistake for several paths joined by a colon, or for an option.

    Args:
        name: the option that gives the path.
        separators: characters that the path must not contain; ``fairseq-preprocess`` also divides
            at commas.

    Raises:
        InputError: the path contains a separator, or begins with a hyphen.
    """
    present = [separator for separator in separators if separator in str(path)]
    if present or str(path).startswith("-"):
        fault = f"divide it at {present[0]!r}" if present else "take it for an option"
        raise InputError(f"{f'{name} {path}'.strip()}: fairseq would {fault}; choose another name")


def find_free_name(path: Path) -> Path:
    """A path next to *path* that does not exist yet: its name with a number, from 2 on."""
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
    """Check that a folder has binarised data, not a preparation with the data in a folder below.

    Raises:
        InputError: the folder is a preparation; the message names the folder to give.
    """
    inner = Path(folder) / "data-bin"
    binarised = any(Path(folder).glob("dict*.txt")) or Path(folder, "input0").exists()
    if inner.is_dir() and not binarised:
        raise InputError(f"{folder}: give the binarised data in it, {inner}")


def build(folder: Path, inputs: dict[str, Any], make: Callable[[Path], None]) -> None:
    """Fill *folder* with ``make(temporary_folder)``, unless that has been done already.

    Args:
        folder: folder of the result; it appears complete or not at all.
        inputs: everything that determines the result, as JSON values. The folder keeps them in
            ``recipe.json``. A folder that was made from other inputs is made again.
        make: function that writes the result into an empty folder.

    Raises:
        InputError: *folder* was not made by this function, or its ``recipe.json`` is damaged; the
            folder stays unchanged.
    """
    inputs = json.loads(json.dumps(inputs))
    recipe = folder / MADE_FROM
    if recipe.exists():
        with reading(recipe, f"is damaged; remove {folder}"):
            same = json.loads(recipe.read_bytes()) == inputs
        if same:
            logger.info(f"{folder} is up to date")
            return
    elif folder.exists():
        raise InputError(
            f"{folder} is in the way; move it, or choose another folder for the result"
        )
    with replacing_folder(folder) as temporary:
        make(temporary)
        (temporary / MADE_FROM).write_text(json.dumps(inputs, indent=2) + "\n", encoding="utf-8")


TEMPORARY = ".odeformers-tmp"  # an extension that nobody else uses


def _new_name(path: Path) -> Path:
    """A random name next to *path*: children of a killed process may still use an earlier one."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}{TEMPORARY}")


def _remove_left(path: Path) -> None:
    """Remove the temporary files and folders that killed processes have left."""
    for left in path.parent.glob(f"{glob.escape(path.name)}.{'[0-9a-f]' * 8}{TEMPORARY}"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


@contextmanager
def naming_full_disk(path: Path) -> Iterator[None]:
    """Name what is written in the error that there is no space for it; the system names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_SPACE:
            raise InputError(f"{path} cannot be written ({error})") from error
        raise


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder that replaces *folder* when the block ends.

    A link stays a link; the folder that it points to is replaced.

    Raises:
        InputError: a file in the folder cannot be written, because there is no space for it.
    """
    folder = Path(os.path.realpath(folder))
    _remove_left(folder)
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
    _remove_left(folder)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file that replaces *path* when the block ends.

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
        _remove_left(target)
        temporary = _new_name(target)
        temporary.touch(exist_ok=False)  # fails if the name exists, even as a link
        try:
            yield temporary
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


def decompress(name: str, stream: IO[bytes]) -> IO[bytes]:
    """The decompressed content of a file that is called *name* and open as *stream*."""
    return COMPRESSED.get(Path(name).suffix, lambda file: file)(stream)


def read_lines(path: Path) -> Iterator[str]:
    r"""The lines of a UTF-8 file, without "\n"; nothing else ends a line.

    Files with the extension ``.gz``, ``.bz2`` or ``.xz`` are decompressed. Byte order marks are
    dropped, even within the file, since files may have been joined.

    Raises:
        InputError: a line is not UTF-8, or has no end; or lines end with carriage returns only.
    """
    with naming_faults(path, BROKEN), open(path, "rb") as file:
        yield from decode_lines(decompress(path.name, file), path)


def decode_lines(file: IO[bytes], name: str | Path) -> Iterator[str]:
    r"""As :func:`read_lines`, for a file called *name* that is open, perhaps in an archive."""
    start = b""
    for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), start=1):
        start, place = start or line, f"{name}, line {number}"
        if len(line) == LONGEST_LINE:
            raise InputError(f"{place}: longer than {LONGEST_LINE:,} bytes")
        try:
            text = line.decode("utf-8")
            fault = "it has zeros" if has_zeros(line) else ""
        except UnicodeDecodeError as error:
            text, fault = "", error.reason
        if fault:
            for magic in filter(start.startswith, COMPRESSIONS):
                ending = COMPRESSIONS[magic]
                named = ending in COMPRESSED and os.path.exists(name)  # not standard input
                renamed = f", or name it *{ending}" if named else ""
                raise InputError(f"{name} is compressed ({ending}); decompress it{renamed}")
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
    """Whether as many bytes are 0 as in UTF-16; such bytes may also be valid UTF-8."""
    return 3 * line.count(b"\0") > len(line)


def guess_encoding(line: bytes) -> str:
    """The likely encoding of the first line that is not UTF-8.

    ``windows-1252`` is latin1 with the euro sign and curly quotes, which later lines may contain,
    in place of control characters.
    """
    for mark, encoding in ENCODINGS.items():
        if line.startswith(mark):
            return encoding
    return "utf-16le" if has_zeros(line) else "windows-1252"


def is_blank(text: str) -> bool:
    """Whether a text only has spaces and invisible characters, such as a zero-width space."""
    return all(one.isspace() or unicodedata.category(one) in ("Cc", "Cf") for one in text)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table with the keys of its first row as header; if interrupted, write nothing."""
    with replacing(path) as temporary:
        with open(temporary, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown; the first row is its header."""
    header, *others = rows
    lines = [header, ["---"] * len(header), *others]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def fingerprints(paths: Iterable[Path]) -> list[tuple[str, str]]:
    """The name and SHA-256 of each file or folder, as inputs of :func:`build`."""
    return [(path.name, sha256(path)) for path in paths]


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file, or of the names and SHA-256 of all files below a folder."""
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
    """:func:`sha256` of a folder; its files are read again only if one has changed since.

    Forks of the process know it, too.
    """
    files = sorted(filter(Path.is_file, folder.rglob("*")))
    stats = [(str(file), file.stat()) for file in files]
    return _sha256_of(folder, tuple((n, s.st_ino, s.st_size, s.st_mtime_ns) for n, s in stats))


@cache
def _sha256_of(folder: Path, state: tuple) -> str:
    return sha256(folder)
