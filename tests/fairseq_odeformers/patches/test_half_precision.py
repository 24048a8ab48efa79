"""A training in half precision resumes within an epoch to the bit."""

import pytest
import torch
from make_checkpoints import training_config
from script_helpers import trainings

GROWING = {"fp16_init_scale": 4, "fp16_scale_window": 3}  # the loss scale, in each third update
PRECISIONS = {
    "bf16": {"bf16": True},
    "fp16": {"fp16": True, **GROWING},
    "memory_efficient_bf16": {"bf16": True, "memory_efficient_bf16": True},
    "memory_efficient_fp16": {"fp16": True, "memory_efficient_fp16": True, **GROWING},
}
ARCHS = ["macaron_transformer", "transject_lm", "transevolve_lm"]
START, END = 4, 9  # updates, in one epoch


def half_precision(arch, precision, folder, updates, **parts):
    return training_config(
        arch,
        common=PRECISIONS[precision],
        optimization={"max_update": updates},
        checkpoint={"save_dir": str(folder), "no_save_optimizer_state": False},
        **parts,
    )


def last(folder):
    return torch.load(folder / "checkpoint_last.pt", weights_only=False)


@pytest.fixture(scope="module")
def folders(training_data):
    """By precision and model, the folders of one training without and one with an interruption."""
    names = [(precision, arch) for precision in PRECISIONS for arch in ARCHS]
    folders = {
        name: [training_data.joinpath(*name, kind) for kind in ("straight", "resumed")]
        for name in names
    }
    configs = [
        half_precision(arch, precision, folder, updates)
        for (precision, arch), (straight, resumed) in folders.items()
        for folder, updates in ((straight, END), (resumed, START), (resumed, END))
    ]
    logs = trainings(configs, training_data)
    assert sum("Loaded checkpoint" in log for log in logs) == len(folders)
    return folders


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("arch", ARCHS)
def test_an_interrupted_training_is_bit_identical(arch, precision, folders):
    straight, resumed = map(last, folders[precision, arch])
    assert straight["optimizer_history"][-1]["num_updates"] == END
    scales = [saved["last_optimizer_state"].get("loss_scale") for saved in (straight, resumed)]
    assert scales[0] == scales[1] and (scales[0] or 32) == 32
    for name, weight in straight["model"].items():
        assert torch.equal(resumed["model"][name], weight), name


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_a_resumed_training_starts_from_changed_weights(precision, folders, training_data):
    """A training resumes from the model's weights, which averaging may have changed."""
    folder = folders[precision, ARCHS[0]][0]
    saved = last(folder)
    for name, weight in saved["model"].items():
        if name.endswith((".weight", ".bias")):
            weight *= 2
    torch.save(saved, folder / "checkpoint_last.pt")
    still = {"optimizer": {"lr": [0.0]}, "lr_scheduler": {"lr": [0.0]}}
    trainings([half_precision(ARCHS[0], precision, folder, END + 1, **still)], training_data)
    resumed = last(folder)
    assert resumed["optimizer_history"][-1]["num_updates"] == END + 1
    assert all(torch.equal(resumed["model"][name], w) for name, w in saved["model"].items())


def test_checkpoints_of_fairseqs_models_keep_their_format(training_data):
    config = half_precision("transformer_lm", "bf16", training_data / "guest", 1)
    trainings([config], training_data)
    assert last(training_data / "guest")["last_optimizer_state"].keys() == {"state", "param_groups"}
