"""The strings of the parity task, their batches, and fairseq's commands without a data set."""

import re
from itertools import product

import pytest
import torch
from fairseq.tasks import setup_task
from helpers import configs
from script_helpers import USER_DIR, command, lines, module

TRAINING = (
    "--task parity --arch vanilla_transformer --criterion sequence_classification --optimizer adam "
    "--lr 0.01 --batch-size 126 --no-progress-bar"
).split()


def make_task(*args):
    """The task as fairseq-train sets it up."""
    return setup_task(configs([*TRAINING, *map(str, args)]).task)


def batches(task, split="train", **limits):
    task.load_dataset(split)
    return list(task.get_batch_iterator(task.dataset(split), **limits).next_epoch_itr(False))


def strings(batch):
    """The strings of a batch and their classes, read from its tokens."""
    symbols = {0: "<s>", 1: "<pad>", 4: "0", 5: "1"}
    results = {}
    for tokens, length, target in zip(
        batch["net_input"]["src_tokens"], batch["net_input"]["src_lengths"], batch["target"]
    ):
        start, *bits = (symbols[index] for index in tokens.tolist())
        string = "".join(bits).rstrip("<pad>")
        assert start == "<s>" and length == 1 + len(string)
        results[string] = target.item()
    return results


@pytest.mark.parametrize("longest", [1, 2, 6])
def test_a_batch_has_all_strings_and_parities(longest):
    """Each split is one batch, even with fairseq's default of batches in multiples of eight."""
    task = make_task("--parity-max-length", longest)
    limits = dict(max_sentences=126, required_batch_size_multiple=8)
    (batch,), (valid,) = (batches(task, split, **limits) for split in ("train", "valid"))
    assert strings(valid) == strings(batch)
    expected = {
        "".join(bits): bits.count("1") % 2
        for length in range(1, longest + 1)
        for bits in product("01", repeat=length)
    }
    assert strings(batch) == expected
    assert batch["nsentences"] == len(expected) == 2 ** (longest + 1) - 2
    assert batch["ntokens"] == sum(1 + len(string) for string in expected)
    assert task.max_positions() == 1 + longest


def test_visible_padding_is_the_end_of_sequence():
    """Padding is replaced by the end-of-sequence token, so that all strings have one length."""
    hidden, visible = (
        batches(make_task("--parity-max-length", 3, *option), max_sentences=14)[0]
        for option in ([], ["--parity-visible-padding"])
    )
    padding = hidden["net_input"]["src_tokens"] == 1
    assert padding.sum() == 2 * 2 + 4 * 1
    seen = visible["net_input"]["src_tokens"].masked_fill(padding, 1)
    assert torch.equal(seen, hidden["net_input"]["src_tokens"])
    assert visible["net_input"]["src_tokens"][padding].unique().tolist() == [2]


@pytest.mark.parametrize("limits", [{"max_sentences": 20}, {"max_tokens": 100}])
def test_batches_have_one_width_and_every_string(limits):
    task = make_task()
    all_batches = batches(task, required_batch_size_multiple=8, **limits)
    assert sorted(torch.cat([batch["id"] for batch in all_batches]).tolist()) == list(range(126))
    shapes = {batch["net_input"]["src_tokens"].shape for batch in all_batches[:-1]}
    assert len(shapes) == 1
    assert shapes.pop().numel() <= limits.get("max_tokens", 20 * 7)


def test_a_model_trains_and_predicts_without_data(tmp_path):
    """Strings of up to two bits are learned, and the predictions name the classes."""
    small = ["--user-dir", USER_DIR, "--parity-max-length", 2, "--cpu", "--save-dir", tmp_path]
    once = ["--max-update", 100, "--validate-interval", 100, "--save-interval", 100]
    log = command("train", *TRAINING, *small, *once)
    assert re.findall(r"valid on 'valid' subset .* accuracy ([0-9.]+)", log) == ["100"]
    path = tmp_path / "checkpoint_last.pt"
    output = tmp_path / "valid.tsv"
    out = module(
        *("odeformers", "predict", "parity", "--path", path, "--split", "valid"),
        *("--output", output, "--cpu"),
    )
    assert "valid: accuracy 100.00%" in out and "6 of 6" in out
    parities = [line.split("\t")[2] for line in lines(output)[1:]]
    assert parities == ["even", "odd", "even", "odd", "odd", "even"]


@pytest.mark.parametrize("longest", [0, -3, 21])
def test_bad_lengths_are_refused(longest):
    with pytest.raises(ValueError, match=f"--parity-max-length {longest}: give at least 1 and at "):
        make_task("--parity-max-length", longest)
