"""Whatever is done to a file that the project reads, it is read, or named with what is wrong.

What a reader raises must be what command lines turn into a message of one line, and must name the
file; nothing may come from inside a library as it is.
"""

import gzip
import random
import signal
from importlib.util import find_spec

import pytest
import torch
from fairseq.data import Dictionary
from lra_release import cifar10, listops, pathfinder, retrieval, write_archive, write_folder
from make_checkpoints import PATHS, write_data

from fairseq_odeformers.corpora import aan, archives, glue_tables, glue_tasks, lra_pathfinder
from fairseq_odeformers.corpora import cifar10 as images
from fairseq_odeformers.corpora import listops as expressions
from fairseq_odeformers.corpora.parallel_text import count_pairs
from fairseq_odeformers.corpora.ptb import check_size
from fairseq_odeformers.corpora.sgm import segments
from fairseq_odeformers.corpora.text import load_codes
from fairseq_odeformers.corpora.text_classification import DATASETS, read_files, read_splits
from fairseq_odeformers.data.pixel_text import read_numbers
from fairseq_odeformers.data.word_pieces import read_pieces
from fairseq_odeformers.files import build
from fairseq_odeformers.inference import weights
from fairseq_odeformers.inference.loading import load_model, read_checkpoint

SECONDS = 20  # after which a reader hangs
INSERTED = [b"\xff\xfe", b"\0", b"\r", b"\t", b"\n", b"9" * 400, "\u2028é".encode(), b'"', b"-1 "]


def mutate(content, drawn):
    """Bytes that are changed, cut off, left out, doubled or put in, or lines that are."""
    first, last = sorted(drawn.randrange(len(content) + 1) for _ in range(2))
    lines = content.splitlines(keepends=True)
    line = drawn.randrange(len(lines))
    flipped = bytearray(content)
    for _ in range(drawn.choice([1, 2, 20])):
        flipped[drawn.randrange(len(content))] = drawn.randrange(256)
    return drawn.choice(
        [
            bytes(flipped),
            content[:first],
            content[:first] + content[last:],
            content[:last] + content[first:],
            content[:first] + drawn.choice(INSERTED) + content[first:],
            b"".join(lines[:line] + lines[line + 1 :]),
            b"".join(lines[: line + 1] + lines[line:]),
            b"".join(reversed(lines)),
            b"",
        ]
    )


def classes(folder):
    read_splits(DATASETS["tsv"], read_files(folder, DATASETS["tsv"]), folder, 0)


def news(folder):
    read_splits(DATASETS["agnews"], read_files(folder, DATASETS["agnews"]), folder, 0)


def glue(folder):
    list(glue_tables.examples(folder / "train.tsv", glue_tasks.TASKS["RTE"], True))


def recipe(folder):
    build(folder / "step", {"n": 1}, lambda made: (made / "value").write_text("1"))


def text_file(name, text, read):
    return {name: text.encode()}, name, lambda folder: read(folder / name)


def members(files, name, read):
    """The file *name* of the files of a published archive."""
    (path,) = (path for path in files if path.endswith(name))
    return files, path, lambda folder: read((folder / path).parent, folder / path)


def pathfinder_level(folder, path):
    lra_pathfinder.read(folder.parents[[p.name for p in folder.parents].index("lra_release")], 1)


TSV = "".join(f"{'good' if n % 2 else 'bad'}\tword {n}\n" for n in range(20))
CSV = "".join(f'"{1 + n % 4}","title {n}","a ""quoted"" text"\n' for n in range(20))
RTE = "index\tsentence1\tsentence2\tlabel\n" + "0\tone .\ttwo .\tentailment\n" * 5
SGM = (
    '<refset>\n<doc>\n<seg id="1">One &amp; two</seg>\n<seg id="2">Three</seg>\n</doc>\n</refset>\n'
)
SENTENCES = "ein Satz\nnoch einer\n" * 5
KINDS = {
    "classes": ({"train.tsv": TSV.encode(), "test.tsv": TSV.encode()}, "train.tsv", classes),
    "news": ({"train.csv": CSV.encode(), "test.csv": CSV.encode()}, "train.csv", news),
    "table": ({"train.tsv": RTE.encode()}, "train.tsv", glue),
    "words": text_file("train.txt", SENTENCES, lambda path: check_size("train", path)),
    "markup": text_file("test.sgm", SGM, lambda path: list(segments(path))),
    "dictionary": text_file(
        "dict.txt", "the 5\nof 3\nand 1\n", lambda path: Dictionary.load(str(path))
    ),
    "word pieces": text_file("vocab.txt", "[PAD]\n[UNK]\nthe\n##s\n", read_pieces),
    "byte pairs": text_file("code", "#version: 0.2\nt h\nth e</w>\n", load_codes),
    "pixels": text_file("train.src", "0 1 255\n7 8 9\n" * 3, read_numbers),
    "recipe": ({"step/recipe.json": b'{"n": 1}', "step/value": b"1"}, "step/recipe.json", recipe),
    "parallel text": (
        {"train.de": SENTENCES.encode(), "train.en": SENTENCES.encode()},
        "train.de",
        lambda folder: count_pairs(folder / "train.de", folder / "train.en"),
    ),
    "expressions": members(listops(), "basic_train.tsv", lambda _, p: list(expressions.read(p))),
    "papers": members(retrieval(), "pairs.train.tsv", lambda _, path: list(aan.read(path))),
    "records": members(cifar10(), "data_batch_1.bin", lambda _, path: list(images.read(path))),
    "image": members(pathfinder(), f"{lra_pathfinder.LEVEL}/imgs/2/sample_3.png", pathfinder_level),
    "labels": members(pathfinder(), "curv_contour_length_14/metadata/2.npy", pathfinder_level),
}


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """Files that are made once: an archive, a checkpoint, and an export of it with dictionaries."""
    folder = tmp_path_factory.mktemp("binary")
    write_data(folder)
    path = folder / "checkpoint.pt"
    with gzip.open(PATHS["macaron_classifier"]) as file:
        state = torch.load(file)
    state["cfg"]["task"].pop("d2v2_multi")  # which fairseq 0.12.2 has not
    torch.save(state, path)
    if find_spec("safetensors"):
        weights.write_export(read_checkpoint(str(path)), folder / "out")
    write_archive(folder / "archive.tgz", listops())
    return folder


