"""The benchmark measures the stated computation, on tiny models; speed is not tested."""

import dataclasses
import itertools
import json
from argparse import ArgumentParser

import pytest
import torch
from torch import nn

from fairseq_odeformers.models.common.recording import record_calls
from fairseq_odeformers.models.transevolve.attention import TimeEvolvingAttention
from fairseq_odeformers.models.transject.layer import MixtureOfExperts
from odeformers.__main__ import main
from odeformers.benchmark import command, memory, models, timing
from odeformers.benchmark.measurements import MEASUREMENTS

THREADS = torch.get_num_threads()
BY_MATRIX, EXPERTS = "[--attention matrix]", "transject[--encoder-experts {}]"
TINY = "--embed-dim 16 --ffn-embed-dim 48 --heads 2 --batch 2 --vocabulary 50 --rounds 1"


def sizes(what, options=TINY):
    """The options that a measurement has, out of some with their values."""
    parser = ArgumentParser()
    command.add_measurement(parser, MEASUREMENTS[what])
    words = options.split()
    return [
        word
        for pair in zip(words[::2], words[1::2])
        if pair[0] in parser._option_string_actions
        for word in pair
    ]


@pytest.fixture
def measured(tmp_path):
    """The value of each row of the table that a command writes, by its model."""

    def run(what, *options, column="value"):
        path = tmp_path / "table.json"
        command.main([what, *sizes(what, f"{TINY} --lengths 8"), *options, "--json", str(path)])
        rows = json.loads(path.read_text())["rows"]
        return [(row["model"], row[column]) for row in rows]

    yield run
    torch.set_num_threads(THREADS)


@pytest.mark.parametrize(
    "what, names",
    [
        ("train", ["transformer_lm", "transject_lm"]),
        ("train", [f"transformer_classifier{BY_MATRIX}", EXPERTS.format(2), "node_transformer"]),
        ("generate", ["transformer", "transevolve_fullff_2[--attention-backend factored]"]),
        ("encoder", ["transformer", "transevolve_fullff_1[--attention-backend direct]"]),
        ("classify", ["transformer_classifier", "macaron_classifier"]),
        ("state", [f"transformer{BY_MATRIX}", "transevolve_fullff_2"]),
        pytest.param("startup", ["fairseq", "plugin"], marks=pytest.mark.slow),
    ],
)
def test_every_measurement_writes_a_row_per_model(measured, what, names):
    assert [name for name, _ in measured(what, "--models", *names)] == names


def prepared(what, name, options="--layers 2"):
    """A subject, its step, and the options of both."""
    args = command.parse_args([what, *TINY.split(), *options.split()])
    (args.layers,) = args.layers
    subject = models.build(name, args)
    return subject, MEASUREMENTS[what].make_step(subject, args, 8)


TRANSLATORS = ["transformer", "transevolve_fullff_2"]
CLASSIFIERS = ["transformer_classifier", "transject"]
STEPS = {
    "train": TRANSLATORS,
    "encoder": TRANSLATORS,
    "infer": TRANSLATORS,
    "generate": TRANSLATORS,
    "classify": CLASSIFIERS,
    "memory": TRANSLATORS,
    "state": ["transformer_lm", "transject_lm", "transevolve_lm_fullff_2", "transevolve_fullff_2"],
}


@pytest.fixture
def in_this_process(monkeypatch):
    """Measure peak memory in this process, where modules can be watched, not in its own."""

    def peak_step(subject, args, length):
        return lambda: memory.measure_peak(subject, args, length)

    measurement = dataclasses.replace(MEASUREMENTS["memory"], step=peak_step)
    monkeypatch.setitem(MEASUREMENTS, "memory", measurement)


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
@pytest.mark.parametrize("what", STEPS)
def test_options_set_sizes_and_precision_of_the_states(what, precision, in_this_process):
    """States of fairseq's models follow the options, too; its trainer reserves bf16 for a TPU."""
    dtype = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    models = {"float32": STEPS[what], "bf16": STEPS[what][:1], "fp16": STEPS[what][1:2]}
    for name in models[precision]:
        subject, step = prepared(what, name, f"--layers 2 --precision {precision}")
        stack = getattr(subject.model, "decoder" if what == "state" else "encoder")
        with record_calls(stack.layers) as calls:
            step()
        assert {call.module for call in calls} == {*stack.layers}
        tokens = set()
        for call in calls:
            state = call.output[0] if isinstance(call.output, tuple) else call.output
            assert state.dtype == dtype and state.size(2) == 16
            tokens.add(state.shape[:2].numel())
        # Two sequences of 8 tokens; memory has a first step of one token, state one token a step.
        assert tokens == {"memory": {2, 16}, "state": {1}}.get(what, {16})


