"""Attention maps over depth, and their measures."""

import csv
import math

import pytest
import torch
from fairseq import tasks
from fairseq.models import MODEL_REGISTRY, FairseqEncoderDecoderModel
from fairseq.modules import MultiheadAttention
from fairseq.trainer import Trainer
from helpers import PAD, Task, make_classifier, make_model, source_batch
from make_checkpoints import parsed, training_line

from fairseq_odeformers.models.baselines import modern
from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.diffeq_transformer.branches import SelfAttention
from fairseq_odeformers.models.node_transformer import attention as node_attention
from fairseq_odeformers.models.transevolve.attention import merge_heads
from fairseq_odeformers.models.transevolve.block import TransEvolveLayer
from fairseq_odeformers.modules.attention import split_heads
from odeformers import __main__ as command_line
from odeformers.analyse.attention import (
    attention,
    bias_rows,
    bias_sums,
    entropy,
    measure,
    span,
    total_variation,
)
from odeformers.analyse.command import main
from odeformers.analyse.maps import KINDS, attention_maps

FAMILIES = sorted(
    name
    for name, model in MODEL_REGISTRY.items()
    if issubclass(model, FairseqEncoderDecoderModel) and model.__module__.startswith("fairseq_ode")
)
TWO_BLOCKS = ["--encoder-blocks", "2", "--encoder-depth", "2"]


