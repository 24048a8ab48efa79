"""The command line, on classifiers that are trained for two updates."""

import csv
import json
import re
import subprocess
from argparse import Namespace

import pytest
import torch
from script_helpers import USER_DIR, command, contents, module
from test_predict import write_data

pytest.importorskip("matplotlib")
from fairseq_odeformers.analysis.command import analyse, model_names  # noqa: E402

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
    return module("fairseq_odeformers", "analyse", *args, "--data", data, "--out", out, "--cpu")


def test_files(data, checkpoints, tmp_path):
    out = tmp_path / "out"
    text = ["--text", "a b c c", "--tokens", "a", "c", "b"]
    log = run(data, out, *checkpoints.values(), "--texts", 5, *text)
    result = json.loads((out / "analysis.json").read_text())
    assert (len(result["texts"]), result["split"], result["text"]) == (5, "test", "a b c c")
    assert [row["model"] for row in result["models"]] == list(ARCHS)
    assert [row["parts"] for row in result["models"]] == ["heads", "experts"]
    assert [row["bound"] for row in result["models"]] == [None, 39.0625]

    for note in (
        "No experts: transformer_classifier.",
        "No residual weights: transformer_classifier.",
        "No correlations: they need 3 checkpoints",
    ):
        assert note in log and note in (out / "index.md").read_text()
        assert any(note in found for found in result["notes"])

    tables = {
        "models": 2,
        "layers": 2 * (2 + 3),
        "parts": 2 * (2 + 3),
        "expert_weights": 5 * 2 * 3,
        "residual_weights": 2,
        "distances": 2 * 3 * 3,
        "isomap": 2 * 3 * 5,
    }
    for name, number in tables.items():
        with open(out / f"{name}.csv", newline="") as file:
            assert len(list(csv.DictReader(file))) == len(result[name]) == number
    figures = "means activation entropy parts expert_weights residual_weights distances isomap"
    assert sorted(path.stem for path in out.glob("*.png")) == sorted(figures.split())
    assert re.findall(r"\]\((\w+\.png)\)", (out / "index.md").read_text()) == [
        f"{name}.png" for name in figures.split()
    ]
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size < 300_000
    assert list(tmp_path.iterdir()) == [out]


def test_correlations_over_three_checkpoints(data, checkpoints, tmp_path):
    """With the accuracies that predict prints; without a text, nothing is followed."""
    transformer, transject = checkpoints.values()
    other = transject.with_name("checkpoint_best.pt")
    run(data, tmp_path / "out", transformer, transject, other, "--texts", 2)
    result = json.loads((tmp_path / "out" / "analysis.json").read_text())
    assert len(result["correlations"]) == 6
    assert [row["model"] for row in result["models"]][1] == "transject/checkpoint_last"
    printed = module("fairseq_odeformers", "predict", data, "--path", transformer, "--cpu")
    accuracy = 100 * result["models"][0]["accuracy"]
    assert f"accuracy {accuracy:.2f}%" in printed
    assert not (tmp_path / "out" / "isomap.csv").exists()


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
    with pytest.raises(ValueError, match=f"two checkpoints would be called {names[0]};"):
        model_names([*paths, paths[0]])


def test_names_that_become_equal_are_refused():
    with pytest.raises(ValueError, match="two checkpoints would be called a-b;"):
        model_names(["a/b.pt", "a-b.pt", "c.pt"], "-")


def test_errors_leave_what_was_there(data, checkpoints, tmp_path):
    """Each names what is wrong; the command prints one line."""
    out, mine = tmp_path / "out", tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    out.mkdir()
    (out / "analysis.json").write_text("{}")
    transformer = checkpoints["transformer_classifier"]
    headless = tmp_path / "headless.pt"
    state = torch.load(transformer, weights_only=False)
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith("class")}
    torch.save(state, headless)
    before = contents(tmp_path)
    for path, folder, message in (
        (headless, out, "headless.pt is not the checkpoint of a classifier"),
        (mine / "file", out, "mine/file cannot be loaded"),
        (transformer, mine, "mine is in the way; move it, or choose another --out"),
    ):
        args = Namespace(checkpoints=[str(path)], data=str(data), out=folder, cpu=True, user_dir=[])
        with pytest.raises(ValueError, match=message):
            analyse(args)
    with pytest.raises(subprocess.CalledProcessError) as error:
        run(data, out, transformer, "--text", "a b", "--tokens", "a", "z")
    last = error.value.stdout.splitlines()[-1]
    assert last.endswith("analysis: error: --tokens z: the tokens of --text are a b </s>")
    assert contents(tmp_path) == before
