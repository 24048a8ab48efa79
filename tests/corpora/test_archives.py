"""Archives of every kind are read alike, damage is reported, and downloads resume."""

import gzip
import hashlib
import http.server
import io
import os
import stat
import tarfile
import threading
import zipfile

import pytest

from fairseq_odeformers.corpora.archives import download, extract, fetch, unpack

FILES = {"corpus/a.txt": os.urandom(200_000), "corpus/deep/b.txt.gz": gzip.compress(b"packed")}


def write_folder(path):
    for name, content in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(content)


def write_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)


def write_tar(path, mode="w:gz"):
    with tarfile.open(path, mode) as archive:
        for name, content in FILES.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


WRITERS = {
    "folder": write_folder,
    "zip": write_zip,
    "tar": lambda path: write_tar(path, "w"),
    "tar.gz": write_tar,
    "tar.xz": lambda path: write_tar(path, "w:xz"),
}


@pytest.fixture
def out(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


@pytest.mark.parametrize("kind", WRITERS)
def test_unpack_finds_files_wherever_they_are(kind, tmp_path, out):
    WRITERS[kind](tmp_path / "source")
    unpack(tmp_path / "source", ["a.txt", "b.txt"], out)
    assert (out / "a.txt").read_bytes() == FILES["corpus/a.txt"]
    assert (out / "b.txt").read_bytes() == b"packed"


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz"])
def test_a_cut_off_archive_is_an_error_that_names_it(kind, tmp_path, out):
    source = tmp_path / "source"
    WRITERS[kind](source)
    source.write_bytes(source.read_bytes()[:100_000])
    with pytest.raises(ValueError, match=f"{source} is damaged"):
        unpack(source, ["a.txt", "b.txt"], out)


def test_reading_ends_when_all_files_are_found(tmp_path, out):
    """What follows, in an archive of many files, may even be missing."""
    source = tmp_path / "source"
    write_tar(source)
    source.write_bytes(source.read_bytes()[:-100])
    unpack(source, ["a.txt"], out)
    assert (out / "a.txt").read_bytes() == FILES["corpus/a.txt"]


def test_a_cut_off_file_in_a_folder_is_an_error_that_names_it(tmp_path, out):
    (tmp_path / "source").mkdir()
    packed = gzip.compress(os.urandom(1000))
    (tmp_path / "source" / "a.txt.gz").write_bytes(packed[:500])
    with pytest.raises(ValueError, match="a.txt.gz in .*source is damaged or cut off"):
        unpack(tmp_path / "source", ["a.txt"], out)


@pytest.mark.parametrize("kind", WRITERS)
def test_missing_files_are_named(kind, tmp_path, out):
    WRITERS[kind](tmp_path / "source")
    with pytest.raises(ValueError, match="source has no c.txt, d.txt"):
        unpack(tmp_path / "source", ["a.txt", "d.txt", "c.txt"], out)


@pytest.mark.parametrize(
    "kind, what",
    [
        *((tarfile.LNKTYPE, "link"), (tarfile.SYMTYPE, "link"), (tarfile.FIFOTYPE, "device")),
        *((tarfile.CHRTYPE, "device"), (tarfile.BLKTYPE, "device")),
    ],
)
def test_a_link_or_device_is_refused_by_its_name(kind, what, tmp_path, out):
    """If it is wanted; others do not matter."""
    with tarfile.open(tmp_path / "source", "w") as archive:
        for name, target in (("c/a.txt", None), ("c/b.txt", "c/a.txt")):
            info = tarfile.TarInfo(name)
            if target:
                info.type, info.linkname = kind, target
            archive.addfile(info)
    unpack(tmp_path / "source", ["a.txt"], out)
    with pytest.raises(ValueError, match=f"^c/b.txt in .*source is a {what}; unpack the archive"):
        unpack(tmp_path / "source", ["b.txt"], out)


def test_a_link_in_a_zip_archive_is_refused(tmp_path, out):
    info = zipfile.ZipInfo("b.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "source", "w") as archive:
        archive.writestr(info, "/etc/passwd")
    with pytest.raises(ValueError, match="^b.txt in .*source is a link; unpack the archive"):
        unpack(tmp_path / "source", ["b.txt"], out)


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "c/../../a.txt"])
@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_a_member_that_leaves_the_folder_is_refused(kind, name, tmp_path, out):
    if kind == "tar":
        with tarfile.open(tmp_path / "source", "w") as archive:
            archive.addfile(tarfile.TarInfo(name))
    else:
        with zipfile.ZipFile(tmp_path / "source", "w") as archive:
            archive.writestr(name, "")
    with pytest.raises(ValueError, match=f"source has '{name}', which leaves the folder"):
        unpack(tmp_path / "source", ["a.txt"], out)
    assert not list(out.iterdir())


