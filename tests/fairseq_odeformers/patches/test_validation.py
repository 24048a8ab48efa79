"""A training that resumes ends where it would have ended without the interruption."""

import json
import re
import sys
from pathlib import Path

import pytest
import torch
from script_helpers import command, execute, failing_command

from tests.odeformers.compare.outside.commands import PLUGIN, write_labelled

TRAINING = (
    "--task sentence_prediction --criterion sequence_classification --optimizer adam --cpu "
    "--batch-size 2 --required-batch-size-multiple 1 --num-classes 3 --num-workers 0 "
    "--no-progress-bar --log-format json "
    "--best-checkpoint-metric accuracy --no-epoch-checkpoints --encoder-embed-dim 8"
).split()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_labelled(tmp_path_factory.mktemp("labelled") / "data", train=40, valid=60, test=8)


def train(data, folder, *options, arch="scripted_peak"):
    place = ["--user-dir", PLUGIN, "--save-dir", folder]
    return command("train", data, *TRAINING, "--arch", arch, *place, *options)


def epochs(log):
    return [json.loads(line)["epoch"] for line in re.findall(r"\| valid \| (\{.*\})", log)]


def test_patience_continues_after_an_interruption(data, tmp_path):
    """The second epoch is the best, and two more epochs without an improvement end the training."""
    whole = train(data, tmp_path / "whole", "--patience", 2, "--max-epoch", 9)
    assert epochs(whole) == [1, 2, 3, 4]
    train(data, tmp_path / "halves", "--patience", 2, "--max-epoch", 3)
    rest = train(data, tmp_path / "halves", "--patience", 2, "--max-epoch", 9)
    assert epochs(rest) == [4]


HYDRA = """
common: {{user_dir: {plugin}, cpu: true, log_format: simple}}
task: {{_name: sentence_prediction, data: {data}, num_classes: 3}}
model: {{_name: scripted, script: peak}}
criterion:
  _name: sequence_classification
  classification_head_name: sentence_classification_head
  regression_target: false
optimizer: {{_name: adam}}
lr_scheduler: {{_name: fixed}}
dataset: {{batch_size: 2, required_batch_size_multiple: 1, num_workers: 0, data_buffer_size: 0}}
optimization: {{max_epoch: 4, lr: [0.001]}}
checkpoint: {{best_checkpoint_metric: accuracy, no_epoch_checkpoints: true}}
hydra: {{run: {{dir: .}}}}
"""


def test_the_best_checkpoint_has_the_highest_accuracy(data, tmp_path):
    """Both of fairseq's training commands select the second epoch, after 40 updates."""
    (tmp_path / "peak.yaml").write_text(HYDRA.format(plugin=PLUGIN, data=data))
    place = ["--config-dir", tmp_path, "--config-name", "peak"]
    program = Path(sys.executable).with_name("fairseq-hydra-train")
    logs = [
        train(data, tmp_path / "train", "--max-epoch", 4),
        execute(program, *place, cwd=tmp_path),
    ]
    for log in logs:
        assert re.findall(r"Best checkpoint @ (\d+) updates", log)[-1] == "40"


def test_each_of_equal_checkpoints_is_kept_with_its_score(data, tmp_path):
    """The second and the third epoch have the same accuracy, and the second the lower loss."""
    words = ["--max-epoch", 3, "--keep-best-checkpoints", 5]
    log = train(data, tmp_path, *words, arch="scripted_plateau")
    assert "score None" not in log
    assert len([*tmp_path.glob("checkpoint.best_accuracy_*.pt")]) == 3
    states = [torch.load(tmp_path / f"checkpoint_{name}.pt") for name in ("best", "last")]
    assert [state["optimizer_history"][-1]["num_updates"] for state in states] == [40, 60]
    scores = [state["extra_state"][name] for state in states for name in ("val_loss", "best")]
    assert len({*map(float, scores)}) == 1


def test_resuming_with_another_schedule_names_both(data, tmp_path):
    train(data, tmp_path, "--max-epoch", 1, "--lr-scheduler", "fixed")
    place = ["--user-dir", PLUGIN, "--save-dir", tmp_path, "--arch", "scripted_peak"]
    more = ["--max-epoch", 2, "--lr-scheduler", "reduce_lr_on_plateau"]
    output = failing_command("train", data, *TRAINING, *place, *more)
    assert "Traceback" not in output
    *_, last = output.splitlines()
    assert last.startswith("error: --lr-scheduler reduce_lr_on_plateau: the training run of ")
    assert "used fixed; use the same" in last
