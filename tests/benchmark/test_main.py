"""The benchmark measures what it says on models of a few numbers; how fast is not tested."""

import json
import re
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend

from fairseq_odeformers.benchmark import command as benchmark
from fairseq_odeformers.benchmark import memory, quick, subjects
from fairseq_odeformers.benchmark.timing import compare, measure

THREADS = torch.get_num_threads()
TINY = "--embed-dim 16 --ffn-embed-dim 32 --heads 2 --batch 2 --vocabulary 50 --rounds 1"
ROW = re.compile(
    r"\| \d+ \| \d \| ([\w:-]+) \| ([\d,]+) \| -?[\d.]+ \| [\d,]* \| "
    r"-?[\d.]+ \(-?[\d.]+--?[\d.]+\) \|$",
    re.M,
)


def sizes(what, options):
    """Those of some options that are settings of a measurement."""
    words = options.split()
    pairs = zip(words[::2], words[1::2])
    return [
        word
        for option, value in pairs
        if benchmark.takes(what, option[2:].replace("-", "_"))
        for word in (option, value)
    ]


@pytest.fixture
def measured(capsys):
    """The parameters of each model in the table that a command prints."""

    def run(what, *options):
        benchmark.main([what, *sizes(what, f"{TINY} --lengths 8"), *options])
        return dict(ROW.findall(capsys.readouterr().out))

    yield run
    torch.set_num_threads(THREADS)


@pytest.mark.parametrize(
    "what, models",
    [
        ("train", ["transformer", "transevolve_randomff_1", "macaron_transformer"]),
        ("train", ["transformer_lm", "transject_lm"]),
        ("train", ["transformer_classifier:matrix", "transject:2", "node_transformer"]),
        ("generate", ["transformer", "transevolve_fullff_2:factored"]),
        ("encoder", ["transformer", "transevolve_fullff_1:naive"]),
        ("infer", ["transformer_classifier:matrix", "transject:2", "macaron_classifier"]),
        ("ode", ["node_transformer", "vanilla_transformer"]),
        ("orthogonal", ["blocks", "cayley", "matrix_exp"]),
        ("classify", ["transformer_classifier", "macaron_classifier"]),
        ("memory", ["transformer_classifier", "transject"]),
        ("state", ["transformer", "transevolve_fullff_2"]),
    ],
)
def test_every_measurement(measured, what, models):
    assert list(measured(what, "--models", *models)) == models


@pytest.mark.parametrize("what", ["generate", "state"])
def test_attention_by_a_matrix_where_it_is_asked_for(measured, monkeypatch, what):
    asked = []
    kernel = subjects.sdpa_kernel
    monkeypatch.setattr(
        subjects, "sdpa_kernel", lambda backend: asked.append(backend) or kernel(backend)
    )
    assert measured(what, "--layers", "1", "--models", "transformer:matrix")
    assert set(asked) == {SDPBackend.MATH}


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
@pytest.mark.parametrize("what", ["train", "encoder", "infer"])
def test_half_precision(measured, what, precision):
    assert measured(what, "--precision", precision, "--models", "transevolve_classifier_fullff_2")


def test_half_precision_of_a_model_of_fairseq(measured):
    """Whose trainer takes bf16 for a TPU's."""
    assert measured("train", "--precision", "bf16", "--models", "transformer")


def test_json(measured, tmp_path):
    """The file has the rows of the table, the settings, and what the figures depend on."""
    path = tmp_path / "table.json"
    printed = measured("infer", "--models", "macaron_classifier", "--json", str(path))
    found = json.loads(path.read_text())
    assert {row["model"]: f"{row['parameters']:,}" for row in found["rows"]} == printed
    assert found["settings"]["embed_dim"] == 16
    assert {"machine", "threads", "torch", "date"} <= set(found["environment"])


def test_startup_is_of_one_command_with_and_without_the_plugin(measured, monkeypatch):
    lines = []
    monkeypatch.setattr("subprocess.run", lambda line, **options: lines.append(line))
    assert list(measured("startup")) == ["fairseq", "plugin"]
    without, plugin = lines[:2]
    assert plugin[: len(without)] == without and plugin[len(without)] == "--user-dir"


@pytest.mark.parametrize("model, ratio", [("transformer_lm", 2), ("transject_lm", 1)])
def test_state_grows_with_the_tokens_where_keys_are_kept(capsys, tmp_path, model, ratio):
    path = tmp_path / "table.json"
    options = ["--lengths", "8", "16", "--models", model, "--json", str(path)]
    benchmark.main(["state", *TINY.split(), *options])
    short, long = (row["value"] for row in json.loads(path.read_text())["rows"])
    assert long == pytest.approx(ratio * short)


def test_peak_memory_holds_the_matrix_of_scores():
    """Attention by a matrix keeps 8 matrices of 1,000 x 1,000 numbers, at the least, and fused
    attention none."""
    args = benchmark.parse_args(["memory", *TINY.split(), "--layers", "2"])
    args.layers = 2
    models = ["transformer_classifier", "transformer_classifier:matrix"]
    args.models = models
    found, _ = memory.figures(args, 1000)
    fused, matrix = (found[name][0] for name in models)
    assert matrix - fused > 8 * 4


