"""Training in other precisions stays near float32's, on a CPU.

With ``PRECISION_UPDATES=200`` every registered model trains that long, and ``-s`` shows the losses.
"""

import json
import math
import os
import re

import pytest
from make_checkpoints import MODELS, training_line, write_data, write_splits
from script_helpers import trainings

UPDATES = int(os.environ.get("PRECISION_UPDATES", 4))
FAMILIES = "macaron_transformer node_transformer transevolve transformer_lm_orthogonal transject"
TRAINED = MODELS if UPDATES >= 200 else FAMILIES.split()
PRECISIONS = ["", "--bf16", "--memory-efficient-bf16", "--fp16", "--amp"]


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    """The mean over the last quarter of the updates, of each model and precision."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    write_splits(folder, train=40)
    length = ["--max-update", UPDATES, "--log-interval", UPDATES // 4, "--log-format", "json"]
    names = [(arch, precision) for arch in TRAINED for precision in PRECISIONS]
    lines = [
        training_line(arch, *filter(None, [precision]), *length, "--no-save")
        for arch, precision in names
    ]
    found = {}
    for name, log in zip(names, trainings(lines, folder)):
        last = json.loads(re.findall(r"train_inner:(\{.*\})$", log, re.M)[-1])
        assert int(last["num_updates"]) == UPDATES or "--fp16" in name, log
        found[name] = float(last["loss"])
    for arch in TRAINED:
        print(f"| `{arch}` |", " | ".join(f"{found[arch, kind]:.3f}" for kind in PRECISIONS), "|")
    return found


@pytest.mark.parametrize("precision", PRECISIONS[1:])
@pytest.mark.parametrize("arch", TRAINED)
def test_loss_is_that_of_float32(arch, precision, losses):
    """Within 2%; a number that is none would not be."""
    assert math.isclose(losses[arch, precision], losses[arch, ""], rel_tol=0.02)
