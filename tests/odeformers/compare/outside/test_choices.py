"""Which checkpoint of a training is the best, and which options hold for all runs."""

import csv

import pytest

from tests.odeformers.compare.outside.commands import commands, compare, line, refuse
from tests.odeformers.compare.outside.test_tuning import validations

FOUR = ["--epochs", 4]


def training(out):
    """The row of the only training and its folder."""
    with open(out / "results.csv", encoding="utf-8", newline="") as file:
        row = next(row for row in csv.DictReader(file) if not row["metric"])
    return row, out / row["run"]


def scored_epoch(out):
    """The epoch of the scored checkpoint, by the learning curve of the report."""
    row, folder = training(out)
    with open(folder / "curve.csv", encoding="utf-8", newline="") as file:
        return [point["best"] for point in csv.DictReader(file)].index("True")


@pytest.mark.parametrize("metric, direction", [("loss", "lowest"), ("accuracy", "highest")])
def test_the_direction_follows_from_the_metric(metric, direction, data, tmp_path):
    """The second epoch of the script "peak" has the best accuracy but not the best loss."""
    words = ["--archs", "scripted_peak", "--best-checkpoint-metric", metric]
    compare(data, tmp_path / "runs", *words, *FOUR)
    row, folder = training(tmp_path / "runs")
    values = validations(folder, metric)
    best = min(values) if metric == "loss" else max(values)
    assert float(row["validation"]) == best
    assert scored_epoch(tmp_path / "runs") == values.index(best)
    page = (tmp_path / "runs/report.md").read_text("utf-8")
    assert f"Best checkpoints have the {direction} {metric} on " in page


def test_a_direction_against_the_metric_is_refused(data, tmp_path):
    words = "--best-checkpoint-metric loss --maximize-best-checkpoint-metric".split()
    message = refuse(*line(data, tmp_path / "runs", "--archs", "scripted_peak", *words, *FOUR))
    assert "--maximize-best-checkpoint-metric: the best loss is the lowest" in message


def test_the_lowest_loss_breaks_ties_between_validations(data, tmp_path):
    compare(data, tmp_path / "runs", "--archs", "scripted_tied", *FOUR)
    _, folder = training(tmp_path / "runs")
    losses = validations(folder, "nll_loss")
    assert len({*validations(folder, "accuracy")}) == 1
    assert scored_epoch(tmp_path / "runs") == losses.index(min(losses)) == 1


def test_a_validation_without_a_checkpoint_is_not_the_best(data, tmp_path):
    """The second epoch of "peak" is the best, but only the third and the sixth are saved."""
    words = ["--archs", "scripted_peak", "--epochs", 6, "--save-interval", 3]
    compare(data, tmp_path / "runs", *words)
    row, folder = training(tmp_path / "runs")
    values = validations(folder, "accuracy")
    assert max(values) == values[1] > values[2] > values[5]
    assert scored_epoch(tmp_path / "runs") == 2 and float(row["validation"]) == values[2]


def test_a_replaced_optimizer_or_schedule_loses_its_options(data, tmp_path):
    words = ["--archs", "scripted_base", *FOUR, "--dry-run"]
    (kept,) = commands(compare(data, tmp_path / "a", *words), "fairseq-train")
    assert {"adam-betas", "total-num-update"} <= kept.keys()
    changes = "--optimizer nag --lr-scheduler inverse_sqrt".split()
    (changed,) = commands(compare(data, tmp_path / "b", *words, *changes), "fairseq-train")
    assert changed["optimizer"] == "nag" and "warmup-updates" in changed
    assert not {"adam-betas", "total-num-update"} & changed.keys()
    message = refuse(*line(data, tmp_path / "c", *words, *changes, "--adam-betas", "(0.9,0.99)"))
    assert "--adam-betas" in message


def test_runs_share_no_file(data, tmp_path):
    words = ["--archs", "scripted_base", "--seeds", 1, 2, *FOUR]
    board = ["--tensorboard-logdir", tmp_path / "board", "--dry-run"]
    planned = commands(compare(data, tmp_path / "runs", *words, *board), "fairseq-train")
    folders = [options["tensorboard-logdir"] for options in planned]
    assert len({*folders}) == 2 and all(str(tmp_path / "board/") in path for path in folders)
    message = refuse(*line(data, tmp_path / "runs", *words, "--log-file", "all.log"))
    assert message.startswith("--log-file all.log: each run has its log")