@pytest.mark.parametrize(
    "name",
    ["transformer", "transevolve_fullff_2", "macaron_transformer", "transformer_lm", "transject"]
    + ["transformer_classifier", "transevolve_classifier_fullff_1", "macaron_classifier"],
)
def test_options_set_width_depth_heads_and_dropout(name):
    """Two FFNs of a Macaron layer share the width of one, and TransJect's FFN has the width d."""
    subject, _ = prepared("train", name, "--layers 4 --dropout 0.2")
    halves = name.startswith("macaron")
    for side in ("encoder", "decoder"):
        stack = getattr(subject.model, side, None)
        if stack is None:
            continue
        modules = list(stack.modules())
        for module in modules:
            if isinstance(module, nn.Embedding) and module.weight.requires_grad:
                assert module.embedding_dim == 16
            if isinstance(module, nn.LayerNorm):
                assert module.normalized_shape == (16,)
            assert getattr(module, "num_heads", 2) == 2
        depths = sum(len(getattr(layer, "depths", [layer])) for layer in stack.layers)
        assert depths == 4
        if name == "transject":
            continue
        assert {m.p for m in modules if hasattr(m, "p")} == {0.0, 0.2}
        inner = [m.out_features for m in stack.layers.modules() if isinstance(m, nn.Linear)]
        assert inner.count(24 if halves else 48) == (8 if halves else 4)
        assert (48 if halves else 24) not in inner


@pytest.mark.parametrize(
    "what, part", [("train", ""), ("encoder", "encoder"), ("infer", "encoder")]
)
def test_only_parameters_of_the_measured_part_count(measured, what, part):
    subject, _ = prepared(what, "transformer")
    used = subject.model.get_submodule(part).parameters()
    options = ["--layers", "2", "--models", "transformer"]
    assert measured(what, *options, column="parameters") == [
        ("transformer", sum(each.numel() for each in used))
    ]


@pytest.mark.parametrize("experts", [1, 3])
def test_the_name_sets_the_experts(experts):
    subject, _ = prepared("infer", EXPERTS.format(experts))
    mixtures = [m for m in subject.model.modules() if isinstance(m, MixtureOfExperts)]
    assert [len(mixture.orthogonal()) for mixture in mixtures] == [2 * experts] * 2


def test_the_option_sets_the_beam():
    subject, step = prepared("generate", "transformer", "--layers 2 --beam 3")
    with record_calls(subject.model.decoder.layers[:1]) as calls:
        step()
    assert {call.output[0].size(1) for call in calls} == {2 * 3}
    assert len(calls) == 8 + 1  # words of the output and its end


@pytest.mark.parametrize("form", ["direct", "factored", "fused", ""])
def test_the_name_sets_the_form_of_attention(form):
    option = f"[--attention-backend {form}]" if form else ""
    subject, _ = prepared("encoder", f"transevolve_fullff_1{option}")
    inputs = [torch.randn(2, 2, 8, 8), torch.randn(2, 2, 8, 8), torch.randn(2, 2, 8, 2)]
    forms = [
        type(module.evolve(*inputs)).__name__
        for module in subject.model.modules()
        if isinstance(module, TimeEvolvingAttention)
    ]
    assert {*forms} == {f"{(form or 'direct').title()}Attention"}  # sequences are short


@pytest.mark.parametrize("what", ["train", "generate"])
@pytest.mark.parametrize("option", [BY_MATRIX, ""])
def test_attention_by_a_matrix_is_used_only_on_request(what, option):
    subject, step = prepared(what, f"transformer{option}")
    fused = set()
    for layer in subject.model.encoder.layers:
        layer.register_forward_hook(lambda *_: fused.add(torch.backends.cuda.flash_sdp_enabled()))
    step()
    assert fused == {not option}


@pytest.mark.parametrize("model, ratio", [("transformer_lm", 2), ("transject_lm", 1)])
def test_the_state_grows_if_keys_are_cached(measured, model, ratio):
    (_, short), (_, long) = measured("state", "--lengths", "8", "16", "--models", model)
    assert long == pytest.approx(ratio * short)


