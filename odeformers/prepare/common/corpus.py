"""A corpus and its files, which are downloaded or found in a folder or an archive."""

import hashlib
import logging
import re
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm import tqdm

from fairseq_odeformers.errors import InputError, naming_faults
from fairseq_odeformers.files import (
    COMPRESSED,
    FILE_FAULT,
    decompress,
    fingerprints,
    naming_full_disk,
    read_lines,
    sha256,
)

from .command import show_progress, step

logger = logging.getLogger(__name__)

USER_AGENT = "fairseq-odeformers"  # some servers reject urllib's own name

Writer = TypeVar("Writer")
Files = Mapping[str, Path]  # paths of files, by their names in the corpus
Opener = Callable[[], IO[bytes]]


ARCHIVES = (".tar", ".tgz", ".tbz2", ".txz", ".zip")


class Download(NamedTuple):
    """An archive or a file at a URL.

    Attributes:
        url: URL of a tar or zip archive, or of a single file; "" for the user's own files.
        files: names of the files to use, or patterns of names as for ``Path.match``, or several of
            these separated by ``|``. A name includes as many folders as its pattern, such as
            ``train/pos/*.txt``, but no extension of a compressed file.
        sha256: SHA-256 of the archive or file, if known.
    """

    url: str
    files: Sequence[str]
    sha256: str = ""


@dataclass(frozen=True)
class Corpus(Generic[Writer]):
    """A corpus, either published or the user's own.

    Attributes:
        downloads: the published archives or files.
        read: function that reads the examples of each split from the files, in the form that the
            writer expects: pairs of sentences, inputs with their class, or lines.
        writer: object that writes these examples in the form that fairseq reads.
        optional: names or patterns of files that ``--from`` may lack.
    """

    downloads: Sequence[Download]
    read: Callable[[Files], Mapping[str, Iterable[Any]]]
    writer: Writer
    optional: Sequence[str] = ()

    @property
    def patterns(self) -> list[str]:
        """The names and patterns of all files."""
        return [pattern for one in self.downloads for pattern in one.files]

    def files(self, given: Path | None, out: Path, folder: str = "raw") -> Files:
        """Return the files, sorted by their patterns and then by the numbers in their names.

        The files are found in *given*, the path of ``--from``, or else downloaded to *out*. Files
        in archives are copied to the folder *folder* in *out*.

        Raises:
            InputError: a file is missing or exists twice, or an archive is damaged.
        """
        if given is None:
            given = out / "download"
            for url, _, checksum in self.downloads:
                download(url, given / Path(url).name, checksum)
        places = self.places(given)
        archives = {place: places.pop(place) for place in [*places] if place.is_file()}
        if archives:
            copy, inputs = partial(self.extract, archives), {"from": fingerprints(archives)}
            step("copying the corpus", out / folder, inputs, copy)
            places[out / folder] = sum(archives.values(), [])
        files = {
            name: place / path
            for place, patterns in places.items()
            for path, name, _ in self.find(place, patterns)
        }
        return {name: files[name] for name in sorted(files, key=self.order)}

    def order(self, name: str) -> tuple[bool | int | list, ...]:
        """Return the sort key of a file, which puts ``2.txt`` before ``10.txt``."""
        parts = re.split("([0-9]+)", name)  # every second part is a number
        numbers = [int(part) if index % 2 else part for index, part in enumerate(parts)]
        return *(not fits(name, pattern) for pattern in self.patterns), numbers

    def places(self, source: Path) -> dict[Path, list[str]]:
        """Return the names of the files in *source*, or in each archive in the folder *source*."""
        places: dict[Path, list[str]] = {}
        for url, names, _ in self.downloads:
            archive = source / Path(url).name
            # A URL may point to one of the files instead of an archive.
            is_archive = archive.is_file() and strip_compression(archive.name) not in names
            places.setdefault(archive if is_archive else source, []).extend(names)
        return places

    def extract(self, archives: Mapping[Path, Sequence[str]], folder: Path) -> None:
        """Copy files from archives to *folder*, whatever paths the archives contain."""
        for archive, patterns in archives.items():
            for path, name, open_file in self.find(archive, patterns):
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with naming_faults(f"{strip_compression(path)} in {archive}", FILE_FAULT):
                    with open_file() as stream, open(target, "wb") as file:
                        shutil.copyfileobj(decompress(path, stream), file)

    def find(self, place: Path, patterns: Sequence[str]) -> Iterator[tuple[str, str, Opener]]:
        """Yield the path, name and opener of each of the files in a folder or an archive.

        Raises:
            InputError: two files have the same name, or a file that is not optional is missing.
        """
        names: set[str] = set()
        wanted = [pattern for pattern in patterns if pattern not in self.optional]
        fault = f"is damaged, or not a tar or zip archive; pass the folder with {in_words(wanted)}"
        with naming_faults(place, fault):
            if place.is_file() and not contains_archive(place):
                raise InputError(f"{place} {fault}")
            for path, open_file in show_progress(list_files(place), place.name, " files"):
                if name := match(path, patterns):
                    if name in names:
                        raise InputError(f"{place} has more than one {name}; keep one")
                    names.add(name)
                    yield path, name, open_file
        if absent := sorted(p for p in wanted if not any(fits(name, p) for name in names)):
            raise InputError(
                f"{place} has no {in_words(absent)}; pass a folder or archive with all files"
            )

    def one_text(self, source: Path | None, *endings: str) -> Path | None:
        """Return the path of ``--from`` if its extension shows that it is a single text to divide.

        Raises:
            InputError: the text has the name of a file of this corpus, such as the training set.
        """
        if source is None or not source.is_file() or ending_of(source) not in endings:
            return None
        if match(source.name, self.patterns):
            raise InputError(
                f"--from {source}: pass its folder; or, to draw a validation and a test set from "
                "the file, rename it"
            )
        return source


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive by its name or else by its content."""
    return ending_of(path) in ARCHIVES or contains_archive(path)


def contains_archive(path: Path) -> bool:
    """Return whether the content of a file is a tar or zip archive, whatever its name."""
    return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)


def match(path: str, patterns: Sequence[str]) -> str | None:
    """Return the name of a file according to the first pattern that it matches, or None.

    Paths in archives from Windows may contain backslashes.
    """
    plain = Path(strip_compression(path).replace("\\", "/"))
    pattern = next((pattern for pattern in patterns if fits(plain, pattern)), None)
    return pattern and "/".join(plain.parts[-len(Path(pattern).parts) :])


def fits(path: str | Path, pattern: str) -> bool:
    """Return whether a path has one of the names separated by ``|``."""
    return any(map(Path(path).match, pattern.split("|")))


def in_words(patterns: Iterable[str]) -> str:
    """Format patterns for messages."""
    return ", ".join(patterns).replace("|", " or ").replace("[0-9]*", "*")


def list_files(place: Path) -> Iterator[tuple[str, Opener]]:
    """Yield the path of each file in a folder or an archive, with a function that opens the file.

    Links and devices in archives are skipped.
    """
    if place.is_dir():
        for path in sorted(filter(Path.is_file, place.rglob("*"))):
            yield str(path.relative_to(place)), partial(open, path, "rb")
    elif zipfile.is_zipfile(place):
        with zipfile.ZipFile(place) as archive:
            for info in archive.infolist():
                if not (info.is_dir() or stat.S_ISLNK(info.external_attr >> 16)):
                    yield info.filename, partial(archive.open, info)
    else:
        with tarfile.open(place) as archive:
            while info := archive.next():
                if info.isfile():
                    # The result is not None for regular files.
                    yield info.name, partial(archive.extractfile, info)  # pyright: ignore[reportReturnType]
                # The archive would keep all of its members, possibly millions.
                archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]


@contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, and decompress it if its extension says that it is compressed."""
    with naming_faults(path, FILE_FAULT), open(path, "rb") as file:
        yield decompress(path.name, file)