def test_what_is_no_archive_is_an_error(tmp_path, out):
    (tmp_path / "source").write_text("text")
    with pytest.raises(ValueError, match="neither a folder nor a tar or zip archive"):
        unpack(tmp_path / "source", ["a.txt"], out)


CONTENT = os.urandom(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, in parts if asked for, and logs the requested ranges."""

    def do_GET(self):
        requested = self.headers["Range"]
        self.server.ranges.append(requested)
        start = int(requested[len("bytes=") : -1]) if requested and self.server.resumable else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        self.wfile.write(CONTENT[start : self.server.cut_at])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        server.ranges, server.resumable, server.cut_at = [], True, None
        server.url = f"http://127.0.0.1:{server.server_port}/file"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("resumable", [True, False])
def test_an_interrupted_download_resumes(server, tmp_path, resumable):
    server.resumable, server.cut_at = resumable, 100_000
    path = tmp_path / "new" / "file"
    with pytest.raises(ConnectionError, match="100,000 of 300,000 bytes; run again to resume"):
        download(server.url, path)
    assert not path.exists()
    server.cut_at = None
    download(server.url, path, hashlib.sha256(CONTENT).hexdigest())
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]
    assert [child.name for child in path.parent.iterdir()] == ["file"]


def test_what_is_there_is_not_downloaded(server, tmp_path):
    (tmp_path / "file").touch()
    download(server.url, tmp_path / "file")
    assert server.ranges == []


def test_a_partial_file_as_long_as_the_whole_is_fetched_anew(server, tmp_path):
    (tmp_path / "file.part").write_bytes(b"x" * len(CONTENT))
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ValueError, match="SHA-256 is not 0123"):
        download(server.url, tmp_path / "file", "0123")
    assert list(tmp_path.iterdir()) == []


TEXTS = {"a.de": b"eins\n", "a.en": b"one\n", "b.de": b"zwei\n"}
ARCHIVES = {"http://host/a.tgz": ["a.de", "a.en"], "http://host/b.de.gz": ["b.de"]}


def write_texts(path, folder, names):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.add(folder / name, f"corpus/{name}")


@pytest.fixture
def published(tmp_path):
    """A folder with what is below the URLs of ARCHIVES."""
    loose = write_loose(tmp_path / "loose")
    folder = tmp_path / "published"
    folder.mkdir()
    write_texts(folder / "a.tgz", loose, ["a.de", "a.en"])
    (folder / "b.de.gz").write_bytes(gzip.compress(TEXTS["b.de"]))
    return folder


def write_loose(folder):
    folder.mkdir()
    for name, content in TEXTS.items():
        (folder / name).write_bytes(content)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


@pytest.mark.parametrize("kind", ["downloads", "loose files", "one archive", "both"])
def test_files_are_found_in_archives_and_folders(kind, published, tmp_path):
    source = {"downloads": published, "loose files": tmp_path / "loose"}.get(kind, tmp_path)
    if kind == "one archive":
        source = tmp_path / "all.tgz"
        write_texts(source, tmp_path / "loose", TEXTS)
    if kind == "both":
        (tmp_path / "loose" / "a.en").unlink()
    raw = tmp_path / "out" / "raw"
    extract(source, ARCHIVES, raw)
    assert contents(raw) == TEXTS


def test_missing_files_are_an_error_that_names_their_archive(published, tmp_path):
    write_texts(published / "a.tgz", tmp_path / "loose", ["a.de"])
    with pytest.raises(ValueError, match="a.tgz has no a.en"):
        extract(published, ARCHIVES, tmp_path / "raw")
    (published / "a.tgz").unlink()
    with pytest.raises(ValueError, match="published has no a.de, a.en"):
        extract(published, ARCHIVES, tmp_path / "raw")
    assert not (tmp_path / "raw").exists()


def test_a_changed_download_is_extracted_anew(published, tmp_path):
    raw = tmp_path / "raw"
    extract(published, ARCHIVES, raw)
    (published / "b.de.gz").write_bytes(gzip.compress(b"due\n"))
    extract(published, ARCHIVES, raw)
    assert contents(raw) == {**TEXTS, "b.de": b"due\n"}
    (tmp_path / "loose" / "a.de").write_bytes(b"uno\n")
    write_texts(published / "a.tgz", tmp_path / "loose", ["a.de", "a.en"])
    extract(published, ARCHIVES, raw)
    assert contents(raw) == {**TEXTS, "a.de": b"uno\n", "b.de": b"due\n"}


def test_every_archive_is_downloaded(published, tmp_path):
    urls = {path.as_uri(): None for path in published.iterdir()}
    folder = fetch(urls, tmp_path / "download")
    assert contents(folder) == contents(published)
