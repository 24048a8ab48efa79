"""The program that a run trains with."""

import re
import subprocess
import sys

from script_helpers import USER_DIR


def test_its_log_has_the_seconds_of_each_epoch(tmp_path):
    """In lines of fairseq's format, which the reports read."""
    line = [
        *"--task parity --parity-max-length 2 --arch vanilla_transformer --cpu --no-save".split(),
        *"--criterion sequence_classification --optimizer adam --batch-size 8".split(),
        *"--max-epoch 1 --log-format json --user-dir".split(),
    ]
    program = [sys.executable, "-m", "odeformers.compare.training"]
    run = subprocess.run(
        [*program, *line, USER_DIR], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert re.search(r'\| INFO \| train \| \{.*"train_cpu": "', run.stdout + run.stderr)
