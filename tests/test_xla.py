"""fairseq's TPU mode trains what a CPU trains, under torch_xla with its client for CPUs.

Run by ``make test-xla``, in an environment with torch_xla.
"""

import importlib.util

import pytest
import torch
from make_checkpoints import MODELS, parsed, task_of, training_line, write_data, write_splits
from script_helpers import trainings

pytestmark = pytest.mark.skipif(
    not importlib.util.find_spec("torch_xla"), reason="needs torch_xla: make test-xla"
)
FIXED_GRID = ["--ode-method", "rk4", "--ode-steps", 2]
EPOCHS = ["--max-epoch", 4, "--max-update", 0, "--optimizer", "sgd", "--lr", 0.05]
BUCKETS = {
    "translation": ["--num-batch-buckets", 2],
    "sentence_prediction": "--task long_range_arena --num-batch-buckets 2".split(),
}


def line(arch, *options):
    """Of four epochs, each of the same shapes, the last of which is validated."""
    grid = FIXED_GRID if arch.startswith("node_transformer") else []
    line = training_line(arch, *EPOCHS, *BUCKETS.get(task_of(arch), []), *grid, *options)
    line[line.index("--disable-validation")] = "--validate-interval=4"
    return line


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    write_splits(folder, train=40, valid=8)
    return folder


@pytest.fixture(scope="module", params=MODELS)
def found(request, folder):
    """The checkpoint and the log of a training on the CPU, and of one by XLA."""
    results = []
    for device in ([], ["--tpu"]):
        saved = folder / request.param / "".join(["cpu", *device])
        config = parsed(line(request.param, *device, "--save-dir", saved))
        (log,) = trainings([config], folder, PJRT_DEVICE="CPU")
        results.append((torch.load(saved / "checkpoint_last.pt"), log))
    return results


def test_xla_trains_what_a_cpu_trains(found):
    """The loss of validation and the weights, from the checkpoint, which loads on the CPU."""
    (expected, _), (state, _) = found
    losses = [saved["extra_state"]["val_loss"] for saved in (expected, state)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, tensor in expected["model"].items():
        assert (state["model"][name] - tensor).abs().max() < 1e-4, name


def test_nothing_is_compiled_once_the_shapes_have_been_seen(found):
    _, (_, log) = found
    epochs = log.split("begin training epoch")[1:]
    assert len(epochs) == 4
    compiled = ["XLA compilation detected" in epoch for epoch in epochs]
    assert compiled[0] and not compiled[2]
