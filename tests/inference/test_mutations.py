"""Whatever is done to the bytes of a model's files, they are read, or an error names one of them.

Nothing may come from inside a library as it is, and no reader may hang.
"""

import gzip
import random
import signal

import pytest
import torch
from make_checkpoints import PATHS, write_data

from fairseq_odeformers.inference.loading import load_model, read_checkpoint
from fairseq_odeformers.inference.weights import write_export

SECONDS = 20  # after which a reader hangs
INSERTED = [b"\xff\xfe", b"\0", b"\n", b"9" * 400, b'"', b"-1 "]


def mutate(content, drawn):
    """Bytes that are changed, cut off, left out, doubled or put in."""
    first, last = sorted(drawn.randrange(len(content) + 1) for _ in range(2))
    flipped = bytearray(content)
    for _ in range(drawn.choice([1, 20])):
        flipped[drawn.randrange(len(content))] = drawn.randrange(256)
    return drawn.choice(
        [
            bytes(flipped),
            content[:first],
            content[:first] + content[last:],
            content[:last] + content[first:],
            content[:first] + drawn.choice(INSERTED) + content[first:],
        ]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A checkpoint, an export of it and dictionaries."""
    pytest.importorskip("safetensors")
    folder = tmp_path_factory.mktemp("files")
    write_data(folder)
    path = folder / "checkpoint.pt"
    with gzip.open(PATHS["macaron_classifier"]) as file:
        torch.save(torch.load(file), path)
    write_export(read_checkpoint(str(path)), folder / "out")
    return folder


def hangs(*_):
    raise AssertionError(f"not read within {SECONDS} s")


@pytest.mark.parametrize(
    "name", ["checkpoint.pt", "out/config.json", "out/model.safetensors", "words/label/dict.txt"]
)
def test_mutated_files_are_read_or_named(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    model = "out" if name.startswith("out") else "checkpoint.pt"
    path, drawn = folder / name, random.Random(name)
    whole = path.read_bytes()
    load_model(model)
    signal.signal(signal.SIGALRM, hangs)
    refused = 0
    try:
        for _ in range(10):
            path.write_bytes(mutate(whole, drawn))
            signal.alarm(SECONDS)
            try:
                load_model(model)
            except (ValueError, OSError) as error:
                refused += 1
                assert any(part in str(error) for part in (model, path.name))
    finally:
        signal.alarm(0)
        path.write_bytes(whole)
    assert refused
