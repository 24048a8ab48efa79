"""Tuning: what is trained, and that the best by the metric is chosen, not the last, nor by loss."""

import json
import re

import pytest

from tests.odeformers.compare.outside.commands import compare, line, refuse, table

RATES = ("1e-3", "2e-3", "5e-4")


@pytest.fixture(scope="module")
def tuned(data, tmp_path_factory):
    """Two scripts and two values of luck for one model, and two seeds.

    After its second epoch, "peak" is better than "steady" is ever; at the end, and by its loss, it
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


def test_the_best_by_the_metric_continues_with_the_other_seeds(tuned):
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


def test_the_report_has_all_candidates_and_the_chosen_one_s_scores(tuned):
    page = (tuned / "report.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if re.match(r"\| scripted_base \| \w+ \| \d+ ", row)]
    assert len(rows) == 4
    (chosen,) = (row for row in rows if "chosen" in row)
    assert "| peak | 20 |" in chosen
    best = max(validations(next(tuned.glob("*peak*20-seed0")), "accuracy"))
    assert f"| {best:.1f} |" in chosen
    assert table(page, "macro-F1")["scripted_base"]["seeds"] == "2"


def test_a_grid_is_extended_once_where_its_best_is_at_an_edge(data, tmp_path):
    """Here any rate is as good, so that the first is chosen, the smallest; the script is words."""
    words = ["--archs", "scripted_base", "--epochs", 2, "--seeds", 1]
    grid = ["--tune", "lr=1e-3,2e-3"]
    for _ in range(2):  # the second command finds all of it done
        compare(data, tmp_path / "runs", *words, *grid)
        trained = {folder.name for folder in (tmp_path / "runs").glob("*-seed0")}
        assert trained == {f"scripted_base-lr-{rate}-seed0" for rate in RATES}
    compare(data, tmp_path / "kept", *words, *grid, "--no-extend")
    assert len([*(tmp_path / "kept").glob("*-seed0")]) == 2
    told = refuse(*line(data, tmp_path / "zero", *words[:-1], 0, *grid))
    assert "--seeds 0: seed 0 tunes" in told


def test_a_value_at_the_edge_is_told(tuned):
    """Of numbers, which have a largest one; words have none."""
    page = (tuned / "report.md").read_text("utf-8")
    (note,) = (row for row in page.splitlines() if "largest" in row)
    assert "scripted_base" in note and "luck" in note and "20" in note and "script=" not in note
