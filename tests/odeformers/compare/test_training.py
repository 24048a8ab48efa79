"""``fairseq-train`` as started by a run, and the seconds that it logs."""

import json
import re
import subprocess

from make_checkpoints import training_line, write_data, write_splits
from script_helpers import IN_MAIN_THREAD, module

from odeformers.processes import log_stats, python_command

SLEEP, UPDATES = 0.5, 3
SLEEPY = f"""
import time
from fairseq.criterions import register_criterion
from fairseq_odeformers.criterions.sequence_classification import (
    SequenceClassificationConfig,
    SequenceClassificationCriterion,
)

@register_criterion("sleepy", dataclass=SequenceClassificationConfig)
class Sleepy(SequenceClassificationCriterion):
    def forward(self, model, sample, reduce=True):
        time.sleep({SLEEP})
        return super().forward(model, sample, reduce)
"""


def test_the_log_of_a_training_has_its_statistics(tmp_path):
    """Each epoch and validation has a line that a report reads, with CPU seconds."""
    write_data(tmp_path)
    write_splits(tmp_path, train=8)
    options = [*training_line("transformer_classifier"), *IN_MAIN_THREAD, "--max-epoch", "1"]
    options = [option for option in options if option != "--disable-validation"]
    words = python_command(["fairseq-train", *options, "--log-format", "json"])
    ended = subprocess.run(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = ended.stdout.decode().splitlines()
    for kind, name in (("train", "train_cpu"), ("valid", "valid_loss")):
        (statistics,) = [stats for line in lines if (stats := log_stats(line, kind))]
        assert float(statistics[name]) >= 0


def test_a_sleeping_update_takes_no_cpu_time(training_data, tmp_path):
    (plugin := tmp_path / tmp_path.name).mkdir()
    (plugin / "__init__.py").write_text(SLEEPY)
    line = [training_data / "words", *training_line("transject")[1:], "--user-dir", plugin]
    line += ["--criterion", "sleepy", "--max-update", UPDATES, "--log-format", "json"]
    log = module("odeformers.compare.training", *line, cwd=tmp_path)
    stats = json.loads(re.search(r"\| train \| (\{.*\})", log)[1])
    slept = SLEEP * UPDATES
    assert float(stats["train_clock"]) >= slept
    assert 0 <= float(stats["train_cpu"]) <= float(stats["train_clock"]) - slept + 0.1
