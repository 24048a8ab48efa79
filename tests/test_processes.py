"""Processes of torchrun together train like a single process, on a CPU as on GPUs.

The tests of ``odeformers/check`` prove for all architectures that every parameter gets a gradient,
and two batches the sum of theirs. Here each family runs in processes.
"""

import pytest
import torch
from documents import draw_documents, write_documents
from helpers import OLD
from make_checkpoints import training_config
from script_helpers import trainings

# Copies of parameters in fairseq's encoder layers, for an inference kernel.
UNUSED = {"find_unused_parameters": True} if OLD else {}
KINDS = {
    "alone": (1, {}),
    "legacy_ddp": (2, {"ddp_backend": "legacy_ddp"}),
    "pytorch_ddp": (2, {"ddp_backend": "pytorch_ddp", **UNUSED}),
}
FAMILIES = [  # parameters used once, several times, in computed matrices, and in a solver
    *("macaron_transformer", "transevolve", "pcformer", "transject_lm", "node_transformer"),
    "ot_transformer",
    "tmmformer",
]
BERT = "bert"  # two losses share a forward pass
PRETRAINING = {"_name": "bert_pretraining", "data": "documents", "sample_break_mode": "eos"}
TWO_LOSSES = {"task": PRETRAINING, "criterion": {"_name": "bert_pretraining"}}
RESUMED = "resumed"  # of the first model: all processes get the checkpoint that the first reads
UNEVEN = "uneven"  # its updates have three batches, of two sizes
RESET = [f"reset_{part}" for part in ("dataloader", "lr_scheduler", "meters", "optimizer")]


@pytest.fixture(scope="module")
def weights(training_data):
    """The weights of each way to train and each model after three updates."""
    folder = training_data
    write_documents(folder / "documents", train=draw_documents(4, 10), valid=draw_documents(2))
    start = str(folder / "alone" / FAMILIES[0] / "checkpoint_last.pt")
    resuming = {"restore_file": start, **dict.fromkeys(RESET, True)}
    for kind, (processes, options) in KINDS.items():
        archs = FAMILIES[:1] if kind == "legacy_ddp" else FAMILIES
        clipped = {"clip_norm": 1, "update_freq": [2 // processes]}
        three = {
            "dataset": {"batch_size": 16},
            "optimization": {"clip_norm": 0, "update_freq": [4 // processes]},  # sizes matter
        }
        configs = [
            training_config(
                arch,
                checkpoint={"save_dir": str(folder / kind / name), **checkpoint},
                distributed_training={"distributed_backend": "gloo", **options},
                **{"optimizer": {"adam_eps": 0.01}, "optimization": clipped, **parts},
            )
            for name, arch, checkpoint, parts in [
                *((arch, arch, {}, {}) for arch in archs),
                (RESUMED, FAMILIES[0], resuming, {}),
                (BERT, "macaron_bert", {}, TWO_LOSSES),
                (UNEVEN, FAMILIES[0], {}, three),
            ]
        ]
        trainings(configs, folder, processes)
    return lambda kind, name: torch.load(folder / kind / name / "checkpoint_last.pt")["model"]


@pytest.mark.parametrize(
    "kind, name",
    [
        *(("legacy_ddp", name) for name in (FAMILIES[0], RESUMED, BERT, UNEVEN)),
        *(("pytorch_ddp", name) for name in (*FAMILIES, RESUMED, BERT, UNEVEN)),
    ],
)
def test_two_processes_equal_one_with_twice_the_batches(kind, name, weights):
    """pytorch_ddp also fails if a parameter gets no gradient, except with fairseq 0.12.2."""
    alone, together = weights("alone", name), weights(kind, name)
    assert alone.keys() == together.keys()
    for part, tensor in alone.items():
        assert (together[part] - tensor).abs().max() < 1e-5, part
