"""What fairseq reads is whole or is named, and a folder has one training at a time."""

import os
import re
import signal
import subprocess
from argparse import Namespace
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
import warm
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from make_checkpoints import write_data
from script_helpers import USER_DIR, command, contents, failing_command, full_disk, module

import fairseq_odeformers
from fairseq_odeformers import LOADERS

SAFE_BY_DEFAULT = hasattr(torch.serialization, "get_unsafe_globals_in_checkpoint")

STATE = {
    "args": None,
    "cfg": {"common": {"seed": 1}, "model": {}, "task": {}},
    "model": {"weight": torch.rand(2000)},
    "optimizer_history": [{"criterion_name": "", "lr_scheduler_state": {}, "num_updates": 7}],
    "extra_state": {"train_iterator": {"epoch": 1}},
    "last_optimizer_state": {},
}


def flip(content):
    """Two bits of the weights, which torch reads without a word."""
    place = content.index(STATE["model"]["weight"].numpy().tobytes()) + 1000
    flipped = bytes(byte ^ 1 for byte in content[place : place + 2])
    return content[:place] + flipped + content[place + 2 :]


@pytest.fixture
def path(tmp_path):
    torch.save(STATE, tmp_path / "checkpoint_last.pt")
    return tmp_path / "checkpoint_last.pt"


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: b"text",
        lambda content: content[: len(content) // 2],
        lambda content: content[:-30],
        flip,
    ],
)
def test_a_damaged_checkpoint_is_named_and_another_offered(path, damage):
    other = path.with_name("checkpoint_1_20.pt")
    torch.save(STATE, other)
    path.write_bytes(damage(path.read_bytes()))
    message = f"^{path} is not a checkpoint, or is damaged .*; the newest other one is {other}$"
    with pytest.raises(ValueError, match=message):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


@pytest.mark.parametrize(
    "state", [[1], {"weight": torch.zeros(2)}, {"model": {}}, {"model": [], "cfg": {}}]
)
def test_what_no_training_has_saved_is_named(path, state):
    torch.save(state, path)
    with pytest.raises(ValueError, match=f"^{path} is not a checkpoint, or is damaged [^;]*$"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_damaged_checkpoint_is_not_offered(path):
    older, newer = (path.with_name(f"checkpoint_1_{number}.pt") for number in (20, 40))
    torch.save(STATE, older)
    newer.write_bytes(older.read_bytes()[:-30])
    os.utime(older, (1, 1))
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"the newest other one is {older}$"):
        checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_full_disk_leaves_what_was_saved_before(path):
    """What can be written in part only, is not there; no second attempt is appended to it."""
    before = contents(path.parent)
    other = path.with_name("checkpoint_1_20.pt")
    message = f"^{other} cannot be saved .*File too large.*; earlier checkpoints are whole"
    with full_disk(1000):
        with pytest.raises(OSError, match=message):
            checkpoint_utils.torch_persistent_save(STATE, str(other))
        with pytest.raises(OSError, match="File too large"):
            PathManager.copy(str(path), str(other), overwrite=True)
    assert contents(path.parent) == before


def test_whole_checkpoints_load(path):
    loaded = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert torch.equal(loaded["model"]["weight"], STATE["model"]["weight"])
    torch.save(STATE, path, _use_new_zipfile_serialization=False)  # as before torch 1.6
    assert "model" in checkpoint_utils.load_checkpoint_to_cpu(str(path))


def test_a_file_that_is_not_there_is_said_to_be(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent.pt"):
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "absent.pt"))


class Task:
    """Of a model with one layer, which the weights of a checkpoint may not fit."""

    def __init__(self, layer):
        self.layer = layer

    def build_model(self, cfg):
        model = torch.nn.Sequential(OrderedDict({self.layer: torch.nn.Linear(2, 2)}))
        model.set_num_updates = lambda updates: None
        load = model.load_state_dict
        model.load_state_dict = lambda state, strict, model_cfg: load(state, strict)
        return model


@pytest.mark.parametrize(
    "layer, rows, message",
    [
        ("fc1", 2, 'does not fit its model: Missing .* "fc1.bias"'),
        ("fc1", 3, "does not fit its model: size mismatch for fc1.weight"),
        ("lm_head", 3, "does not fit data-bin, which has another dictionary .*for lm_head.weight"),
    ],
)
def test_weights_that_do_not_fit_are_named(path, layer, rows, message):
    weights = {f"{layer}.weight": torch.zeros(rows, 2)}
    if rows == 3:
        weights[f"{layer}.bias"] = torch.zeros(rows)
    torch.save({**STATE, "model": weights}, path)
    with pytest.raises(ValueError, match=f"^{path} {message}"):
        checkpoint_utils.load_model_ensemble([str(path)], {"data": "data-bin"}, Task(layer))


def train(folder, rank=0, no_save=False):
    """The trainer, after what is done before the first update; there is no checkpoint yet."""
    cfg = Namespace(
        save_dir=str(folder),
        no_save=no_save,
        restore_file="checkpoint_last.pt",
        finetune_from_model=None,
        optimizer_overrides="{}",
        **dict.fromkeys(("reset_optimizer", "reset_lr_scheduler")),
        **dict.fromkeys(("reset_meters", "reset_dataloader")),
    )
    trainer = Namespace(
        data_parallel_rank=rank,
        checkpoint_suffix="",
        load_checkpoint=lambda *args, **options: None,
        get_train_iterator=lambda **options: Namespace(epoch=1),
        lr_step=lambda epoch: None,
    )
    checkpoint_utils.load_checkpoint(cfg, trainer)
    return trainer


