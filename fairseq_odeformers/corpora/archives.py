"""Fetching published data sets and reading them where they are: a folder, tar or zip archive."""

from __future__ import annotations

import gzip
import io
import logging
import lzma
import shutil
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from fairseq_odeformers.files import build, fingerprints, sha256

logger = logging.getLogger(__name__)

DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
)


def download(url: str, path: Path, checksum: str | None = None) -> None:
    """Fetch *url* into the file *path*, unless it is there; resume an earlier partial download.

    Raises:
        ConnectionError: the connection closed early; what came is kept and a new call goes on.
        ValueError: the file's SHA-256 is not *checksum*.
    """
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    start = partial.stat().st_size if partial.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    logger.info(f"downloading {url}" + (f" from byte {start:,}" if start else ""))
    try:
        response = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise OSError(f"{url}: {error}") from error
        partial.unlink()  # nothing follows it: complete, or of another version of the file
        return download(url, path, checksum)
    with response:
        if response.status != 206:  # the server sends the whole file
            start = 0
        length = response.headers["Content-Length"]
        total = start + int(length) if length else None
        progress = tqdm(desc=path.name, initial=start, total=total, unit="B", unit_scale=True)
        with progress, open(partial, "ab" if start else "wb") as file:
            while block := response.read(1 << 16):
                file.write(block)
                progress.update(len(block))
            size = file.tell()
    if total and size < total:
        raise ConnectionError(
            f"{url}: the connection closed after {size:,} of {total:,} bytes; run again to resume"
        )
    if checksum is not None and sha256(partial) != checksum:
        partial.unlink()
        raise ValueError(f"{url}: SHA-256 is not {checksum}; run again to fetch it anew")
    partial.rename(path)


class Link(io.RawIOBase):
    """The content of a link or device, which has none; a ValueError says so when it is read."""

    def __init__(self, message: str):
        self.message = message

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        raise ValueError(f"{self.message}; unpack the archive, and give the folder")


def members(source: Path) -> Iterator[tuple[str, BinaryIO]]:
    """Name and content of every file in a folder, tar archive (any compression) or zip archive.

    Nothing is extracted, so no member can be written where it should not be.

    Raises:
        ValueError: *source* is none of the three, or is damaged or cut off, or a member of an
            archive is meant for a place outside of it.
    """

    def inside(name: str) -> str:
        if name.startswith("/") or ".." in Path(name).parts:
            raise ValueError(f"{source} has {name!r}, which leaves the folder it is unpacked to")
        return name

    try:
        if source.is_dir():
            for path in sorted(filter(Path.is_file, source.rglob("*"))):
                with open(path, "rb") as stream:
                    yield str(path.relative_to(source)), stream
        elif zipfile.is_zipfile(source):
            with zipfile.ZipFile(source) as archive:
                for info in archive.infolist():
                    if not info.is_dir():
                        name = inside(info.filename)
                        if stat.S_ISLNK(info.external_attr >> 16):
                            yield name, Link(f"{name} in {source} is a link")
                            continue
                        with archive.open(info) as stream:
                            yield name, stream
        else:
            with tarfile.open(source) as archive:
                while info := archive.next():
                    name = inside(info.name)
                    if info.isfile():
                        yield name, archive.extractfile(info)
                    elif not info.isdir():
                        kind = "link" if info.islnk() or info.issym() else "device"
                        yield name, Link(f"{name} in {source} is a {kind}")
                    archive.members.clear()  # it would keep all of them, maybe millions
    except DAMAGED as error:
        raise ValueError(
            f"{source} is damaged, cut off, or neither a folder nor a tar or zip archive"
        ) from error


@contextmanager
def reading(member: str, source: Path) -> Iterator[None]:
    """Names the member of *source* that is being read if it turns out to be damaged.

    Raises:
        ValueError: it is.
    """
    try:
        yield
    except DAMAGED as error:
        raise ValueError(f"{member} in {source} is damaged or cut off ({error})") from error


def unpack(source: Path, names: Sequence[str], folder: Path) -> None:
    """Copy the files called *names*, from whatever folder of *source*, into *folder*.

    A name may begin with the last folders of the file's path, as in ``RTE/train.tsv``; the copy is
    called ``train.tsv``. A file may be there as such or compressed as ``name.gz``.

    Raises:
        ValueError: *source* is damaged, or has not all of the files.
    """
    logger.info(f"reading {source}")
    missing = set(names)
    for member, stream in tqdm(members(source), desc=source.name, unit=" files", mininterval=1):
        path = Path(member.removesuffix(".gz"))
        for name in filter(path.match, sorted(missing)):
            with reading(member, source), open(folder / path.name, "wb") as file:
                packed = member.endswith(".gz")
                shutil.copyfileobj(gzip.open(stream) if packed else stream, file)
            missing.remove(name)
        if not missing:
            break
    if missing:
        raise ValueError(f"{source} has no {', '.join(sorted(missing))}")


def fetch(downloads: Mapping[str, str | None], folder: Path) -> Path:
    """Download URLs, whose SHA-256 may be given, into *folder*, and return it."""
    for url, checksum in downloads.items():
        download(url, folder / Path(url).name, checksum)
    return folder


def present(source: Path, archives: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """Those of *archives*, single files each, that an archive of them all or a folder has."""
    if not archives:
        return archives
    found = {Path(member).name.removesuffix(".gz") for member, _ in members(source)}
    return {url: names for url, names in archives.items() if found.issuperset(names)}


def extract(source: Path, archives: Mapping[str, Sequence[str]], raw: Path) -> None:
    """Fill *raw* with the files of *archives*, from *source*: an archive of them all, or a folder.

    In a folder, a file may be there as such or in the archive that it belongs to.

    Raises:
        ValueError: a file is missing, or an archive damaged.
    """
    contents = sorted(filter(Path.is_file, source.rglob("*"))) if source.is_dir() else []
    sources: dict[Path, list[str]] = {}
    for url, names in archives.items():
        unpacked = {path.name.removesuffix(".gz") for path in contents}.issuperset(names)
        packed = [path for path in contents if path.name == Path(url).name]
        sources.setdefault(packed[0] if packed and not unpacked else source, []).extend(names)

    inputs = [path for path in sources if path.is_file()]
    loose = sources.get(source, [])
    inputs += [path for path in contents if path.name.removesuffix(".gz") in loose]

    def copy(folder: Path) -> None:
        for path, names in sources.items():
            unpack(path, names, folder)

    build(raw, {"from": fingerprints(inputs)}, copy)
