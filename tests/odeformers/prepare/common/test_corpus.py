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
from published import write_archive, write_folder
from script_helpers import contents

from odeformers.prepare import glue, lra, ptb, text_classification, wikitext103
from odeformers.prepare.common.corpus import Corpus, Download, download

TEXTS = {name: f"some words of {name}\n".encode() for name in ("train.txt", "valid.txt")}
PACKED = {
    "texts/train.txt": TEXTS["train.txt"],
    "a/b/valid.txt.gz": gzip.compress(TEXTS["valid.txt"]),
}
KINDS = ["folder", "a.zip", "a.tar", "a.tgz"]


def write_source(kind, tmp_path, files):
    return (write_folder if kind == "folder" else write_archive)(tmp_path / kind, files)


@pytest.mark.parametrize("kind", KINDS)
def test_files_are_found_in_folders_and_archives(kind, prepare, tmp_path):
    """A user's folder is read in place, and files of an archive are extracted."""
    prepare("lm", write_source(kind, tmp_path, PACKED))
    assert (prepare.out / "raw").exists() == (kind != "folder")
    prepare("lm", write_folder(tmp_path / "plain", TEXTS), out=tmp_path / "other")
    assert contents(prepare.out / "data-bin") == contents(tmp_path / "other" / "data-bin")


@pytest.mark.parametrize("kind", KINDS)
def test_backslashes_separate_folders(kind, prepare, tmp_path):
    """Archives that were made on Windows are read, packed or extracted."""
    files = {name.replace("/", "\\"): text for name, text in PACKED.items()}
    prepare("lm", write_source(kind, tmp_path, files))
    prepare("lm", write_folder(tmp_path / "plain", TEXTS), out=tmp_path / "other")
    assert contents(prepare.out / "data-bin") == contents(tmp_path / "other" / "data-bin")


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("size", [0, 100, 10_000])
def test_a_truncated_archive_is_named(kind, size, prepare, tmp_path):
    noise = {"texts/test.txt": os.urandom(20_000), **PACKED}
    source = write_source(kind, tmp_path, noise)
    source.write_bytes(source.read_bytes()[:size])
    prepare.refuses(f"{source} is damaged", "lm", source)


@pytest.mark.parametrize("packed", [False, True])
def test_a_truncated_file_is_named(packed, prepare, tmp_path):
    files = {**TEXTS, "test.txt.gz": gzip.compress(os.urandom(1000))[:500]}
    source = write_source("a.tar" if packed else "folder", tmp_path, files)
    prepare.refuses("test.txt.* is damaged", "lm", source)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"a/b/valid.txt.gz": None}, "has no valid.txt"),
        ({"c/valid.txt": b"a"}, "has more than one"),
    ],
)
def test_missing_and_repeated_files_are_named(kind, changes, fault, prepare, tmp_path):
    files = {name: text for name, text in {**PACKED, **changes}.items() if text is not None}
    source = write_source(kind, tmp_path, files)
    prepare.refuses(f"{source} {fault}", "lm", source)


def test_a_file_that_is_no_archive_is_refused(prepare, tmp_path):
    source = write_folder(tmp_path / "folder", {"train.zip": b"a\n"}) / "train.zip"
    message = "train.zip is .* not a tar or zip archive; pass the folder with train.txt, valid.txt$"
    prepare.refuses(message, "lm", source)


LINKS = [tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE]


@pytest.mark.parametrize("kind", [*LINKS, "zip"])
def test_links_and_devices_in_an_archive_are_not_read(kind, prepare, tmp_path):
    secret, source = tmp_path / "secret", tmp_path / "source"
    secret.write_text("not of the archive")
    if kind == "zip":
        info = zipfile.ZipInfo("c/valid.txt")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        with zipfile.ZipFile(source, "w") as archive:
            archive.writestr(info, str(secret))
            archive.writestr("train.txt", TEXTS["train.txt"])
    else:
        with tarfile.open(source, "w") as archive:
            info = tarfile.TarInfo("c/valid.txt")
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
            info = tarfile.TarInfo("train.txt")
            info.size = len(TEXTS["train.txt"])
            archive.addfile(info, io.BytesIO(TEXTS["train.txt"]))
    prepare.refuses("source has no valid.txt", "lm", source)


@pytest.mark.parametrize("folder", ["../", "/", "c/../../"])
@pytest.mark.parametrize("kind", ["source.tar", "source.zip"])
def test_an_archive_cannot_write_outside_of_the_folder(kind, folder, prepare, tmp_path):
    files = {f"{folder}{name}": text for name, text in TEXTS.items()}
    source = write_archive(tmp_path / "a" / kind, files)
    prepare("lm", source)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "out"]
    assert [path.name for path in (tmp_path / "a").iterdir()] == [kind]
    assert (prepare.out / "raw" / "train.txt").read_bytes() == TEXTS["train.txt"]


