"""The command line, on classifiers that are trained for two updates."""

import csv
import re
import subprocess

import pytest
import torch
from inference.test_predict import write_data
from script_helpers import USER_DIR, command, contents, module

pytest.importorskip("matplotlib")
from fairseq_odeformers.analysis.command import main, model_names  # noqa: E402
from fairseq_odeformers.analysis.result import plain  # noqa: E402

ARCHS = {
    "transformer_classifier": ["--encoder-ffn-embed-dim", 32, "--encoder-attention-heads", 2],
    "transject": ["--encoder-experts", 3],
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def checkpoints(data, tmp_path_factory):
    """Checkpoints by architecture."""
    folder = tmp_path_factory.mktemp("checkpoints")
    for arch, sizes in ARCHS.items():
        command(
            *["train", data, "--user-dir", USER_DIR, "--task", "long_range_arena", "--arch", arch],
            *["--encoder-embed-dim", 16, "--encoder-layers", 2, *sizes],
            *["--criterion", "sequence_classification", "--optimizer", "adam", "--lr", 0.003],
            *["--batch-size", 8, "--max-update", 2, "--save-dir", folder / arch],
        )
    return {arch: folder / arch / "checkpoint_last.pt" for arch in ARCHS}


def run(data, out, *args):
    line = ["analyse", "states", *args, "--data", data, "--out", out, "--cpu"]
    return module("fairseq_odeformers", *line)


def read(out):
    """The tables of an analysis."""
    tables = {}
    for path in out.glob("*.csv"):
        with open(path, newline="") as file:
            tables[path.stem] = list(csv.DictReader(file))
    return tables


def test_files(data, checkpoints, tmp_path):
    out = tmp_path / "out"
    text = ["--text", "a b c c", "--tokens", "a", "c", "b"]
    run(data, out, *checkpoints.values(), "--texts", 5, *text)
    tables = read(out)
    assert {name: len(rows) for name, rows in tables.items()} == {
        "models": 2,
        "layers": 2 * (2 + 3),
        "dot_products": 2 * 2,
        "parts": 2 * (2 + 3),
        "expert_weights": 5 * 2 * 3,
        "residual_weights": 2,
        "distances": 2 * 3 * 3,
        "isomap": 2 * 3 * 5,
    }
    assert [row["model"] for row in tables["models"]] == list(ARCHS)
    assert [row["parts"] for row in tables["models"]] == ["heads", "experts"]
    assert [row["bound"] for row in tables["models"]] == ["", "39.0625"]
    figures = "means activation dot_products entropy parts expert_weights residual_weights"
    figures += " distances isomap"
    page = (out / "index.md").read_text()
    assert re.findall(r"\]\((\w+)\.png\)", page) == figures.split()
    assert {path.stem for path in out.glob("*.png")} == {*figures.split()}
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [out]


def test_correlations_over_three_checkpoints(data, checkpoints, tmp_path):
    """With the accuracies that predict prints; without a text, nothing is followed."""
    transformer, transject = checkpoints.values()
    other = transject.with_name("checkpoint_best.pt")
    run(data, tmp_path / "out", transformer, transject, other, "--texts", 2)
    tables = read(tmp_path / "out")
    assert len(tables["correlations"]) == 6 and "isomap" not in tables
    assert tables["models"][1]["model"] == "transject/checkpoint_last"
    printed = module("fairseq_odeformers", "predict", data, "--path", transformer, "--cpu")
    accuracy = 100 * float(tables["models"][0]["accuracy"])
    assert f"accuracy {accuracy:.2f}%" in printed


@pytest.mark.parametrize(
    "paths, names",
    [
        (["runs/a/best.pt"], ["a"]),
        (["runs/a/best.pt", "runs/b/best.pt"], ["a", "b"]),
        (["runs/a/1.pt", "runs/a/2.pt"], ["1", "2"]),
        (["exports/dropout0.3", "exports/dropout0.5"], ["dropout0.3", "dropout0.5"]),
        (["runs/a/x/1.pt", "runs/a/x/2.pt", "runs/b/x/1.pt"], ["a/x/1", "a/x/2", "b/x/1"]),
    ],
)
def test_names(paths, names):
    assert model_names(paths) == names
    with pytest.raises(ValueError, match=names[0]):
        model_names([*paths, paths[0]])


def test_numbers_of_a_table():
    assert [plain(value) for value in (1.23456789, float("nan"), -float("inf"), 3, "a")] == [
        *(1.23457, None, None, 3, "a")
    ]


def test_errors_leave_what_was_there(data, checkpoints, tmp_path):
    out, mine = tmp_path / "out", tmp_path / "mine"
    for folder, file in ((mine, "file"), (out, "index.md")):
        folder.mkdir()
        (folder / file).touch()
    transformer = checkpoints["transformer_classifier"]
    headless = tmp_path / "headless.pt"
    state = torch.load(transformer, weights_only=False)
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith("class")}
    torch.save(state, headless)
    before = contents(tmp_path)
    for path, folder, message in (
        (headless, out, "headless.pt is not the checkpoint of a classifier"),
        (mine / "file", out, "mine/file cannot be loaded"),
        (transformer, mine, "mine is in the way"),
    ):
        with pytest.raises(ValueError, match=message):
            main(["states", str(path), "--data", str(data), "--out", str(folder), "--cpu"])
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(data, out, transformer, "--text", "a b", "--tokens", "a", "z")
    last = error.value.stdout.splitlines()[-1]
    assert last.startswith("odeformers analyse: error: --tokens z:")
    assert contents(tmp_path) == before
