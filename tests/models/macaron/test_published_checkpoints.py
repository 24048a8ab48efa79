"""Checkpoints in the layout of the authors' code load, and compute what that code computes."""

import argparse
import math

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import PAD, Task, make_model

from fairseq_odeformers.models.macaron import naive

WIDTH, HEADS, INNER, LAYERS = 16, 4, 16, 2
ARCH = "transformer_iwslt_de_en_macaron_v2"


def published_parameters(normalize_before=True):
    """The names and shapes that the authors' code saves, with random values."""
    torch.manual_seed(5)
    model = {}

    def add(name, *shape):
        model[name] = torch.randn(shape) * 0.3

    def linear(name, inputs, outputs):
        add(f"{name}.weight", outputs, inputs)
        add(f"{name}.bias", outputs)

    def layer_norm(name):
        model[f"{name}.weight"] = 1 + torch.randn(WIDTH) * 0.1
        add(f"{name}.bias", WIDTH)

    def attention(name):
        add(f"{name}.in_proj_weight", 3 * WIDTH, WIDTH)
        add(f"{name}.in_proj_bias", 3 * WIDTH)
        linear(f"{name}.out_proj", WIDTH, WIDTH)

    add("encoder.embed_tokens.weight", len(Task().dictionary), WIDTH)
    model["decoder.embed_tokens.weight"] = model["encoder.embed_tokens.weight"]
    for side, norms in (
        ("encoder", ["layer_norms.0", "layer_norms.1", "layer_norms.2"]),
        ("decoder", [f"{n}_layer_norm" for n in ("self_attn", "encoder_attn", "final", "macaron")]),
    ):
        model[f"{side}.version"] = torch.Tensor([2])
        model[f"{side}.embed_positions._float_tensor"] = torch.zeros(1)
        for index in range(LAYERS):
            layer = f"{side}.layers.{index}"
            for name in ("macaron_fc", "fc"):
                linear(f"{layer}.{name}1", WIDTH, INNER)
                linear(f"{layer}.{name}2", INNER, WIDTH)
            for name in norms:
                layer_norm(f"{layer}.{name}")
            attention(f"{layer}.self_attn")
            if side == "decoder":
                attention(f"{layer}.encoder_attn")
        if normalize_before:
            layer_norm(f"{side}.layer_norm")
    return model


def published_options(arch, data, normalize_before):
    """The options in a checkpoint of fairseq 0.6 that matter to the model and its task."""
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
        options[f"{side}_embed_dim"] = WIDTH
        options[f"{side}_ffn_embed_dim"] = INNER
        options[f"{side}_layers"] = LAYERS
        options[f"{side}_attention_heads"] = HEADS
        options[f"{side}_normalize_before"] = normalize_before
    return argparse.Namespace(**options)