def test_peak_memory_includes_the_matrix_of_scores(measured):
    """Attention by a matrix keeps 8 or more matrices of 1,000 x 1,000 numbers, fused none."""
    names = ["transformer_classifier", f"transformer_classifier{BY_MATRIX}"]
    options = ["--layers", "2", "--lengths", "1000", "--models", *names]
    (_, fused), (_, matrix) = measured("memory", *options)
    assert matrix - fused > 8 * 4


def test_quick_is_compared_with_an_earlier_table(monkeypatch, tmp_path):
    """The check names a ratio that falls by 15%, and a different row; it accepts an equal table."""
    line = f"infer {TINY} --lengths 8 --models transformer_classifier transject"
    monkeypatch.setattr(command, "QUICK", [line])
    monkeypatch.setattr("time.perf_counter", itertools.count(step=0.005).__next__)
    path = tmp_path / "table.json"
    quick = ["--quick", "--json", str(path), "--check", str(path)]
    command.main(quick[:3])
    command.main(quick)
    table = json.loads(path.read_text())
    assert table["settings"] == {"quick": [line]}
    assert {"machine", "threads", "torch", "date"} <= set(table["environment"])
    table["rows"][1]["ratio"] *= 1.2
    path.write_text(json.dumps(table))
    with pytest.raises(ValueError, match=r"infer 8 4 transject: 1.00 where .* has 1.20"):
        command.main(quick)  # replaces the table, too
    table["rows"].pop()
    path.write_text(json.dumps(table))
    with pytest.raises(ValueError, match="its rows differ"):
        command.main(quick)


def test_steps_take_turns_in_each_round():
    """The first round does not count, and both times of a ratio come from the same round."""
    calls = []
    times = timing.measure({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=2)
    assert "".join(calls) == "ababab"
    assert [len(timings) for timings in times.values()] == [2, 2]
    figures = {"a": [1.0, 8.0, 3.0], "b": [2.0, 2.0, 2.0]}
    _, row = timing.compare(figures, {"a": 5, "b": 6}, 7, length=7, unit="ms")
    assert row["ratio"] == 1.5 and (row["lowest_ratio"], row["highest_ratio"]) == (0.5, 4.0)
    assert row["value"] == 2 and row["parameters"] == 6 and row["tokens_per_second"] == 3500


@pytest.mark.parametrize(
    "line, message",
    [
        (
            "train --models transevolv",
            "--models transevolv: no such architecture; did you mean transevolve?",
        ),
        ("train --models transevolve[--layer]", "--layer; fairseq calls it --encoder-layers"),
        ("train --models transevolve[--attention]", "--attention True: use matrix"),
        ("train --models transevolve[--layer", "the bracket of the options is not closed"),
        (
            "infer --models transformer_classifier[--attention-backend=fused]",
            "options of this name belong to transevolve",
        ),
        ("train --models transevolve_fullff_2 --layers 4 5", "--layers 5"),
        ("train --models transformer transject", "--models: transformer by TranslationTask, "),
        ("encoder --heads 3", "--heads 3"),
        ("infer --json none/a.json", "--json none/a.json"),
        ("startup --precision bf16", "arguments: --precision bf16"),
        ("startup --models rk4", "--models: invalid choice: 'rk4'"),
        ("encoder --lengths 8 0", "--lengths: 0: give"),
        ("encoder --batch -1", "--batch: -1: give"),
        ("--quick --dropout=0", "unrecognized arguments: --dropout=0"),
        ("--quick train", "name WHAT to measure, or pass --quick"),
        ("train --device cuda", "--device cuda: torch finds no GPU"),
        ("--check a.json train", "--check compares the figures of --quick"),
        ("", "name WHAT to measure, or pass --quick"),
    ],
)
def test_bad_command_lines_are_refused(line, message, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    what, *rest = line.split() or [""]
    words = [what, *sizes(what), *rest] if what in MEASUREMENTS else line.split()
    with pytest.raises(SystemExit, match="^2$"):
        main(["benchmark", *words])
    assert message in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("content", [None, "{", "[1]", '{"rows": [{"what": "infer"}]}'])
def test_a_bad_earlier_table_is_refused_before_measuring(tmp_path, monkeypatch, content):
    monkeypatch.setattr(command, "QUICK", ["no measurement"])
    path = tmp_path / "table.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises((OSError, ValueError), match=path.name):
        command.main(["--quick", "--check", str(path)])
