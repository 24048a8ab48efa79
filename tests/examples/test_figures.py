"""The scripts that draw figures of runs, with known scores and losses."""

import csv
import runpy
import sys

import pytest
from script_helpers import ROOT, lines

from odeformers.compare.results.curves import Curve
from tests.odeformers.compare.comparisons import write_comparison, write_run


@pytest.fixture
def draw(monkeypatch):
    """Run a script of the examples in this process, with its folder's modules."""

    def run(script, *arguments):
        path = ROOT / "examples" / script
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        monkeypatch.syspath_prepend(str(path.parent))
        runpy.run_path(str(path), run_name="__main__")

    return run


def test_figure2_shows_the_highest_score_of_a_run(tmp_path, draw, capsys):
    """A run whose average has no score yet is left out."""
    for pair, run, scores in (
        ("en-de", "1.0-4000-seed1", {"checkpoint_best": 27.55, "averaged": 26.5}),
        ("en-de", "1.0-4000-seed2", {"checkpoint_best": 25.0, "averaged": 25.45}),
        ("en-fr", "1.5-16000-seed1", {"checkpoint_best": 39.0}),
    ):
        folder = tmp_path / pair / run
        folder.mkdir(parents=True)
        for checkpoint, bleu in scores.items():
            text = f"detokenized:    BLEU|nrefs:1 = {bleu + 5:.2f} 60.1/30.2 (BP = 1.000)\n"
            text += f"uncased:        BLEU|nrefs:1 = {bleu:.2f} 60.1/30.2 (BP = 1.000)\n"
            (folder / f"{checkpoint}.test.score").write_text(text)
    draw("transevolve/figure2.py", tmp_path)
    assert "| en-de | 1.0 | 4,000 | 2 | 26.50 | 25.45 | 27.55 |" in capsys.readouterr().out
    rows = list(csv.DictReader(lines(tmp_path / "figure2.csv")))
    assert [(row["pair"], row["bleu"]) for row in rows] == [("en-de", "27.55"), ("en-de", "25.45")]
    assert (tmp_path / "figure2.png").read_bytes().startswith(b"\x89PNG")


def test_curves_are_kept_without_their_runs(tmp_path, draw):
    """A run replaces its rows of the table, and seconds are wall-clock time."""
    table, picture = tmp_path / "trainings.csv", tmp_path / "curves.png"
    table.write_text(
        "arch,seed,parameters,updates,loss,seconds\none,1,1234,10,6.0,7\none,2,1234,10,5.0,8\n"
    )
    curve = Curve([20], [9.1], [4.5], [4.5], [4.0], 0)
    runs = tmp_path / "runs"
    write_comparison(runs, write_run(runs, "one", 2, score=70.0, curve=curve, seconds=18.4))
    draw("multi30k/curves.py", runs, "--table", table, "--out", picture)
    assert lines(table)[1:] == ["one,1,1234,10,6.0,7", "one,2,1234,20,4.5,18"]
    assert picture.read_bytes().startswith(b"\x89PNG")


CURVES = """architecture,seed,tuned,updates,cpu_seconds,valid_accuracy
transject,1,lr 1e-3,10,60,50
transject,1,lr 2e-3,10,60,90
transject,1,lr 1e-3,20,120,60
transject,2,lr 1e-3,10,60,70
transject,2,lr 1e-3,20,180,80
transformer_classifier_prenorm,1,lr 1e-3,10,30,40
"""


def test_curves_average_the_setting_with_most_seeds(tmp_path, draw):
    """Seeds are averaged at common minutes, and a band covers the lowest to the highest seed."""
    table, picture = tmp_path / "curves.csv", tmp_path / "curves.png"
    table.write_text(CURVES)
    draw("scoreboard/curves.py", table, picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    script = runpy.run_path(str(ROOT / "examples/scoreboard/curves.py"))
    (axes,) = script["draw"](script["read_curves"](table)).axes
    ends = {line.get_label(): line.get_xydata()[[0, -1]].tolist() for line in axes.lines}
    assert ends == {
        "TransJect (2 seeds)": [[1.0, 60.0], [2.0, 67.5]],
        "pre-norm Transformer (1 seed)": [[0.5, 40.0], [0.5, 40.0]],
    }
    band = axes.collections[0].get_paths()[0].vertices
    assert {tuple(point) for point in band} >= {(1.0, 50.0), (1.0, 70.0), (2.0, 60.0), (2.0, 75.0)}


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "architecture,seed\n",
            "line 1: add the columns tuned, cpu_seconds, valid_accuracy",
        ),
        (CURVES.replace("120,60", "two,60"), "line 4: could not convert string to float: 'two'"),
    ],
)
def test_a_bad_table_of_curves_is_refused_with_its_line(tmp_path, draw, text, message):
    table = tmp_path / "curves.csv"
    table.write_text(text)
    with pytest.raises(ValueError, match=f"curves.csv, {message}"):
        draw("scoreboard/curves.py", table, tmp_path / "curves.png")
    assert not (tmp_path / "curves.png").exists()


def test_published_runs_answer_the_protocols_questions(tmp_path, draw, capsys):
    """The three files suffice; they have candidates, and a new training's rows replace the old."""
    texts, out = 64, tmp_path / "out"
    reference = ["yes"] * texts

    def write(folder, architecture, seed, wrong):
        outputs = ["no"] * wrong + ["yes"] * (texts - wrong)
        accuracy, curve = (
            100 * (1 - wrong / texts),
            Curve([10, 20], [1, 4], [2, 1], [50, 60], [2, 1]),
        )
        return write_run(folder, architecture, seed, accuracy, outputs, reference, curve=curve)

    wrong = {"good": (3, 4, 5), "bad": (20, 21, 25)}
    seeds = [(name, seed) for name in wrong for seed in (1, 2)]
    first = [write(tmp_path / "1", name, seed, wrong[name][seed - 1]) for name, seed in seeds]
    candidate = write_run(tmp_path / "1", "bad", 0, tuned="lr 1e-3", state="not evaluated")
    write_comparison(tmp_path / "1", *first, candidate)
    last = [write(tmp_path / "2", name, 3, wrong[name][2]) for name in wrong]
    write_comparison(tmp_path / "2", *last)
    for folders in ["1"], ["1", "2"]:
        draw("scoreboard/publish.py", *(tmp_path / each for each in folders), "--out", out)
    assert sorted(path.name for path in out.iterdir()) == [
        "answers.npz",
        "curves.csv",
        "results.csv",
    ]
    assert len(lines(out / "curves.csv")) == 1 + 6 * 2 + 3
    assert "/data" not in (out / "results.csv").read_text()
    draw("scoreboard/questions.py", out, "--model", "good")
    header, _, row = capsys.readouterr().out.splitlines()
    cells = dict(zip(header.strip("| ").split(" | "), row.strip("| ").split(" | ")))
    assert (cells["other"], cells["seeds"], cells["difference"]) == ("bad", "3, 3", "+28.12")
    # 22 texts differ: all signs alike, of 2^22, or nearly so.
    assert float(cells["p over texts"]) < 1e-3 and float(cells["p over seeds"]) < 0.01
