"""Whole checkpoints load; a damaged one, or another file, is named."""

import importlib
import io
import struct
import zipfile

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import checkpoint_of

from fairseq_odeformers.checkpoints import state as state_module
from fairseq_odeformers.checkpoints.state import read_state

STATE = checkpoint_of({"weight": torch.rand(2000)})


def flip(content):
    """Two bits of the weights, which torch reads in silence."""
    place = content.index(STATE["model"]["weight"].numpy().tobytes()) + 1000
    flipped = bytes(byte ^ 1 for byte in content[place : place + 2])
    return content[:place] + flipped + content[place + 2 :]


@pytest.fixture
def path(tmp_path):
    torch.save(STATE, tmp_path / "checkpoint_last.pt")
    return tmp_path / "checkpoint_last.pt"


def saved(state, **options):
    file = io.BytesIO()
    torch.save(state, file, **options)
    return file.getvalue()


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"text",
        lambda content: b"hello",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-30],
        flip,
        lambda content: saved([1]),
        lambda content: saved({"weight": torch.zeros(2)}),
        lambda content: saved({"model": {}}),
        lambda content: saved({**STATE, "model": [torch.zeros(2)]}),
        lambda content: saved({**STATE, "cfg": None}),
        lambda content: saved({**STATE, "cfg": {"model": {}}}),
    ],
)
def test_a_damaged_checkpoint_is_named_in_the_error(path, damage):
    path.write_bytes(damage(path.read_bytes()))
    remedy = "pass an intact checkpoint of fairseq-train"
    raw = r".*(Error|Errno|indices|no \d|fairseq)"
    with pytest.raises(ValueError, match=rf"^{path} cannot be loaded; {remedy} \((?!{raw})"):
        read_state(str(path))


def test_a_plugin_may_wrap_the_loading_function(path, monkeypatch):
    """Reading does not recurse, even if the wrapper lacks :func:`functools.wraps`."""
    patched = checkpoint_utils.load_checkpoint_to_cpu
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", lambda *args: patched(*args))
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert state["model"]["weight"].equal(STATE["model"]["weight"])


def test_the_checksum_of_each_part_is_compared(path):
    """A flipped bit is found in every part of the file, even beside a part whose checksum is 0."""
    whole = saved({**STATE, "model": {**STATE["model"], "empty": torch.zeros(0)}})
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        parts = [part for part in archive.infolist() if part.file_size]
        assert len(parts) >= 3 and not all(part.CRC for part in archive.infolist())
    for part in parts:
        name, extra = struct.unpack("<HH", whole[part.header_offset + 26 : part.header_offset + 30])
        end = part.header_offset + 30 + name + extra + part.file_size
        path.write_bytes(whole[: end - 1] + bytes([whole[end - 1] ^ 1]) + whole[end:])
        with pytest.raises(ValueError, match=f"^{path} .*CRC-32 of {part.filename} is not the one"):
            read_state(str(path))


@pytest.mark.parametrize("zipped, sums", [(True, True), (False, True), (True, False)])
def test_whole_checkpoints_load(zipped, sums, path):
    """Checkpoints of torch < 1.6 and checkpoints without checksums load."""
    switch = getattr(torch.serialization, "set_crc32_options", lambda compute: None)
    switch(sums)
    path.write_bytes(saved(STATE, _use_new_zipfile_serialization=zipped))
    switch(True)
    loaded = read_state(str(path))
    assert torch.equal(loaded["model"]["weight"], STATE["model"]["weight"])


def test_reading_does_not_recurse(path):
    """The module can be imported again after the patch that makes fairseq's function call it."""
    importlib.reload(state_module)
    assert torch.equal(read_state(str(path))["model"]["weight"], STATE["model"]["weight"])


def test_a_missing_file_raises_file_not_found(tmp_path):
    with pytest.raises(
        FileNotFoundError, match="absent.pt: there is no such .* such as checkpoint_best.pt"
    ):
        read_state(str(tmp_path / "absent.pt"))


def test_the_error_for_a_missing_checkpoint_names_its_neighbours(tmp_path):
    """The error names the checkpoints beside a missing file, and in a folder that is no export."""
    torch.save(STATE, tmp_path / "there.pt")
    for path in (tmp_path / "absent.pt", tmp_path):
        with pytest.raises(FileNotFoundError, match=f"^{path}: .*; pass {tmp_path}/there.pt"):
            read_state(str(path))
