"""Where a corpus is published, and its files: downloaded, or found in a folder or an archive."""

import hashlib
import io
import logging
import re
import shutil
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from tqdm import tqdm

from fairseq_odeformers.files import (
    BROKEN,
    decode_lines,
    decompress,
    fingerprints,
    naming_faults,
    read_lines,
    sha256,
)

from .log import step

logger = logging.getLogger(__name__)

USER_AGENT = "fairseq-odeformers"  # some servers refuse urllib's own name


class Download(NamedTuple):
    """What is at a URL.

    Attributes:
        url: of a tar or zip archive, or of a single file (compressed, if the URL is the name with
            ``.gz``).
        files: names of the files to take from it, or patterns of names, as for ``Path.match``. A
            name has as many folders as its pattern.
        sha256: of what is at the URL, if it is known.
    """

    url: str
    files: Sequence[str]
    sha256: str = ""


@dataclass(frozen=True)
class File:
    """A file of a corpus.

    Attributes:
        name: for messages; of a file on disk, its path.
        content: its bytes, or its path, where it may be compressed.
    """

    name: str
    content: Path | bytes

    def open(self) -> IO[bytes]:
        if isinstance(self.content, bytes):
            return io.BytesIO(self.content)
        return decompress(self.content.name, open(self.content, "rb"))

    def sha256(self) -> str:
        if isinstance(self.content, bytes):
            return hashlib.sha256(self.content).hexdigest()
        return sha256(self.content)

    def lines(self) -> Iterator[str]:
        """See :func:`.decode_lines`."""
        if isinstance(self.content, bytes):
            return decode_lines(self.open(), self.name)
        return read_lines(self.content)


Files = Mapping[str, File]  # by their names, sorted by by_number


@dataclass(frozen=True)
class Source:
    """Where a corpus is published.

    Attributes:
        downloads: all that has to be fetched.
        optional: the names or patterns that the source of ``--from`` may lack.
        archive: the name of an archive of all files that is published elsewhere.
    """

    downloads: Sequence[Download]
    optional: Sequence[str] = ()
    archive: str = ""

    def fetch(self, given: Path | None, out: Path) -> Path:
        """The path of ``--from``, or else the folder of *out* with all downloads."""
        if given:
            return given
        for url, _, checksum in self.downloads:
            download(url, out / "download" / Path(url).name, checksum)
        return out / "download"

    def read(self, given: Path | None, out: Path) -> dict[str, File]:
        """The files, in memory."""
        source = self.fetch(given, out)
        contents = {}
        for origin, names in self.origins(source).items():
            logger.info(f"reading {origin} ...")
            for name, content in read_files(origin, names, self.optional).items():
                contents[name] = File(str(origin / name), content)
        return contents

    def extract(self, given: Path | None, out: Path, folder: str = "raw") -> dict[str, File]:
        """The files, copied to the folder *folder* of *out*.

        Raises:
            ValueError: a file is missing, or *given* overlaps that folder.
        """
        source, raw = self.fetch(given, out), out / folder
        one, other = source.resolve(), raw.resolve()
        if one.is_relative_to(other) or other.is_relative_to(one):
            raise ValueError(
                f"--from {source} overlaps {raw}, made by this command; choose another --out"
            )
        origins = self.origins(source)
        inputs = [origin for origin in origins if origin.is_file()]
        if source in origins and source.is_dir():
            inputs += [source / path for path, _, _ in find(source, origins[source])]

        def fill(temporary: Path) -> None:
            def copy(name: str, stream: IO[bytes]) -> None:
                with open(temporary / name, "wb") as file:
                    shutil.copyfileobj(stream, file)

            for origin, names in origins.items():
                read_files(origin, names, self.optional, copy)

        step("copying the corpus", raw, {"from": fingerprints(inputs)}, fill)
        names = [name for _, names, _ in self.downloads for name in names]
        return {name: File(str(raw / name), raw / name) for name in names if (raw / name).exists()}

    def origins(self, source: Path) -> dict[Path, list[str]]:
        """Where the files are: in archives in the folder *source*, or else in *source* itself."""
        origins: dict[Path, list[str]] = {}
        for url, names, _ in self.downloads:
            archives = [source / name for name in (self.archive, Path(url).name) if name]
            found = (
                path
                for path in archives
                # A URL may lead to one of the files instead of an archive.
                if path.is_file() and strip_compression(path.name) not in names
            )
            origins.setdefault(next(found, source), []).extend(names)
        return origins