def authors_model(state, source, target, pre_norm):
    """The scores of one pair of sentences without padding, from the parameters alone."""

    def linear(name):
        return state[f"{name}.weight"].T, state[f"{name}.bias"]

    def norm(name):
        return lambda x: naive.layer_norm(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def ffn(name, norm_name):
        weights = *linear(f"{name}1"), *linear(f"{name}2")
        return (lambda x: naive.feed_forward(x, *weights)), norm(norm_name)

    def attention(name, norm_name, memory=None, causal=False):
        projections = state[f"{name}.in_proj_weight"].chunk(3)
        biases = state[f"{name}.in_proj_bias"].chunk(3)
        w_o, b_o = linear(f"{name}.out_proj")

        def attend(x):
            y = x if memory is None else memory
            projected = (z @ w.T + b for z, w, b in zip((x, y, y), projections, biases))
            return naive.multi_head_attention(*projected, HEADS, causal) @ w_o + b_o

        return attend, norm(norm_name)

    def embed(tokens):
        positions = torch.arange(PAD + 1, PAD + 1 + len(tokens))
        waves = torch.exp(torch.arange(WIDTH // 2) * -(math.log(10000) / (WIDTH // 2 - 1)))
        angles = positions[:, None] * waves
        x = math.sqrt(WIDTH) * state["encoder.embed_tokens.weight"][tokens]
        return x + torch.cat([angles.sin(), angles.cos()], 1)

    x = embed(source)
    for index in range(LAYERS):
        layer = f"encoder.layers.{index}"
        x = naive.encoder_layer(
            x,
            ffn(f"{layer}.macaron_fc", f"{layer}.layer_norms.2"),
            attention(f"{layer}.self_attn", f"{layer}.layer_norms.0"),
            ffn(f"{layer}.fc", f"{layer}.layer_norms.1"),
            pre_norm,
        )
    memory = norm("encoder.layer_norm")(x) if pre_norm else x
    x = embed(target)
    for index in range(LAYERS):
        layer = f"decoder.layers.{index}"
        source_norm = f"{layer}.encoder_attn_layer_norm"
        x = naive.decoder_layer(
            x,
            ffn(f"{layer}.macaron_fc", f"{layer}.macaron_layer_norm"),
            attention(f"{layer}.self_attn", f"{layer}.self_attn_layer_norm", causal=True),
            attention(f"{layer}.encoder_attn", source_norm, memory),
            ffn(f"{layer}.fc", f"{layer}.final_layer_norm"),
            pre_norm,
        )
    x = norm("decoder.layer_norm")(x) if pre_norm else x
    return x @ state["encoder.embed_tokens.weight"].T


@pytest.mark.parametrize(
    ("arch", "normalize_before"),
    [
        (ARCH, True),
        (ARCH, False),
        ("transformer_wmt_en_de_macaron_v2", True),
        ("transformer_wmt_en_de_big_t2t_macaron", True),
    ],
)
def test_checkpoints_with_the_released_names_load(tmp_path, arch, normalize_before):
    """As fairseq-generate loads them."""
    for language in ("de", "en"):
        Task().dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    state = published_parameters(normalize_before)
    path = tmp_path / "checkpoint.pt"
    saved = {
        "args": published_options(arch, tmp_path, normalize_before),
        "model": state,
        "optimizer_history": [
            {
                "criterion_name": "LabelSmoothedCrossEntropyCriterion",
                "optimizer_name": "FairseqAdam",
                "lr_scheduler_state": {"best": 4.0},
                "num_updates": 10,
            }
        ],
        "last_optimizer_state": None,
        "extra_state": {
            "train_iterator": {"epoch": 1, "iterations_in_epoch": 10},
            "val_loss": 4.0,
        },
    }
    torch.save(saved, path)
    (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([str(path)])
    source, target = torch.randint(4, 50, (1, 9)), torch.randint(4, 50, (1, 7))
    ours, _ = model.eval()(source, torch.tensor([9]), target)
    theirs = authors_model(state, source[0], target[0], normalize_before)
    assert (ours[0] - theirs).abs().max() < 1e-4


def test_every_parameter_of_a_published_layer_is_asked_for():
    """The renamed state has the model's names and shapes, and not without any of its tensors."""
    sides = ("encoder", "decoder")
    sizes = " ".join(
        f"--{side}-embed-dim {WIDTH} --{side}-ffn-embed-dim {INNER} --{side}-attention-heads "
        f"{HEADS} --{side}-layers {LAYERS}"
        for side in sides
    )
    model = make_model(ARCH, "--share-all-embeddings", sizes=sizes.split())
    needed = {name: tensor.shape for name, tensor in model.state_dict().items()}
    needed = {name: shape for name, shape in needed.items() if ".layers." in name}

    def renamed(state):
        state = dict(state)
        model.upgrade_state_dict(state)
        return {name: tensor.shape for name, tensor in state.items() if ".layers." in name}

    state = published_parameters()
    assert renamed(state) == needed
    for name in (name for name in state if ".layers." in name):
        without = {key: tensor for key, tensor in state.items() if key != name}
        halved = {**state, name: state[name][: len(state[name]) // 2]}
        assert renamed(without) != needed and renamed(halved) != needed, name
