"""Archives of every kind are read alike, damage is reported, and downloads resume."""

import gzip
import hashlib
import http.server
import os
import stat
import tarfile
import threading
import zipfile

import pytest
from published import write_archive, write_folder

from fairseq_odeformers.lab.corpora import glue, lra, ptb, text_classification, wikitext103
from fairseq_odeformers.lab.corpora.common.source import Download, Source, download, read_files

FILES = {"corpus/a.txt": os.urandom(200_000), "corpus/deep/b.txt.gz": gzip.compress(b"packed")}
KINDS = ["folder", "a.zip", "a.tar", "a.tgz"]


def write_source(kind, tmp_path, others=()):
    write = write_folder if kind == "folder" else write_archive
    return write(tmp_path / kind, {**FILES, **dict(others)})


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_found_wherever_they_are(kind, tmp_path):
    source = write_source(kind, tmp_path)
    a, b = FILES["corpus/a.txt"], b"packed"
    assert read_files(source, ["?.txt"]) == {"a.txt": a, "b.txt": b}
    assert read_files(source, ["deep/*.txt", "a.txt"]) == {"a.txt": a, "deep/b.txt": b}


def test_files_have_the_order_of_the_numbers_in_their_names(tmp_path):
    """Only 0 to 9 are digits."""
    names = ["2.txt", "10.txt", "a1b.txt", "a1\u0663b.txt", "a\u00b2b.txt"]
    source = write_folder(tmp_path, dict.fromkeys(reversed(names), b""))
    assert list(read_files(source, ["*.txt"])) == names


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("size", [0, 100, 100_000])
def test_a_cut_off_archive_is_an_error_that_names_it(kind, size, tmp_path):
    source = write_source(kind, tmp_path)
    source.write_bytes(source.read_bytes()[:size])
    with pytest.raises(ValueError, match=f"{source} is damaged"):
        read_files(source, ["b.txt"])


def test_a_cut_off_file_is_an_error_that_names_it(tmp_path):
    write_folder(tmp_path, {"a.txt.gz": gzip.compress(os.urandom(1000))[:500]})
    with pytest.raises(ValueError, match=f"^a.txt in {tmp_path} is damaged"):
        read_files(tmp_path, ["a.txt"])


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_missing_or_twice_there_are_named(kind, tmp_path):
    source = write_source(kind, tmp_path, {"copy/b.txt": b"again"})
    for pattern, fault in (("c.txt", "has no"), ("b.txt", "has more than one")):
        with pytest.raises(ValueError, match=f"{source} {fault} {pattern}"):
            read_files(source, ["a.txt", pattern])
    assert list(read_files(source, ["a.txt", "c.txt"], optional=["c.txt"])) == ["a.txt"]


LINKS = [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]


@pytest.mark.parametrize("kind", [*LINKS, "zip"])
def test_links_and_devices_are_not_read(kind, tmp_path):
    (tmp_path / "secret").write_text("not of the archive")
    if kind == "zip":
        info = zipfile.ZipInfo("c/b.txt")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(tmp_path / "source", "w") as archive:
            archive.writestr(info, str(tmp_path / "secret"))
    else:
        with tarfile.open(tmp_path / "source", "w") as archive:
            info = tarfile.TarInfo("c/b.txt")
            info.type, info.linkname = kind, str(tmp_path / "secret")
            archive.addfile(info)
    with pytest.raises(ValueError, match="source has no b.txt"):
        read_files(tmp_path / "source", ["b.txt"])


@pytest.mark.parametrize("name", ["../a.txt", "/a.txt", "c/../../a.txt"])
@pytest.mark.parametrize("kind", ["source.tar", "source.zip"])
def test_nothing_is_written_outside_of_the_folder(kind, name, tmp_path):
    source = write_archive(tmp_path / kind, {name: b"text"})
    Source([Download("url", ["a.txt"])]).extract(source, tmp_path / "out")
    made = sorted(path.name for path in tmp_path.rglob("*"))
    assert made == ["a.txt", "out", "raw", "recipe.json", kind]
    assert (tmp_path / "out" / "raw" / "a.txt").read_bytes() == b"text"


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
    with pytest.raises(ConnectionError, match=f"{server.url}: .* 100,000 of 300,000 bytes"):
        download(server.url, path)
    assert not path.exists()
    server.cut_at = None
    download(server.url, path)
    assert path.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]
    assert [child.name for child in path.parent.iterdir()] == ["file"]


