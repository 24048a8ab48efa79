"""Checkpoints in the layout of the authors' code load, and compute what that code computes."""

import argparse
import re

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import Task, make_model

# By their numbers in an encoder layer of the authors' code.
LAYER_NORMS = ("self_attn_layer_norm", "final_layer_norm", "macaron_layer_norm")
SIZES = {"embed_dim": 16, "ffn_embed_dim": 16, "layers": 2, "attention_heads": 4}


def released(state):
    """The same parameters in the tensors and under the names that the authors' code saves."""
    results = {}
    for name, tensor in state.items():
        if match := re.match(r"(.*)\.([qkv])_proj\.(\w+)", name):
            path, which, kind = match.groups()
            parts = [state[f"{path}.{which}_proj.{kind}"] for which in "qkv"]
            name, tensor = f"{path}.in_proj_{kind}", torch.cat(parts)
        for number, norm in enumerate(LAYER_NORMS if name.startswith("encoder") else ()):
            name = name.replace(norm, f"layer_norms.{number}")
        if not name.endswith("dictionary_version") and "output_projection" not in name:
            results[name] = tensor
    for side in ("encoder", "decoder"):
        results[f"{side}.version"] = torch.Tensor([2])
        results[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
    return results


def saved(state, arch, data, normalize_before):
    """A checkpoint of fairseq 0.6, with the options that matter to the model and its task."""
    options = dict(
        task="translation",
        arch=arch,
        data=[str(data)],
        source_lang="de",
        target_lang="en",
        left_pad_source="True",
        left_pad_target="False",
        max_source_positions=1024,
        max_target_positions=1024,
        criterion="label_smoothed_cross_entropy",
        optimizer="adam",
        lr=[0.0015],
        lr_scheduler="inverse_sqrt",
        macaron=True,
        relu_dropout=0.1,
        share_all_embeddings=True,
        share_decoder_input_output_embed=True,
    )
    for side in ("encoder", "decoder"):
        options |= {f"{side}_{name}": size for name, size in SIZES.items()}
        options[f"{side}_normalize_before"] = normalize_before
    update = {
        "criterion_name": "LabelSmoothedCrossEntropyCriterion",
        "optimizer_name": "FairseqAdam",
        "lr_scheduler_state": {"best": 4.0},
        "num_updates": 10,
    }
    iterator = {"epoch": 1, "iterations_in_epoch": 10}
    return {
        "args": argparse.Namespace(**options),
        "model": state,
        "optimizer_history": [update],
        "last_optimizer_state": None,
        "extra_state": {"train_iterator": iterator, "val_loss": 4.0},
    }


def make(arch, *options):
    """A model whose parameters all differ from their initial values."""
    for side in ("encoder", "decoder"):
        for name, size in SIZES.items():
            options += (f"--{side}-{name.replace('_', '-')}", str(size))
    model = make_model(arch, "--share-all-embeddings", sizes=options).eval()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter), alpha=0.3)
    return model


@pytest.mark.parametrize(
    "arch, normalize_before",
    [
        ("transformer_iwslt_de_en_macaron_v2", False),
        ("transformer_wmt_en_de_big_t2t_macaron", True),
    ],
)
def test_checkpoints_with_the_released_names_load(tmp_path, arch, normalize_before):
    """fairseq's loader puts each tensor where a model of equal output has it."""
    for language in ("de", "en"):
        Task().dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    form = "" if normalize_before else "no-"
    model = make(arch, *(f"--{form}{side}-normalize-before" for side in ("encoder", "decoder")))
    state = released(model.state_dict())
    torch.save(saved(state, arch, tmp_path, normalize_before), tmp_path / "checkpoint.pt")
    (loaded,), _, _ = checkpoint_utils.load_model_ensemble_and_task(
        [str(tmp_path / "checkpoint.pt")]
    )
    source, target = torch.randint(4, 50, (1, 9)), torch.randint(4, 50, (1, 7))
    actual, expected = (one.eval()(source, torch.tensor([9]), target)[0] for one in (loaded, model))
    assert torch.equal(actual, expected)


def test_every_tensor_of_a_published_layer_is_needed():
    """A checkpoint without one of its tensors, or with half of one, does not load."""
    model = make("transformer_iwslt_de_en_macaron_v2")
    state = released(model.state_dict())
    model.load_state_dict(dict(state))
    for name in (name for name in state if ".layers." in name):
        without = {key: tensor for key, tensor in state.items() if key != name}
        halved = {**state, name: state[name][: len(state[name]) // 2]}
        for damaged in (without, halved):
            with pytest.raises(RuntimeError, match="state_dict"):
                model.load_state_dict(damaged)