def extract(folder):
    (folder / "unpacked").mkdir(exist_ok=True)
    archives.unpack(
        folder / "archive.tgz", ["basic_train.tsv", "basic_val.tsv"], folder / "unpacked"
    )


def replace(tree, drawn):
    """Put something else, or nothing, in a random place of nested dictionaries."""
    key = drawn.choice(sorted(tree))
    if isinstance(tree[key], dict) and tree[key] and drawn.random() < 0.8:
        replace(tree[key], drawn)
    elif drawn.random() < 0.3:
        del tree[key]
    else:
        tree[key] = drawn.choice([None, [], {}, -1, "text", 1e9, torch.zeros(1)])


BINARY = {
    "archive.tgz": extract,
    "checkpoint.pt": lambda folder: load_model("checkpoint.pt", {}),
    "out/config.json": lambda folder: load_model("out", {}),
    "out/model.safetensors": lambda folder: load_model("out", {}),
    "words/label/dict.txt": lambda folder: load_model("checkpoint.pt", {}),
}


def hangs(*_):
    raise AssertionError(f"not read within {SECONDS} s")


def check(read, folder, path, contents):
    """Read each of the *contents* of a file; returns how many could be."""
    count = 0
    signal.signal(signal.SIGALRM, hangs)
    for content in contents:
        path.write_bytes(content)
        signal.alarm(SECONDS)
        try:
            read(folder)
            count += 1
        except (ValueError, OSError) as error:
            # The file, or the folder that it is one of, or what no longer goes with it.
            names = {*path.relative_to(folder).parts, *(p.name for p in path.parent.iterdir())}
            assert any(name in str(error) for name in {*names, "--"}), content  # or an option
            assert "Traceback" not in str(error)
        finally:
            signal.alarm(0)
    return count


@pytest.fixture(autouse=True)
def in_the_process(monkeypatch):
    monkeypatch.setattr(
        lra_pathfinder, "map_in_processes", lambda make, args, items, _: map(make(*args), items)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_text_and_images(kind, tmp_path):
    files, name, read = KINDS[kind]
    write_folder(tmp_path, files)
    drawn = random.Random(kind)
    contents = [mutate(files[name], drawn) for _ in range(15)]
    assert check(read, tmp_path, tmp_path / name, [files[name]]) == 1
    assert check(read, tmp_path, tmp_path / name, contents) < 15


@pytest.mark.parametrize("name", BINARY)
def test_archives_and_checkpoints(name, binary, monkeypatch):
    monkeypatch.chdir(binary)
    path = binary / name
    if not path.exists():
        pytest.skip("needs safetensors")
    whole, drawn = path.read_bytes(), random.Random(name)
    contents = [mutate(whole, drawn) for _ in range(12)]
    try:
        assert check(BINARY[name], binary, path, [whole]) == 1
        assert check(BINARY[name], binary, path, contents) < 12
    finally:
        path.write_bytes(whole)


def test_checkpoints_with_something_else(binary, monkeypatch):
    monkeypatch.chdir(binary)
    path, drawn = binary / "checkpoint.pt", random.Random(1)
    whole, contents = path.read_bytes(), []
    for _ in range(25):
        state = torch.load(path, weights_only=True)
        replace(state, drawn)
        torch.save(state, binary / "other.pt")
        contents.append((binary / "other.pt").read_bytes())
    try:
        check(BINARY["checkpoint.pt"], binary, path, contents)
    finally:
        path.write_bytes(whole)
