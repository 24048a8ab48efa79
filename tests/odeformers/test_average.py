"""``odeformers average`` averages parameters and nothing else."""

import runpy
import sys
from pathlib import Path

import pytest
import torch
from helpers import checkpoint_of

from odeformers import average as average_checkpoints

SCRIPT = Path(__file__).parents[2] / "scripts" / "average_checkpoints.py"


def checkpoint(seed, dtype=torch.float32, **tensors):
    """A checkpoint of a model with tied embeddings, a frozen buffer and a counter."""
    generator = torch.Generator().manual_seed(seed)
    embedding = torch.randn(7, 4, generator=generator).to(dtype)
    frozen = torch.randn(5, generator=torch.Generator().manual_seed(0)).to(dtype)
    model = {
        "encoder.embed_tokens.weight": embedding,
        "decoder.output_projection.weight": embedding,
        "frozen": frozen,
        "counter": torch.tensor([3]),
        **tensors,
    }
    return checkpoint_of(model, seed=seed)


def save(folder, states, form="checkpoint{}.pt"):
    paths = [folder / form.format(number) for number in range(1, len(states) + 1)]
    for state, path in zip(states, paths):
        torch.save(state, path)
    return paths


@pytest.mark.parametrize(
    "count, dtype", [(1, torch.float32), (3, torch.float16), (10, torch.float32)]
)
def test_parameters_are_averaged_and_nothing_else(tmp_path, count, dtype):
    """Equal tensors stay bit-identical, and tied parameters stay tied."""
    states = [checkpoint(seed, dtype) for seed in range(count)]
    averaged = average_checkpoints.average(save(tmp_path, states))
    model, name = averaged["model"], "encoder.embed_tokens.weight"
    mean = torch.stack([state["model"][name].double() for state in states]).mean(0)
    assert model[name].dtype == dtype
    torch.testing.assert_close(model[name], mean.to(dtype))
    assert model[name].data_ptr() == model["decoder.output_projection.weight"].data_ptr()
    assert torch.equal(model["frozen"], states[0]["model"]["frozen"])
    assert torch.equal(model["counter"], torch.tensor([3]))
    assert averaged["extra_state"]["seed"] == count - 1
    assert averaged["extra_state"]["val_loss"] is None  # of another model
    assert averaged["cfg"]["model"].arch == "transformer"
    assert "last_optimizer_state" not in averaged


@pytest.mark.parametrize(
    "other, message",
    [
        ({"extra": torch.zeros(1)}, "have different models: see extra"),
        ({"frozen": torch.zeros(6)}, "have different models: see frozen"),
        ({"counter": torch.tensor([4])}, "differ in counter"),
    ],
)
@pytest.mark.parametrize("swap", [False, True])
def test_checkpoints_that_do_not_match_are_refused(tmp_path, other, message, swap):
    states = [checkpoint(1), checkpoint(2, **other)]
    paths = save(tmp_path, states[::-1] if swap else states)
    with pytest.raises(ValueError, match=f"checkpoint1.pt and .*checkpoint2.pt {message}"):
        average_checkpoints.average(paths)


@pytest.mark.parametrize(
    "by, last, expected",
    [
        ("epoch", 2, ["checkpoint9.pt", "checkpoint10.pt"]),
        ("update", 3, ["checkpoint_1_800.pt", "checkpoint_2_1600.pt", "checkpoint_11_9600.pt"]),
    ],
)
def test_the_last_checkpoints_are_found_by_number(tmp_path, by, last, expected):
    for name in ("8", "9", "10", "_1_800", "_2_1600", "_11_9600", "_best", "_last"):
        (tmp_path / f"checkpoint{name}.pt").touch()
    paths = average_checkpoints.last_checkpoints(tmp_path, by, last)
    assert [path.name for path in paths] == expected


def test_the_script_writes_a_checkpoint_for_fairseq(tmp_path, monkeypatch):
    paths = save(tmp_path, [checkpoint(1), checkpoint(2)])
    output = tmp_path / "averaged.pt"
    monkeypatch.setattr(
        sys, "argv", list(map(str, [SCRIPT, "--output", output, "--inputs", *paths]))
    )
    runpy.run_path(str(SCRIPT), run_name="__main__")
    state = torch.load(output, weights_only=True)
    expected = average_checkpoints.average(paths)["model"]
    assert all(torch.equal(state["model"][name], expected[name]) for name in expected)
    assert len(list(tmp_path.iterdir())) == 3
