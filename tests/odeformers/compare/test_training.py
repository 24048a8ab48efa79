"""The seconds that a training logs of its updates, on the clock and of the CPU."""

import json
import re

from make_checkpoints import training_line
from script_helpers import module

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


def test_an_update_that_sleeps_takes_time_but_none_of_the_cpu(training_data, tmp_path):
    (plugin := tmp_path / tmp_path.name).mkdir()
    (plugin / "__init__.py").write_text(SLEEPY)
    line = [training_data / "words", *training_line("transject")[1:], "--user-dir", plugin]
    line += ["--criterion", "sleepy", "--max-update", UPDATES, "--log-format", "json"]
    log = module("odeformers.compare.training", *line, cwd=tmp_path)
    stats = json.loads(re.search(r"\| train \| (\{.*\})", log)[1])
    slept = SLEEP * UPDATES
    assert float(stats["train_clock"]) >= slept
    assert 0 <= float(stats["train_cpu"]) <= float(stats["train_clock"]) - slept + 0.1
