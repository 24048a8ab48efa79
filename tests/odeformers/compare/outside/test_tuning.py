"""Tuning: what is trained, and that the best by the metric is chosen, not the last, nor by loss."""

import json
import re

import pytest

from tests.odeformers.compare.outside.commands import compare, table


@pytest.fixture(scope="module")
def tuned(data, tmp_path_factory):
    """Two scripts and two values of luck for one model, and two seeds.

    After its second epoch, "peak" is better than "steady" is ever; at the end, and by its loss, it
    is worse.
    """
    out = tmp_path_factory.mktemp("tuned") / "runs"
    tune = ["--tune", "script=peak,steady", "luck=0,5"]
    compare(data, out, "--archs", "scripted_base", "--epochs", 4, "--seeds", 3, 1, *tune)
    return out


def validations(folder, name):
    text = (folder / "train.log").read_text("utf-8")
    return [
        float(json.loads(stats)[f"valid_{name}"])
        for stats in re.findall(r"\| valid \| (\{.*\})", text)
    ]


def test_the_best_by_the_metric_continues_with_the_other_seeds(tuned):
    """All candidates have the first seed, which is not the smallest, and no other is evaluated."""
    first = [*tuned.glob("*-seed3")]
    assert len(first) == 4
    (second,) = tuned.glob("*-seed1")
    assert re.search("peak.*5-", second.name)
    by_metric = max(first, key=lambda folder: max(validations(folder, "accuracy")))
    by_last = max(first, key=lambda folder: validations(folder, "accuracy")[-1])
    by_loss = min(first, key=lambda folder: min(validations(folder, "loss")))
    assert by_metric.name.replace("seed3", "seed1") == second.name
    assert by_last != by_metric != by_loss, "or the fixture cannot tell"
    evaluated = {path.parent for path in tuned.glob("*/checkpoint_best.test.tsv")}
    assert evaluated == {by_metric, second}


def test_the_report_has_all_candidates_and_the_chosen_one_s_scores(tuned):
    page = (tuned / "report.md").read_text("utf-8")
    rows = [row for row in page.splitlines() if re.match(r"\| scripted_base \| \w+ \| \d ", row)]
    assert len(rows) == 4
    (chosen,) = (row for row in rows if "chosen" in row)
    assert "| peak | 5 |" in chosen
    best = max(validations(next(tuned.glob("*peak*5-seed3")), "accuracy"))
    assert f"| {best:.1f} |" in chosen
    assert table(page, "macro-F1")["scripted_base"]["seeds"] == "2"


def test_a_value_at_the_edge_is_told(tuned):
    """Of numbers, which have a largest one; words have none."""
    page = (tuned / "report.md").read_text("utf-8")
    (note,) = (row for row in page.splitlines() if "largest" in row)
    assert "scripted_base" in note and "luck" in note and "5" in note and "script=" not in note
