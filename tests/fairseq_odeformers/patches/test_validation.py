"""A training that resumes ends where it would have ended without the interruption."""

import json
import re

import pytest
from script_helpers import command, failing_command

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


def train(data, folder, *options):
    place = ["--user-dir", PLUGIN, "--save-dir", folder]
    return command("train", data, *TRAINING, "--arch", "scripted_peak", *place, *options)


def epochs(log):
    return [json.loads(line)["epoch"] for line in re.findall(r"\| valid \| (\{.*\})", log)]


def test_patience_goes_on_after_an_interruption(data, tmp_path):
    """The second epoch is the best; two more without an improvement end the training."""
    whole = train(data, tmp_path / "whole", "--patience", 2, "--max-epoch", 9)
    assert epochs(whole) == [1, 2, 3, 4]
    train(data, tmp_path / "halves", "--patience", 2, "--max-epoch", 3)
    rest = train(data, tmp_path / "halves", "--patience", 2, "--max-epoch", 9)
    assert epochs(rest) == [4]


def test_the_state_of_another_schedule_is_named(data, tmp_path):
    train(data, tmp_path, "--max-epoch", 1, "--lr-scheduler", "fixed")
    place = ["--user-dir", PLUGIN, "--save-dir", tmp_path, "--arch", "scripted_peak"]
    more = ["--max-epoch", 2, "--lr-scheduler", "reduce_lr_on_plateau"]
    told = failing_command("train", data, *TRAINING, *place, *more)
    assert "Traceback" not in told
    *_, last = told.splitlines()
    assert last.startswith("error: --lr-scheduler reduce_lr_on_plateau: the training of ")
    assert "had fixed; give the same" in last