def test_what_is_there_is_not_downloaded(server, tmp_path):
    """But a partial file that is as long as the whole, perhaps of another version, is no file."""
    (tmp_path / "there").touch()
    download(server.url, tmp_path / "there")
    assert server.ranges == []
    (tmp_path / "file.part").write_bytes(b"x" * len(CONTENT))
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing(server, tmp_path):
    with pytest.raises(ValueError, match=f"^{server.url}: SHA-256 is not 0123; run again"):
        download(server.url, tmp_path / "file", "0123")
    assert list(tmp_path.iterdir()) == []
    download(server.url, tmp_path / "file", hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_published_files_have_checksums():
    """But where none is published: the Long Range Arena's release, and parallel text."""
    corpora = [ptb.PUBLISHED, wikitext103.CORPUS, *lra.CORPORA.values()]
    corpora += [*sum(glue.TASKS.values(), []), *text_classification.CORPORA.values()]
    downloads = [download for corpus in corpora for download in corpus.source.downloads]
    for url, _, checksum in downloads:
        if url and url != lra.RELEASE:
            assert len(bytes.fromhex(checksum)) == 32, url


TEXTS = {"a.de": b"eins\n", "a.en": b"one\n", "b.de": b"zwei\n"}
SOURCE = Source(
    [Download("http://host/a.tgz", ["a.de", "a.en"]), Download("http://host/b.de.gz", ["b.de"])]
)


@pytest.fixture
def published(tmp_path):
    """A folder with what is below the URLs of SOURCE."""
    folder = write_folder(tmp_path / "published", {"b.de.gz": gzip.compress(TEXTS["b.de"])})
    write_archive(folder / "a.tgz", {f"corpus/{name}": TEXTS[name] for name in ("a.de", "a.en")})
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


@pytest.mark.parametrize("kind", ["downloads", "loose files", "one archive"])
def test_files_are_found_in_archives_and_folders(kind, published, tmp_path):
    write = {"loose files": write_folder, "one archive": write_archive}.get(kind)
    source = write(tmp_path / "all.tgz", TEXTS) if write else published
    files = SOURCE.extract(source, tmp_path / "out")
    assert contents(tmp_path / "out" / "raw") == TEXTS
    assert {name: file.open().read() for name, file in files.items()} == TEXTS
    assert {
        name: file.open().read() for name, file in SOURCE.read(source, tmp_path).items()
    } == TEXTS


def test_missing_files_are_an_error_that_names_their_archive(published, tmp_path):
    write_archive(published / "a.tgz", {"a.de": b""})
    with pytest.raises(ValueError, match="a.tgz has no a.en"):
        SOURCE.extract(published, tmp_path)
    (published / "a.tgz").unlink()
    with pytest.raises(ValueError, match="published has no a.de, a.en"):
        SOURCE.extract(published, tmp_path)
    assert not (tmp_path / "raw").exists()


def test_a_changed_source_is_extracted_anew(published, tmp_path):
    """One file, or one archive."""
    raw, new = tmp_path / "raw", {"a.de": b"uno\n", "a.en": b"two\n", "b.de": b"due\n"}
    SOURCE.extract(published, tmp_path)
    write_folder(published, {"b.de.gz": gzip.compress(new["b.de"])})
    SOURCE.extract(published, tmp_path)
    assert contents(raw) == {**TEXTS, "b.de": new["b.de"]}
    write_archive(published / "a.tgz", {name: new[name] for name in ("a.de", "a.en")})
    SOURCE.extract(published, tmp_path)
    assert contents(raw) == new


@pytest.mark.parametrize("source, out", [("s", "s"), ("out/raw/s", "out"), ("s", "l"), ("l", "s")])
def test_nothing_takes_the_place_of_the_source(source, out, tmp_path):
    """Not by a link either."""
    (tmp_path / "l").symlink_to(tmp_path / "s")
    (tmp_path / "s").mkdir()
    write_folder(tmp_path / source, TEXTS)
    with pytest.raises(ValueError, match=f"--from .*/{source} overlaps .*/{out}/raw, made by"):
        SOURCE.extract(tmp_path / source, tmp_path / out)
    assert contents(tmp_path / source) == TEXTS