def read_text(path: Path) -> Iterator[str]:
    """Yield the lines of a user's text, without carriage returns at their ends."""
    return (line.rstrip("\r") for line in read_lines(path))


def strip_compression(name: str) -> str:
    """Remove ``.gz`` and the like from a file name."""
    return name[: -len(Path(name).suffix)] if Path(name).suffix in COMPRESSED else name


def ending_of(path: Path) -> str:
    """Return the extension of a file name, in lower case and without ``.gz`` and the like."""
    return Path(strip_compression(path.name)).suffix.lower()


def fingerprint(files: Files) -> str:
    """Return the SHA-256 of the names and contents of files, whatever their order."""
    digest = hashlib.sha256()
    for name, path in sorted(files.items()):
        with open_binary(path) as file:
            content = file.read()
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def fingerprint_each(files: Files) -> dict[str, str]:
    """Return the SHA-256 of the content of each file, by name."""
    digests = {name: hashlib.sha256() for name in files}
    for name, path in files.items():
        with open_binary(path) as file:
            while block := file.read(1 << 20):
                digests[name].update(block)
    return {name: digest.hexdigest() for name, digest in digests.items()}


def download(url: str, path: Path, checksum: str = "") -> None:
    """Download *url* to the file *path*, unless the file exists; resume a partial download.

    Raises:
        ConnectionError: the connection was closed early; a new call resumes the download.
        InputError: the disk is full, or the file's SHA-256 is not *checksum*.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": USER_AGENT, **({"Range": f"bytes={start}-"} if start else {})}
    logger.info(f"downloading {url}" + (f" from byte {start:,}" if start else ""))
    try:
        response = urlopen(Request(url, headers=headers), timeout=60)
    except HTTPError as error:
        if error.code != 416:
            raise OSError(f"{url}: {error}") from error
        part.unlink()  # no more bytes: the part is complete, or from another version of the file
        return download(url, path, checksum)
    with response:
        if response.status != 206:  # the server sends the entire file
            start = 0
        length = response.headers["Content-Length"]
        total = start + int(length) if length else None
        bar = tqdm.wrapattr(response, "read", total, desc=path.name, initial=start, disable=None)
        with bar as counted, naming_full_disk(part), open(part, "ab" if start else "wb") as file:
            shutil.copyfileobj(counted, file)
    size = part.stat().st_size
    if total and size < total:
        raise ConnectionError(
            f"{url}: the connection closed after {size:,} of {total:,} bytes; run again to resume"
        )
    if checksum and sha256(part) != checksum:
        part.unlink()
        raise InputError(
            f"{url}: SHA-256 mismatch (expected {checksum}); run again to download it again"
        )
    part.rename(path)