def download(url: str, path: Path, checksum: str = "") -> None:
    """Fetch *url* into the file *path*, unless it is there; resume an earlier partial download.

    Raises:
        ConnectionError: the connection closed early; a new call resumes the download.
        ValueError: the file's SHA-256 is not *checksum*.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    start = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": USER_AGENT, **({"Range": f"bytes={start}-"} if start else {})}
    request = urllib.request.Request(url, headers=headers)
    logger.info(f"downloading {url}" + (f" from byte {start:,}" if start else ""))
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise OSError(f"{url}: {error}") from error
        part.unlink()  # nothing follows it: complete, or of another version of the file
        return download(url, path, checksum)
    with response:
        if response.status != 206:  # the server sends the whole file
            start = 0
        length = response.headers["Content-Length"]
        total = start + int(length) if length else None
        bar = tqdm.wrapattr(response, "read", total, desc=path.name, initial=start, disable=None)
        with bar as counted, open(part, "ab" if start else "wb") as file:
            shutil.copyfileobj(counted, file)
    size = part.stat().st_size
    if total and size < total:
        raise ConnectionError(
            f"{url}: the connection closed after {size:,} of {total:,} bytes; run again to resume"
        )
    if checksum and sha256(part) != checksum:
        part.unlink()
        raise ValueError(f"{url}: SHA-256 is not {checksum}; run again to fetch it anew")
    part.rename(path)


def strip_compression(name: str) -> str:
    """The name of a file without ``.gz`` or ``.xz``."""
    return name.removesuffix(".gz").removesuffix(".xz")


def _list_files(source: Path) -> Iterator[tuple[str, Callable[[], IO[bytes]]]]:
    """The name of each file, and a function that opens it."""
    if source.is_dir():
        for path in sorted(filter(Path.is_file, source.rglob("*"))):
            yield str(path.relative_to(source)), partial(open, path, "rb")
    elif zipfile.is_zipfile(source):
        with zipfile.ZipFile(source) as archive:
            for info in archive.infolist():
                if not (info.is_dir() or stat.S_ISLNK(info.external_attr >> 16)):
                    yield info.filename, partial(archive.open, info)
    else:
        with tarfile.open(source) as archive:
            while info := archive.next():
                if info.isfile():
                    # A regular file's is not None.
                    yield info.name, partial(archive.extractfile, info)  # pyright: ignore[reportReturnType]
                # It would keep all of them, maybe millions.
                archive.members.clear()  # pyright: ignore[reportAttributeAccessIssue]


def find(
    source: Path, patterns: Sequence[str]
) -> Iterator[tuple[str, str, Callable[[], IO[bytes]]]]:
    """The files in a folder, tar or zip archive that match one of *patterns*.

    Path, name and opener of each. A name has as many folders as its pattern, such as
    ``train/pos/*.txt``, and neither ``.gz`` nor ``.xz``. Links and devices in archives are skipped.
    """
    with naming_faults(source, BROKEN):
        files = tqdm(_list_files(source), source.name, unit=" files", mininterval=1, disable=None)
        for path, open_file in files:
            plain = Path(strip_compression(path))
            if pattern := next(filter(plain.match, patterns), None):
                yield path, "/".join(plain.parts[-len(Path(pattern).parts) :]), open_file


def read_files(
    source: Path,
    patterns: Sequence[str],
    optional: Sequence[str] = (),
    read: Callable[[str, IO[bytes]], Any] = lambda name, stream: stream.read(),
) -> dict[str, Any]:
    """Read the files of :func:`find` in place; no name in an archive becomes a path on disk.

    Args:
        optional: the patterns that need not match a file.
        read: makes the result of a file from its name and its decompressed content.

    Returns:
        The result of each file, by its name, sorted by :func:`by_number`.

    Raises:
        ValueError: *source* is one of the files itself, two files have one name, or a pattern
            matches none.
    """
    wanted = [pattern for pattern in patterns if pattern not in {*optional}]
    endings = {Path(pattern).suffix for pattern in patterns}
    if source.is_file() and Path(strip_compression(source.name)).suffix in endings:
        raise ValueError(f"--from {source}: give the folder with {', '.join(wanted)}")
    contents = {}
    for path, name, open_file in find(source, patterns):
        if name in contents:
            raise ValueError(f"{source} has more than one {name}; keep one")
        with naming_faults(f"{strip_compression(path)} in {source}", BROKEN), open_file() as stream:
            contents[name] = read(name, decompress(path, stream))
    if absent := [p for p in wanted if not any(Path(name).match(p) for name in contents)]:
        raise ValueError(
            f"{source} has no {', '.join(sorted(absent))}; give a folder or archive with all files"
        )
    return {name: contents[name] for name in sorted(contents, key=by_number)}


def by_number(name: str) -> list[str | int]:
    """A sort key that puts ``2.txt`` before ``10.txt``."""
    parts = re.split("([0-9]+)", name)  # every second part is a number
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def fingerprint(files: Files) -> str:
    """SHA-256 of the names and contents of files in memory, in any order."""
    digest = hashlib.sha256()
    for name, file in sorted(files.items()):
        assert isinstance(file.content, bytes)
        digest.update(f"{name} {len(file.content)}\n".encode())
        digest.update(file.content)
    return digest.hexdigest()