def test_quick_is_compared_with_an_earlier_table(monkeypatch, capsys, tmp_path):
    """A table is no slower than itself; a ratio of it that is 15% lower is named."""
    line = f"infer {TINY} --lengths 8 --models transformer_classifier transject"
    monkeypatch.setattr(quick, "LINES", [line])
    monkeypatch.setattr(benchmark.timing, "_milliseconds", lambda step, device: 5.0)
    path = tmp_path / "table.json"
    benchmark.main(["--quick", "--json", str(path)])
    benchmark.main(["--quick", "--check", str(path)])
    table = json.loads(path.read_text())
    assert table["settings"] == {"quick": [line]}
    table["rows"][1]["ratio"] *= 1.2
    path.write_text(json.dumps(table))
    with pytest.raises(SystemExit, match=r"infer 8 4 transject: 1.00 where .* has 1.20"):
        benchmark.main(["--quick", "--check", str(path)])
    del table["rows"][1]
    path.write_text(json.dumps(table))
    with pytest.raises(SystemExit, match="other rows"):
        benchmark.main(["--quick", "--check", str(path)])


def test_steps_take_turns_and_ratios_are_of_one_round():
    """The first round does not count; each ratio has both times from the same round."""
    calls = []
    times = measure({name: lambda name=name: calls.append(name) for name in "ab"}, rounds=2)
    assert "".join(calls) == "ababab"
    assert [len(found) for found in times.values()] == [2, 2]
    columns = {"what": "infer", "length": 7, "layers": 3, "unit": "ms"}
    rows = compare({"a": [1.0, 8.0, 3.0], "b": [2.0, 2.0, 2.0]}, {"a": 5, "b": 6}, 7, **columns)
    assert rows[1].ratio == 1.5 and (rows[1].lowest_ratio, rows[1].highest_ratio) == (0.5, 4.0)
    assert rows[1].value == 2 and rows[1].parameters == 6 and rows[1].length == 7
    assert rows[1].tokens_per_second == 3500


@pytest.mark.parametrize(
    "options, message",
    [
        ("train --models transevolv", "fairseq knows no architecture transevolv"),
        ("train --models transevolve:3", "--models transevolve:3: transevolve has no form 3"),
        ("infer --models transformer_classifier:fused", "transformer_classifier has no form fused"),
        (
            "train --models transevolve_fullff_2 --layers 4 5",
            "--layers 5: transevolve_fullff_2 has 2 blocks; give a multiple",
        ),
        ("train --models transevolve_fullff_1:naive", "is for the encoder alone"),
        (
            "train --models transformer transject",
            "--models: transject by sentence_prediction, transformer by translation",
        ),
        ("startup --models hydra", "choose from fairseq, plugin"),
        ("ode --models rk4", "choose from plain, torchdiffeq, node_transformer"),
        ("ode --lengths 6 1", "--lengths 1: give 2 or more, or there is no padding"),
        ("orthogonal --models transject", "choose from cayley, blocks, matrix_exp"),
    ],
)
def test_what_is_not_measured(options, message):
    with pytest.raises(SystemExit) as error:
        benchmark.main([*options.split(), *sizes(options.split()[0], TINY)])
    assert message in str(error.value)


@pytest.mark.parametrize("what", ["ode", "orthogonal", "startup"])
def test_settings_that_a_measurement_does_not_have_are_refused(what, capsys):
    """And not printed as if it had used them."""
    with pytest.raises(SystemExit):
        benchmark.parse_args([what, "--precision", "bf16"])
    assert f"--precision: it is no setting of {what}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--lengths 8 0", "--batch -1", "--layers 0", "--heads 3"])
def test_sizes_that_cannot_be_measured(option, capsys):
    with pytest.raises(SystemExit):
        benchmark.parse_args(["encoder", *option.split()])
    assert f"{option.split()[0]}" in capsys.readouterr().err.splitlines()[-1]


def test_settings_of_a_measurement_are_printed(capsys):
    benchmark.main("orthogonal --embed-dim 4 --layers 1 --rounds 1 --models blocks".split())
    line = capsys.readouterr().out.splitlines()[1]
    assert line == f"what=orthogonal embed_dim=4 layers=[1] device=cpu threads={THREADS} rounds=1"


@pytest.mark.parametrize(
    "option, message",
    [
        (["--check", "none.json"], "No such file or directory: 'none.json'"),
        (["--check", "other.json"], "other.json is no table that --json wrote"),
        (["--json", "none/a.json"], "--json none/a.json: there is no folder none"),
        (["--json", "."], "--json .: it is a folder; give a file"),
    ],
)
def test_files_are_looked_at_before_measuring(capsys, tmp_path, monkeypatch, option, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(benchmark, "run", None)
    Path("other.json").write_text('{"rows": [{"what": "infer"}]}')
    with pytest.raises(SystemExit) as error:
        benchmark.main(["--quick", *option])
    assert message in f"{error.value} {capsys.readouterr().err}"


def test_quick_is_compared_with_a_table_that_it_replaces(monkeypatch, tmp_path):
    path = tmp_path / "table.json"
    monkeypatch.setattr(quick, "LINES", [f"infer {TINY} --lengths 8 --models transject"])
    monkeypatch.setattr(benchmark.timing, "_milliseconds", lambda step, device: 5.0)
    benchmark.main(["--quick", "--json", str(path)])
    table = json.loads(path.read_text())
    table["rows"][0]["ratio"] = 2.0
    path.write_text(json.dumps(table))
    with pytest.raises(SystemExit, match="slower than before"):
        benchmark.main(["--quick", "--json", str(path), "--check", str(path)])


@pytest.mark.parametrize("option", [["--dropout", "0"], ["--layers", "4"], ["--device", "cpu"]])
def test_quick_has_settings_of_its_own(capsys, option):
    with pytest.raises(SystemExit):
        benchmark.parse_args(["--quick", "--json", "quick.json", *option])
    assert f"error: {option[0]}: --quick has settings of its own" in capsys.readouterr().err