def batch():
    source, lengths = source_batch()  # sets the seed
    target = torch.randint(4, 50, (3, 7))
    target[1, 4:] = PAD
    return {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": target}


def alone(row):
    """A single pair of the batch without its padding."""
    source, lengths, target = (tensor[row : row + 1] for tensor in batch().values())
    source, target = (tokens[tokens != PAD].unsqueeze(0) for tokens in (source, target))
    return {"src_tokens": source, "src_lengths": lengths, "prev_output_tokens": target}


@pytest.mark.parametrize("arch", FAMILIES)
def test_maps_are_distributions_over_visible_tokens(arch):
    net_input = batch()
    maps = attention_maps(make_model(arch).eval(), net_input)
    assert list(maps) == list(KINDS)
    for kind, (weights, *_) in maps.items():
        assert weights.size(1) == 3
        assert (weights.sum(-1) - 1).abs().max() < 1e-5
        if kind == "decoder":
            assert not weights.triu(1).any()
        else:
            padding = net_input["src_tokens"] == PAD
            assert not weights.masked_select(padding[:, None, None]).any()


@pytest.mark.parametrize("arch", FAMILIES)
def test_maps_equal_the_weights_that_the_model_applies(arch, monkeypatch):
    """A map applied to the values gives the output of a layer, a depth or the field at t = 0."""
    model, applied = make_model(arch).eval(), []

    def attend(q, k, v, num_heads, bias, attend=node_attention.attend):
        out = attend(q, k, v, num_heads, bias)
        applied.append([split_heads(x.permute(2, 1, 0), num_heads) for x in (v, out)])
        return out

    monkeypatch.setattr(node_attention, "attend", attend)
    kinds = MultiheadAttention, TransEvolveLayer, SelfAttention, modern.SelfAttention
    used = [m for m in model.modules() if isinstance(m, kinds)]
    with record_calls(used) as calls, torch.no_grad():
        model(**batch())
    after = torch.nn.Identity()
    if not used:
        values, expected = applied[0]
    elif isinstance(used[0], TransEvolveLayer):
        x, expected = calls[0].args[:2]
        values = calls[0].module.values(x)
    elif isinstance(used[0], SelfAttention):
        _, _, v, (*_, out_proj), *_ = calls[0].args
        values, expected = split_heads(v, 2), calls[0].output

        def after(heads):
            return torch.nn.functional.linear(merge_heads(heads), *out_proj)
    else:
        attention, args, kwargs, output = calls[0]
        rotary = isinstance(attention, modern.SelfAttention)
        query, attended = (args[0], output) if rotary else (kwargs["query"], output[0])
        values = split_heads(attention.v_proj(query.transpose(0, 1)), 2)
        expected = attended.transpose(0, 1)

        def after(heads):
            return attention.out_proj(merge_heads(heads))

    attended = after(attention_maps(model, batch())["encoder"].weights[0] @ values)
    assert (attended - expected).abs().max() < 1e-5


def test_maps_of_a_block_without_time_are_equal():
    model = make_model("transevolve_fullff_2", *TWO_BLOCKS).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("time_weight"):
            torch.nn.init.zeros_(parameter)
    rows = measure(model, Task(), [{"net_input": batch()}])["attention"]
    for row, before in zip(rows[1:], rows):
        if row["kind"] == before["kind"]:
            assert (row["change"] == 0) == (row["block"] == before["block"])


def test_measures_of_known_maps():
    p, q = torch.tensor([[1.0, 0, 0], [0.5, 0.5, 0]]), torch.tensor([[0, 0, 1.0], [0.5, 0, 0.5]])
    assert total_variation(p, q).tolist() == [1, 0.5]
    assert entropy(p).tolist() == pytest.approx([0, math.log(2)])
    assert span(torch.cat([p, q[:1]])).tolist() == [0, 0.5, 0]


@pytest.mark.parametrize("arch", FAMILIES)
def test_means_ignore_padding(arch):
    """Means over a batch equal those over its single texts, and the last depth is the model's."""
    model, task = make_model(arch).eval(), Task()
    together, apart = (
        measure(model, task, [{"net_input": pairs} for pairs in batches])["attention"]
        for batches in ([batch()], map(alone, range(3)))
    )
    for a, b in zip(together, apart):
        assert a == pytest.approx(b, abs=1e-5)
    for kind in KINDS:
        layers = getattr(model, "encoder" if kind == "encoder" else "decoder").layers
        depths = len(getattr(layers[0], "depths", [layers[0]]))
        blocks, depth = len(layers), depths
        if arch in ("pcformer", "yuriiformer", "tmmformer"):  # one block of the paper's layers
            blocks, depth = depths, 1
        if arch == "ot_transformer":  # each step has several layers
            depth *= len(layers[0].layers)
        last = [row for row in together if row["kind"] == kind][-1]
        assert last["fraction"] == 1 and last["change"] > 0
        assert (last["block"], last["depth"]) == (blocks, blocks * depth)


def test_biases_are_averaged_by_symbol():
    """Biases are relative to the mean of their sentence, without rare symbols and padding."""
    tokens = torch.tensor([[4, 5, 6, 7, PAD]] * 10 + [[4, 5, 6, 7, 8]])
    levels = torch.arange(50.0)[tokens] * (tokens != PAD)
    bias = (levels - 1e4 * (tokens == PAD))[:, None, :, None].expand(-1, 2, -1, 3)
    dictionary = Task().source_dictionary
    rows = bias_rows("encoder", 1, bias_sums(bias, tokens, dictionary), dictionary)
    assert [(row["depth"], row["end"]) for row in rows[::2]] == [
        (depth, end) for depth in (1, 3) for end in ("highest", "lowest")
    ]
    assert [row["token"] for row in rows[:4]] == [dictionary[n] for n in (7, 6, 4, 5)]
    assert rows[0]["bias"] == pytest.approx((10 * 1.5 + 1) / 11) and rows[0]["count"] == 11


def test_depths_of_an_encoder_are_counted_through_its_blocks():
    """An encoder of two blocks with two depths each has the depths 1 to 4."""
    model = make_classifier("transevolve_classifier", *TWO_BLOCKS).eval()
    rows = measure(model, Task(), [{"net_input": batch()}])["attention"]
    assert [(row["kind"], row["block"]) for row in rows] == [("encoder", n) for n in (1, 1, 2, 2)]
    assert [row["depth"] for row in rows] == [1, 2, 3, 4]
    assert [row["fraction"] for row in rows] == [1 / 4, 2 / 4, 3 / 4, 1]


def test_a_model_of_one_layer_has_no_change(trained, tmp_path):
    """A single layer has a span and an entropy; a deeper model also has a change, and a figure."""
    words, checkpoints = trained
    line = "--encoder-layers 1 --decoder-layers 1".split()
    cfg = parsed([str(words), *training_line("macaron_transformer")[1:], *line])
    task, path = tasks.setup_task(cfg.task), tmp_path / "one" / "checkpoint.pt"
    path.parent.mkdir()
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    trainer.save_checkpoint(str(path), {"train_iterator": {"epoch": 1}})
    out, options = tmp_path / "out", ["--data", str(words), "--cpu", "--out"]
    command_line.main(["analyse", "attention", str(path), *options, str(out)])
    assert {path.name for path in out.iterdir()} == {"attention.csv", "index.md"}
    page = (out / "index.md").read_text()
    assert "span" in page and "change within" not in page
    deeper = str(checkpoints["transformer_prenorm"])
    both = tmp_path / "both"
    command_line.main(["analyse", "attention", str(path), deeper, *options, str(both)])
    assert (both / "attention.png").exists()


def test_single_points_do_not_cover_each_other():
    """Two models with nearly the same change are drawn side by side, away from the edges."""
    place = {"kind": "encoder", "fraction": 1}
    rows = [
        {"model": name, **place, "change": change} for name, change in (("a", 0.3), ("b", 0.31))
    ]
    (axes,) = attention({"attention": rows}).axes
    assert [line.get_marker() for line in axes.lines] == ["o", "^"]
    assert [list(line.get_xdata()) for line in axes.lines] == [[0], [1]]
    assert axes.get_xlim() == (-1, 2) and not axes.get_xlabel()
    assert axes.get_ylim()[1] > 1.05 * 0.31


def test_a_model_without_maps_is_skipped(trained, tmp_path, capsys):
    """The command skips such a model with a message, and refuses it if it is the only one."""
    data, checkpoints = trained
    fault = f"{checkpoints['transject']}: TransJect has no encoder with attention maps"
    line = ["--data", str(data), "--out", str(tmp_path / "out"), "--cpu", "--text", "1 2"]
    paths = [str(checkpoints[arch]) for arch in ("transject", "transformer_classifier")]
    main(["attention", *paths, *line])
    with open(tmp_path / "out" / "sentence.csv", newline="") as file:
        assert {row["model"] for row in csv.DictReader(file)} == {"transformer_classifier"}
    assert f"skipped {fault}" in capsys.readouterr().err
    with pytest.raises(ValueError, match=fault):
        main(["attention", paths[0], *line[:3], str(tmp_path / "none"), *line[4:-2]])
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_command_writes_tables_and_figures(trained, tmp_path, capsys):
    data, checkpoints = trained
    paths = [checkpoints["transevolve_fullff_2_prenorm"], checkpoints["transformer_prenorm"]]
    out = tmp_path / "out"
    command_line.main(
        ["analyse", "attention", *map(str, [*paths, "--data", data, "--out", out, "--cpu"])]
    )
    assert "change within blocks" in capsys.readouterr().out
    files = {"attention.csv", "attention.png", "biases.csv", "index.md"}
    assert {path.name for path in out.iterdir()} == files
    with open(out / "biases.csv", newline="") as file:
        assert {row["model"] for row in csv.DictReader(file)} == {paths[0].parent.name}
    with open(out / "attention.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == [
        kind for depths in (4, 2) for kind in KINDS for _ in range(depths)
    ]
    assert [row["change"] == "" for row in rows] == [row["depth"] == "1" for row in rows]