def hold(folder, ready):
    trainer = train(folder)
    ready.set()
    signal.pause()
    return trainer


def test_a_second_training_is_refused_until_the_first_is_dead(tmp_path):
    """The other processes of the second one, and what saves nothing, go on."""
    folder = tmp_path / "run"
    ready = warm.FORK.Event()
    first = warm.FORK.Process(target=hold, args=(folder, ready))
    first.start()
    assert ready.wait(60)
    with pytest.raises(ValueError, match=f"--save-dir {folder}: another training saves there"):
        train(folder)
    train(folder, rank=1)
    train(folder, no_save=True)
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    train(folder)
    train(folder)
    assert [path.name for path in Path(folder).iterdir()] == [".lock"]


def test_commands_say_what_is_wrong_and_go_on_without_it(tmp_path):
    """fairseq's in the last line of their output, this project's in the only one."""
    folder = tmp_path / "run"
    training = [
        *"train --task parity --arch vanilla_transformer --parity-max-length 2 --cpu".split(),
        *"--criterion sequence_classification --optimizer adam --batch-size 8".split(),
        *["--user-dir", USER_DIR, "--save-dir", folder, "--max-epoch", 2, "--no-progress-bar"],
    ]
    ready = warm.FORK.Event()
    first = warm.FORK.Process(target=hold, args=(folder, ready))
    first.start()
    assert ready.wait(60)
    last = failing_command(*training).splitlines()[-1]
    assert last.startswith(f"ValueError: --save-dir {folder}: another training saves there")
    first.kill()
    first.join()
    command(*training)
    path, other = folder / "checkpoint_last.pt", folder / "checkpoint2.pt"
    before = contents(folder)
    with full_disk(path.stat().st_size - 1000):
        last = failing_command(*training, "--max-epoch", 3).splitlines()[-1]
    assert last.startswith(f"OSError: {folder / 'checkpoint3.pt'} cannot be saved ([Errno 27]")
    assert contents(folder) == before
    os.utime(other)
    path.write_bytes(path.read_bytes()[:5000])
    last = failing_command(*training).splitlines()[-1]
    assert last.startswith(f"ValueError: {path} is not a checkpoint, or is damaged (")
    assert last.endswith(f"the newest other one is {other}")
    with pytest.raises(subprocess.CalledProcessError) as error:
        module("fairseq_odeformers", "predict", "parity", "--path", path, "--cpu")
    assert f"predict: error: {path} is not a checkpoint, or is damaged" in error.value.stdout
    assert "Traceback" not in error.value.stdout
    before = contents(folder)
    last = failing_command(*training, "--restore-file", other.name).splitlines()[-1]
    assert last.startswith(f"ValueError: --restore-file {other.name}: no such file")
    assert contents(folder) == before
    command(*training, "--restore-file", other)


class CreatesFolder:
    """Runs a command when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("trace",)


COMMON = f"--user-dir {USER_DIR} --cpu"
MODEL = f"words {COMMON} --path foreign.pt"
TRAIN = (
    f"{COMMON} --task parity --arch vanilla_transformer --criterion sequence_classification "
    "--optimizer adam --batch-size 8"
)
REFUSED = "foreign.pt is not a checkpoint, or is damaged (it holds posix.mkdir, which could run"


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A folder with dictionaries and a checkpoint that would make another folder, ``trace``."""
    folder = tmp_path_factory.mktemp("foreign")
    write_data(folder)
    torch.save({**STATE, "foreign": CreatesFolder()}, folder / "foreign.pt")
    return folder


@pytest.mark.skipif(not SAFE_BY_DEFAULT, reason="torch < 2.6 trusts every type")
@pytest.mark.parametrize(
    "line",
    [
        f"fairseq_cli.train {TRAIN} --restore-file foreign.pt",
        f"fairseq_cli.train {TRAIN} --finetune-from-model foreign.pt",
        f"fairseq_cli.generate {MODEL} -s de -t en",
        f"fairseq_cli.interactive {MODEL} -s de -t en",
        f"fairseq_cli.validate {MODEL} --task translation --batch-size 1",
        f"fairseq_cli.eval_lm {MODEL}",
        "fairseq_odeformers predict words --path foreign.pt",
        "fairseq_odeformers analyse foreign.pt --data words --out out",
        "fairseq_odeformers export foreign.pt out",
    ],
)
def test_commands_run_no_code_of_a_checkpoint(line, foreign):
    """``scripts/average_checkpoints.py`` has a test of its own."""
    with pytest.raises(subprocess.CalledProcessError) as error:
        module(*line.split(), cwd=foreign)
    assert REFUSED in error.value.stdout.splitlines()[-1]
    assert "weights_only" not in error.value.stdout  # no advice to load it nevertheless
    assert not {"trace", "out"}.intersection(path.name for path in foreign.iterdir())


@pytest.mark.skipif(not SAFE_BY_DEFAULT, reason="torch < 2.6 trusts every type")
@pytest.mark.parametrize("name", LOADERS)
def test_loaders_run_no_code_of_a_checkpoint(name, foreign, monkeypatch):
    monkeypatch.chdir(foreign)
    with pytest.raises(ValueError, match=re.escape(REFUSED)):
        getattr(fairseq_odeformers, name)("foreign.pt", "words")
    assert not (foreign / "trace").exists()