CONTENT = os.urandom(300_000)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves CONTENT, in parts on request, and logs the requested ranges."""

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


def test_an_existing_file_is_not_downloaded(server, tmp_path):
    """A partial file as long as the whole, perhaps of another version, is downloaded anew."""
    (tmp_path / "there").touch()
    download(server.url, tmp_path / "there")
    assert server.ranges == []
    (tmp_path / "file.part").write_bytes(b"x" * len(CONTENT))
    download(server.url, tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_full_disk_names_the_file(server, tmp_path):
    (tmp_path / "file.part").symlink_to("/dev/full")
    with pytest.raises(ValueError, match="/file.part cannot be written .*No space left on device"):
        download(server.url, tmp_path / "file")


def test_a_wrong_checksum_leaves_no_file(server, tmp_path):
    with pytest.raises(
        ValueError, match=rf"^{server.url}: SHA-256 mismatch \(expected 0123\); run again"
    ):
        download(server.url, tmp_path / "file", "0123")
    assert list(tmp_path.iterdir()) == []
    download(server.url, tmp_path / "file", hashlib.sha256(CONTENT).hexdigest())
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_published_files_have_checksums():
    """Only the Long Range Arena's release and parallel text have no published checksums."""
    corpora = [ptb.CORPUS, wikitext103.CORPUS, *lra.CORPORA.values()]
    corpora += [*glue.TASKS.values(), *text_classification.CORPORA.values()]
    for url, _, checksum in (one for corpus in corpora for one in corpus.downloads):
        if url and url != lra.RELEASE:
            assert len(bytes.fromhex(checksum)) == 32, url


PAIRS = {"a.de": b"eins\n", "a.en": b"one\n", "b.de": b"zwei\n"}
CORPUS = Corpus(
    [Download("http://host/a.tgz", ["a.de", "a.en"]), Download("http://host/b.de.gz", ["b.de"])],
    dict,
    None,
)


@pytest.fixture
def published(tmp_path):
    """A folder with the files at the URLs of CORPUS."""
    folder = write_folder(tmp_path / "published", {"b.de.gz": gzip.compress(PAIRS["b.de"])})
    write_archive(folder / "a.tgz", {f"corpus/{name}": PAIRS[name] for name in ("a.de", "a.en")})
    return folder


def read(source, out):
    """The contents of the files, in the order of their names."""
    files = CORPUS.files(source, out)
    opened = {name: gzip.open if path.suffix == ".gz" else open for name, path in files.items()}
    return {name: opened[name](path, "rb").read() for name, path in files.items()}


@pytest.mark.parametrize("kind", ["downloads", "loose files", "one archive"])
def test_files_of_several_downloads_are_found(kind, published, tmp_path):
    write = {"loose files": write_folder, "one archive": write_archive}.get(kind)
    source = write(tmp_path / "all.tgz", dict(reversed(PAIRS.items()))) if write else published
    read_files = read(source, tmp_path / "out")
    assert read_files == PAIRS and [*read_files] == [*PAIRS]


def test_missing_files_are_reported_with_their_archive(published, tmp_path):
    write_archive(published / "a.tgz", {"a.de": b""})
    with pytest.raises(ValueError, match="a.tgz has no a.en"):
        read(published, tmp_path)
    (published / "a.tgz").unlink()
    with pytest.raises(ValueError, match="published has no a.de, a.en"):
        read(published, tmp_path)
    assert not (tmp_path / "raw").exists()


def test_a_changed_source_is_read_again(published, tmp_path):
    """The changed source is a file or an archive."""
    new = {"a.de": b"uno\n", "a.en": b"two\n", "b.de": b"due\n"}
    read(published, tmp_path)
    write_folder(published, {"b.de.gz": gzip.compress(new["b.de"])})
    assert read(published, tmp_path) == {**PAIRS, "b.de": new["b.de"]}
    write_archive(published / "a.tgz", {name: new[name] for name in ("a.de", "a.en")})
    assert read(published, tmp_path) == new


@pytest.mark.parametrize("source, out", [("s", "s"), ("out/raw/s", "out"), ("s", "l"), ("l", "s")])
def test_the_source_is_never_overwritten(source, out, tmp_path):
    """The output cannot replace the source, not even through a link."""
    (tmp_path / "l").symlink_to(tmp_path / "s")
    (tmp_path / "s").mkdir()
    write_folder(tmp_path / source, PAIRS)
    assert read(tmp_path / source, tmp_path / out) == PAIRS
    assert {path.name: path.read_bytes() for path in (tmp_path / source).iterdir()} == PAIRS
