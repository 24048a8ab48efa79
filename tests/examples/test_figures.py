"""The scripts that draw figures of runs, on runs whose scores and losses are known."""

import csv
import runpy
import sys

import pytest
from lab.compare.test_results import write_log
from script_helpers import ROOT, lines


@pytest.fixture
def draw(monkeypatch):
    """Run a script of the examples in this process."""

    def run(script, *arguments):
        monkeypatch.setattr(sys, "argv", [script, *map(str, arguments)])
        runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")

    return run


def test_figure2_takes_the_highest_score_of_a_run(tmp_path, draw, capsys):
    """A run whose average is not scored yet is left out."""
    for pair, run, scores in (
        ("en-de", "1.0-4000-seed1", {"checkpoint_best": 27.55, "averaged": 26.5}),
        ("en-de", "1.0-4000-seed2", {"checkpoint_best": 25.0, "averaged": 25.45}),
        ("en-fr", "1.5-16000-seed1", {"checkpoint_best": 39.0}),
    ):
        folder = tmp_path / pair / run
        folder.mkdir(parents=True)
        for checkpoint, bleu in scores.items():
            text = f"tokenized:      BLEU|nrefs:1 = {bleu:.2f} 60.1/30.2 (BP = 1.000)\n"
            text += f"detokenized:    BLEU|nrefs:1 = {bleu + 5:.2f} 60.1/30.2 (BP = 1.000)\n"
            (folder / f"{checkpoint}.test.score").write_text(text)
    draw("transevolve/figure2.py", tmp_path)
    assert "| en-de | 1.0 | 4,000 | 2 | 26.50 | 25.45 | 27.55 |" in capsys.readouterr().out
    rows = list(csv.DictReader(lines(tmp_path / "figure2.csv")))
    assert [(row["pair"], row["bleu"]) for row in rows] == [("en-de", "27.55"), ("en-de", "25.45")]
    assert (tmp_path / "figure2.png").read_bytes().startswith(b"\x89PNG")


def test_curves_of_runs_are_kept_without_them(tmp_path, draw):
    """A run that is there takes the place of its rows."""
    table, picture = tmp_path / "trainings.csv", tmp_path / "curves.png"
    table.write_text(
        "arch,seed,parameters,updates,loss,seconds\none,1,1234,10,6.0,7\none,2,1234,10,5.0,8\n"
    )
    folder = tmp_path / "runs" / "one-seed2"
    folder.mkdir(parents=True)
    write_log(folder / "train.log", (20, 4.5, 9))
    draw("multi30k/curves.py", tmp_path / "runs", "--table", table, "--out", picture)
    assert lines(table)[1:] == ["one,1,1234,10,6.0,7", "one,2,1234,20,4.5,9"]
    assert picture.read_bytes().startswith(b"\x89PNG")
