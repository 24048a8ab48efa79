"""Before torch 2.10 only checkpoints are read that this user's fairseq has written, or trusted."""

import logging
import shutil

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import checkpoint_of

from fairseq_odeformers.checkpoints import origin
from fairseq_odeformers.checkpoints.state import read_state
from odeformers import average

STATE = checkpoint_of({"weight": torch.rand(20)})


@pytest.fixture
def old_torch(tmp_path, monkeypatch):
    """Set up this process as with torch 2.9, for a user who trusts no file."""
    monkeypatch.setattr(origin, "HARDENED", False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv(origin.TRUST, raising=False)
    origin.warn.cache_clear()


def test_a_file_of_another_origin_is_refused(old_torch, tmp_path, monkeypatch):
    """A file that this user's fairseq did not write is refused before it is unpickled."""
    path = tmp_path / "checkpoint_last.pt"
    checkpoint_utils.torch_persistent_save(STATE, str(tmp_path / "own.pt"))
    torch.save(checkpoint_of({"weight": torch.rand(20)}), path)
    with pytest.raises(
        ValueError, match=f"^{path} is not loaded: .*CVE-.* set ODEFORMERS_TRUST=1 "
    ):
        read_state(str(path))
    with pytest.raises(ValueError, match="is not loaded"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    monkeypatch.setenv(origin.TRUST, "1")
    assert read_state(str(path))["model"].keys() == {"weight"}


def test_a_file_that_was_saved_here_is_read(old_torch, tmp_path, caplog):
    """A saved file is read wherever it is copied; an average of saved files is read, too.

    A changed file is not.
    """
    path, copied = tmp_path / "checkpoint_1_1.pt", tmp_path / "elsewhere" / "best.pt"
    copied.parent.mkdir()
    checkpoint_utils.torch_persistent_save(STATE, str(path))
    shutil.copyfile(path, copied)
    mean = tmp_path / "mean.pt"
    average.main(["--inputs", str(path), str(copied), "--output", str(mean)])
    with caplog.at_level(logging.WARNING):
        for each in (path, copied, mean):
            assert torch.equal(read_state(str(each))["model"]["weight"], STATE["model"]["weight"])
    assert caplog.text.count("CVE-2026-24747") <= 1  # average.main has warned
    torch.save({**torch.load(path), "more": 1}, path)
    with pytest.raises(ValueError, match="is not loaded"):
        read_state(str(path))


def test_the_warning_about_torchs_loader_is_logged_once(old_torch, tmp_path, caplog):
    path = str(tmp_path / "own.pt")
    checkpoint_utils.torch_persistent_save(STATE, path)
    for _ in range(2):
        read_state(path)
    assert caplog.text.count("may run code in a crafted checkpoint (CVE-2026-24747)") == 1


def test_an_older_torch_reads_what_a_hardened_one_saved(old_torch, tmp_path, monkeypatch):
    path = str(tmp_path / "own.pt")
    with monkeypatch.context() as newer:
        newer.setattr(origin, "HARDENED", True)
        checkpoint_utils.torch_persistent_save(STATE, path)
    assert read_state(path)["model"].keys() == {"weight"}
