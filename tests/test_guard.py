"""What fairseq reads is whole or is named, and a folder has one training at a time."""

import os
import signal
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest
import torch
import warm
from fairseq import checkpoint_utils
from script_helpers import USER_DIR, command, failing_command, module

import fairseq_odeformers  # noqa: F401

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

    def build_model(self, cfg):
        model = torch.nn.Linear(2, 2)
        model.set_num_updates = lambda updates: None
        load = model.load_state_dict
        model.load_state_dict = lambda state, strict, model_cfg: load(state, strict)
        return model


@pytest.mark.parametrize(
    "weights, message",
    [
        ({"weight": torch.zeros(2, 2)}, 'has not the weights of its model: Missing .* "bias"'),
        (
            {"weight": torch.zeros(3, 2), "bias": torch.zeros(3)},
            "does not fit data-bin, which has another dictionary .*size mismatch for weight",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(path, weights, message):
    torch.save({**STATE, "model": weights}, path)
    with pytest.raises(ValueError, match=f"^{path} {message}"):
        checkpoint_utils.load_model_ensemble([str(path)], {"data": "data-bin"}, Task())


def train(folder, rank=0, no_save=False):
    """What a training does before its first update, where there is no checkpoint yet."""
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
    return checkpoint_utils.load_checkpoint(cfg, trainer)


def hold(folder, ready):
    train(folder)
    ready.set()
    signal.pause()


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
    os.utime(other)
    path.write_bytes(path.read_bytes()[:5000])
    last = failing_command(*training).splitlines()[-1]
    assert last.startswith(f"ValueError: {path} is not a checkpoint, or is damaged (")
    assert last.endswith(f"the newest other one is {other}")
    with pytest.raises(subprocess.CalledProcessError) as error:
        module("fairseq_odeformers.predict", "parity", "--path", path, "--cpu")
    assert f"predict: error: {path} is not a checkpoint, or is damaged" in error.value.stdout
    assert "Traceback" not in error.value.stdout
    command(*training, "--restore-file", other)
