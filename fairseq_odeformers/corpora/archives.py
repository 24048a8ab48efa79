"""Fetching published data sets and reading them where they are: a folder, tar or zip archive."""

import gzip
import hashlib
import logging
import lzma
import shutil
import stat
import tarfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from tqdm import tqdm

from fairseq_odeformers.files import build, fingerprints, naming, sha256

logger = logging.getLogger(__name__)

BROKEN = "is damaged, cut off, or in another format"
COMPRESSED = {".gz": gzip.open, ".xz": lzma.open}


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
        with (
            open(partial, "ab" if start else "wb") as file,
            tqdm.wrapattr(file, "write", total, desc=path.name, initial=start, disable=None) as to,
        ):
            shutil.copyfileobj(response, to)
    size = partial.stat().st_size
    if total and size < total:
        raise ConnectionError(
            f"{url}: the connection closed after {size:,} of {total:,} bytes; run again to resume"
        )
    if checksum is not None and sha256(partial) != checksum:
        partial.unlink()
        raise ValueError(f"{url}: SHA-256 is not {checksum}; run again to fetch it anew")
    partial.rename(path)


def fetch(downloads: Mapping[str, str | None], folder: Path) -> Path:
    """Download URLs, whose SHA-256 may be given, into *folder*, and return it."""
    for url, checksum in downloads.items():
        download(url, folder / Path(url).name, checksum)
    return folder


def plain_name(name: str) -> str:
    """The name of a file without what says that it is compressed."""
    return name.removesuffix(".gz").removesuffix(".xz")


def decompressed(name: str, stream: BinaryIO) -> BinaryIO:
    """The content of a file called *name* that is open as *stream*."""
    return COMPRESSED.get(Path(name).suffix, lambda file: file)(stream)


def members(source: Path, patterns: Iterable[str]) -> Iterator[tuple[Path, BinaryIO]]:
    """Path and content of the files in a folder, tar or zip archive that match one of *patterns*.

    A file may be compressed as ``name.gz`` or ``name.xz``. It then has the path ``name``, and its
    content is decompressed. Files are read where they are: nothing is written under a name that an
    archive gives, and links and devices in archives are passed over.

    Args:
        patterns: of the end of a path, as ``Path.match`` takes them: ``train/pos/*.txt``.

    Raises:
        ValueError: *source* is damaged or cut off, or neither a folder nor an archive.
    """
    with naming(source, BROKEN):
        files = tqdm(_files(source), source.name, unit=" files", mininterval=1, disable=None)
        for name, open_file in files:
            path = Path(plain_name(name))
            if any(map(path.match, patterns)):
                with open_file() as stream:
                    yield path, decompressed(name, stream)


def _files(source: Path) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Name of each file, and a function that opens it."""
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
                    yield info.name, partial(archive.extractfile, info)
                archive.members.clear()  # it would keep all of them, maybe millions


def read_files(
    source: Path, patterns: Sequence[str], optional: Iterable[str] = ()
) -> dict[str, bytes]:
    """The content of the files that match *patterns*, by their names.

    A name has as many folders as the pattern that it matches.

    Args:
        optional: those of the patterns that need not match a file.

    Raises:
        ValueError: *source* is damaged, has two files of a name, or none for a pattern.
    """
    logger.info(f"reading {source}")
    files = {}
    missing = set(patterns).difference(optional)
    for path, stream in members(source, patterns):
        pattern = next(filter(path.match, patterns))
        name = "/".join(path.parts[-len(Path(pattern).parts) :])
        if name in files:
            raise ValueError(f"{source} has more than one {name}")
        with naming(f"{path} in {source}", BROKEN):
            files[name] = stream.read()
        missing.discard(pattern)
    if missing:
        raise ValueError(f"{source} has no {', '.join(sorted(missing))}")
    return files


def fingerprint(files: Mapping[str, bytes]) -> str:
    """SHA-256 of the names and contents of files, in any order."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(f"{name} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def unpack(source: Path, names: Iterable[str], folder: Path) -> None:
    """Copy the files called *names* from any folder of *source* into *folder*.

    A name may begin with the last folders of the file's path, as in ``RTE/train.tsv``; the copy is
    called ``train.tsv``.

    Raises:
        ValueError: *source* is damaged, or a file is missing.
    """
    logger.info(f"reading {source}")
    missing = set(names)
    for path, stream in members(source, names):
        if found := set(filter(path.match, missing)):
            with naming(f"{path} in {source}", BROKEN), open(folder / path.name, "wb") as file:
                shutil.copyfileobj(stream, file)
            missing -= found
        if not missing:
            break
    if missing:
        raise ValueError(f"{source} has no {', '.join(sorted(missing))}")


def locate(source: Path, url: str, names: Sequence[str]) -> Path:
    """The archive of a URL in the folder *source*, or else *source* itself.

    Args:
        names: of the files that the archive has. A file of such a name is not an archive.
    """
    archive = source / Path(url).name
    return archive if archive.is_file() and plain_name(archive.name) not in names else source


def extract(
    source: Path,
    archives: Mapping[str, Sequence[str]],
    raw: Path,
    finish: Callable[[Path], None] | None = None,
) -> None:
    """Fill *raw* with the files of published archives.

    Args:
        source: an archive of all these files, or a folder that has them, or their archives under
            the published names.
        archives: names of the files of each archive, by its URL.
        finish: called with the filled folder.

    Raises:
        ValueError: a file is missing, or an archive damaged.
    """
    origins: dict[Path, list[str]] = {}
    for url, names in archives.items():
        origins.setdefault(locate(source, url, names), []).extend(names)
    inputs = [origin for origin in origins if origin.is_file()]
    if source.is_dir():
        inputs += [Path(stream.name) for _, stream in members(source, origins.get(source, ()))]

    def copy(folder: Path) -> None:
        for origin, names in origins.items():
            unpack(origin, names, folder)
        if finish:
            finish(folder)

    build(raw, {"from": fingerprints(inputs)}, copy)
