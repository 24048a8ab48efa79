"""The command line, on classifiers that are trained for three updates."""

import csv
import re
import shutil
from pathlib import Path

import pytest
import torch
from script_helpers import contents

from odeformers import __main__ as command_line
from odeformers.analyse.command import main, model_names
from odeformers.analyse.result import plain

ARCHS = ["transformer_classifier", "transject"]


def run(data, out, *args):
    """The tables of an analysis."""
    command_line.main(
        ["analyse", "states", *map(str, args), "--data", str(data), "--out", str(out), "--cpu"]
    )
    tables = {}
    for path in out.glob("*.csv"):
        with open(path, newline="") as file:
            tables[path.stem] = list(csv.DictReader(file))
    return tables


def test_the_command_writes_its_files(trained, tmp_path):
    data, checkpoints = trained
    out = tmp_path / "out"
    text = ["--text", "1 2 3 3", "--tokens", "1", "3", "2"]
    tables = run(data, out, *map(checkpoints.get, ARCHS), "--texts", 5, *text)
    assert {name: len(rows) for name, rows in tables.items()} == {
        "models": 2,
        "layers": 2 * (2 + 3),
        "dot_products": 2 * 2,
        "parts": 2 * (2 + 2),
        "expert_weights": 5 * 2 * 2,
        "residual_weights": 2,
        "distances": 2 * 3 * 3,
        "part_distances": 2 * 2 * 2 * 3,
        "isomap": 2 * 3 * 5,
    }
    assert [row["model"] for row in tables["models"]] == ARCHS
    assert [row["parts"] for row in tables["models"]] == ["heads", "experts"]
    assert [row["bound"] for row in tables["models"]] == ["", "39.0625"]
    figures = "means activation dot_products entropy parts expert_weights residual_weights"
    figures += " distances part_distances isomap"
    page = (out / "index.md").read_text()
    assert re.findall(r"\]\((\w+)\.png\)", page) == figures.split()
    assert {path.stem for path in out.glob("*.png")} == {*figures.split()}
    for path in out.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [out]


def test_correlations_over_three_checkpoints(trained, tmp_path, capsys):
    """Correlations use the accuracies of ``predict``, and without --text no tokens are followed."""
    data, checkpoints = trained
    transformer, transject = map(checkpoints.get, ARCHS)
    other = transject.with_name("checkpoint_best.pt")
    other.write_bytes(transject.read_bytes())
    tables = run(data, tmp_path / "out", transformer, transject, other, "--texts", 2)
    assert len(tables["correlations"]) == 3 and "isomap" not in tables
    assert tables["models"][1]["model"] == "transject/checkpoint_last"
    over = "Rank correlations over 3 models of 2 architectures (runs of one architecture are not i"
    assert over in (tmp_path / "out/index.md").read_text()
    command_line.main(["predict", str(data), "--path", str(transformer), "--cpu"])
    accuracy = 100 * float(tables["models"][0]["accuracy"])
    assert f"accuracy {accuracy:.2f}%" in capsys.readouterr().out
    unlabelled = shutil.copytree(data, tmp_path / "unlabelled")
    for path in unlabelled.glob("label/test.*"):
        path.unlink()
    tables = run(unlabelled, tmp_path / "other", transformer, transject, other, "--texts", 2)
    assert {(row["x"], row["y"]) for row in tables["correlations"]} == {("activation", "entropy")}


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
def test_names_of_models_are_unique(paths, names):
    assert model_names(paths) == names
    with pytest.raises(ValueError, match=names[0]):
        model_names([*paths, paths[0]])


def test_two_models_cannot_share_a_picture():
    with pytest.raises(ValueError, match="two checkpoints have the name"):
        model_names(["runs/a/b/best.pt", "runs/a-b/best.pt"])


def test_numbers_of_a_table_are_rounded():
    assert [plain(value) for value in (1.23456789, float("nan"), -float("inf"), 3, "a")] == [
        *(1.23457, None, None, 3, "a")
    ]


def test_only_the_same_command_replaces_a_result(trained, tmp_path):
    """For all analyses, another command is refused with a message that names a free folder."""
    data, checkpoints = trained
    out, path = tmp_path / "out", str(checkpoints["transformer_prenorm"])
    more = ["--data", str(data), "--out", str(out), "--cpu"]
    first = ["attention", path, *more, "--tokenized", "--text", "1 2"]
    main(first)
    before = contents(out)
    for line in (["attention", path, *more], [*first, "--head", "2"], ["states", path, *more]):
        with pytest.raises(ValueError, match=f"--out {out} is in the way, .* {out}-2$"):
            main(line)
    assert contents(out) == before
    (out / "cross.png").write_bytes(b"another")
    main(first)
    assert contents(out).keys() == before.keys()
    assert contents(out)[Path("cross.png")] != b"another"
    (out / "index.md").write_bytes(b"\xff")
    with pytest.raises(ValueError, match=f"--out {out} is in the way"):
        main(first)


def test_errors_leave_existing_files_unchanged(trained, tmp_path):
    data, checkpoints = trained
    out, mine = tmp_path / "out", tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    headless, transformer = tmp_path / "headless.pt", checkpoints["transformer_classifier"]
    state = torch.load(transformer, weights_only=False)
    state["model"] = {k: v for k, v in state["model"].items() if not k.startswith("class")}
    torch.save(state, headless)
    before = contents(tmp_path)
    for path, folder, options, named in (
        (headless, out, [], "headless.pt"),
        (mine / "file", out, [], "mine/file"),
        (transformer, mine, [], "mine is in the way"),
        (transformer, out, ["--text", "1 2", "--tokens", "1", "9"], "--tokens 9"),
        (transformer, out, ["--text", "zz y", "--tokens", "<unk>", "</s>"], "--text zz y: "),
    ):
        line = ["states", str(path), "--data", str(data), "--out", str(folder), "--cpu", *options]
        with pytest.raises(ValueError, match=named):
            main(line)
    assert contents(tmp_path) == before
