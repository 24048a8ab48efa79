"""Tuning trains each candidate, and selects the best by the metric, not the last or by loss."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

from odeformers import report
from tests.odeformers.compare.outside.commands import (
    Fork,
    compare,
    held,
    line,
    refuse,
    table,
    wait_for,
)

RATES = ("1e-3", "2e-3", "5e-4")


@pytest.fixture(scope="module")
def tuned(data, tmp_path_factory):
    """Two scripts and two values of luck for one model, with two seeds.

    After its second epoch "peak" is better than "steady" ever is; at its end, and by its loss, it
    is worse.
    """
    out = tmp_path_factory.mktemp("tuned") / "runs"
    tune = ["--tune", "script=peak,steady", "luck=0,20"]
    compare(data, out, "--archs", "scripted_base", "--epochs", 4, "--seeds", 3, 1, *tune)
    return out


def validations(folder, name):
    text = (folder / "train.log").read_text("utf-8")
    return [
        float(json.loads(stats)[f"valid_{name}"])
        for stats in re.findall(r"\| valid \| (\{.*\})", text)
    ]


def test_the_best_candidate_trains_with_the_other_seeds(tuned):
    """All candidates have seed 0, which is not evaluated."""
    first = [*tuned.glob("*-seed0")]
    assert len(first) == 4
    best = {*tuned.glob("*-seed1"), *tuned.glob("*-seed3")}
    assert len(best) == 2 and all(re.search("peak.*20-", folder.name) for folder in best)
    by_metric = max(first, key=lambda folder: max(validations(folder, "accuracy")))
    by_last = max(first, key=lambda folder: validations(folder, "accuracy")[-1])
    by_loss = min(first, key=lambda folder: min(validations(folder, "loss")))
    assert {by_metric.name.replace("seed0", seed) for seed in ("seed1", "seed3")} == {
        folder.name for folder in best
    }
    assert by_last != by_metric != by_loss, "or the fixture cannot tell"
    assert {path.parent for path in tuned.glob("*/checkpoint_best.test.tsv")} == best


def test_the_report_lists_candidates_and_the_chosen_scores(tuned):
    page = (tuned / "report.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if re.match(r"\| scripted_base \| \w+ \| \d+ ", row)]
    assert len(rows) == 4
    (chosen,) = (row for row in rows if "chosen" in row)
    assert "| peak | 20 |" in chosen
    best = max(validations(next(tuned.glob("*peak*20-seed0")), "accuracy"))
    assert f"| {best:.1f} |" in chosen
    assert table(page, "macro-F1")["scripted_base"]["seeds"] == "2"


def test_a_report_without_runs_of_the_baseline_shows_the_tuning(tuned, tmp_path):
    """As after an interruption: all that has been trained are candidates."""
    out = Path(shutil.copytree(tuned, tmp_path / "runs"))
    for folder in [*out.glob("*-seed1"), *out.glob("*-seed3")]:
        shutil.rmtree(folder)
    report.main([str(out)])
    page = (out / "report.md").read_text("utf-8")
    assert page.count("| scripted_base |") == 4 and "chosen" not in page


def test_a_grid_is_extended_once_beyond_its_edge(data, tmp_path):
    """All rates are equal here, so that the smallest is chosen; words are not extended."""
    words = ["--archs", "scripted_base", "--epochs", 2, "--seeds", 1]
    grid = ["--tune", "lr=1e-3,2e-3"]
    for _ in range(2):  # the second command has nothing to do
        compare(data, tmp_path / "runs", *words, *grid)
        trained = {folder.name for folder in (tmp_path / "runs").glob("*-seed0")}
        assert trained == {f"scripted_base-lr-{rate}-seed0" for rate in RATES}
    compare(data, tmp_path / "kept", *words, *grid, "--no-extend")
    assert len([*(tmp_path / "kept").glob("*-seed0")]) == 2
    for folder in ("zero", "runs"):  # a new folder, and one that has started
        message = refuse(*line(data, tmp_path / folder, *words[:-1], 0, *grid))
        assert "--seeds 0: seed 0 is for tuning" in message


COUNTS = ["1 of 2 tuning runs finished, 1 failed", "1 of 1 runs finished"]  # and 1 of 3 failed


def test_a_killed_candidate_leaves_tuning_unfinished(data, controls, tmp_path):
    """The report names the candidate and concludes nothing; the same command trains it."""
    out, (hold, killed) = tmp_path / "runs", (controls / "hold-training", "lr-2e-3-seed0")
    words = ["--archs", "scripted_base", "--epochs", 2, "--seeds", 1, "--no-extend"]
    words = line(data, out, *words, "--tune", "lr=1e-3,2e-3")
    hold.touch()
    command = Fork(*words, SCRIPTED=str(controls))
    for mark in wait_for(lambda: len(held(controls)) == 2 and held(controls)):
        number = int(mark.name.rpartition("-")[2])
        if killed in Path(f"/proc/{number}/cmdline").read_text():
            os.kill(number, signal.SIGKILL)
    hold.unlink()
    ended = command.end()
    printed = ended.output.splitlines()
    (told,) = (row for row in printed if "killed by signal 9" in row)
    assert killed in told and "(status" not in told
    tuning, of_best = (printed.index(line) for line in COUNTS)
    assert printed.index(told) < tuning < of_best
    assert ended.status == 1
    assert re.search(f"1 of 3 runs did not finish: \\S*{killed}; ", ended.errors)
    page = (out / "report.md").read_text("utf-8")
    assert "Tuning has not finished: scripted_base." in page and "values beyond" not in page
    assert Fork(*words).end().status == 0
    page = (out / "report.md").read_text("utf-8")
    assert "Tuning has not finished" not in page and "values beyond" in page


def test_a_diverged_candidate_counts_as_tried(data, tmp_path):
    tune = ["--tune", "script=base,wild"]
    compare(data, tmp_path / "runs", "--archs", "scripted_base", "--epochs", 4, *tune)
    page = (tmp_path / "runs/report.md").read_text("utf-8")
    assert "became NaN or infinite" in page and "Tuning has not finished" not in page


def test_a_chosen_value_at_the_edge_is_noted(tuned):
    """Only numbers have a largest value, not words."""
    page = (tuned / "report.md").read_text("utf-8")
    (note,) = (row for row in page.splitlines() if "largest" in row)
    assert "scripted_base" in note and "luck" in note and "20" in note and "script=" not in note
