"""Processes that torchrun starts train together what one trains, on a CPU as on GPUs."""

import pytest
import torch
from make_checkpoints import MODELS, training_line, write_data, write_splits
from script_helpers import trainings

SAME = "--optimizer sgd --lr 0.1 --clip-norm 1 --distributed-backend gloo".split()
KINDS = {
    "alone": (1, ["--update-freq", 2]),
    "legacy_ddp": (2, ["--ddp-backend", "legacy_ddp"]),
    "pytorch_ddp": (2, ["--ddp-backend", "pytorch_ddp"]),
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Of each way to train and each model, after three updates."""
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    write_splits(folder, train=40)
    for kind, (processes, options) in KINDS.items():
        lines = [
            training_line(arch, *SAME, *options, "--save-dir", folder / kind / arch)
            for arch in MODELS
        ]
        trainings(lines, folder, processes)
    return lambda kind, arch: torch.load(folder / kind / arch / "checkpoint_last.pt")["model"]


@pytest.mark.parametrize("kind", ["legacy_ddp", "pytorch_ddp"])
@pytest.mark.parametrize("arch", MODELS)
def test_two_processes_are_one_with_twice_the_batches(arch, kind, weights):
    """pytorch_ddp also fails if a parameter gets no gradient."""
    alone, together = weights("alone", arch), weights(kind, arch)
    assert alone.keys() == together.keys()
    for name, tensor in alone.items():
        assert (together[name] - tensor).abs().max() < 1e-5, name
