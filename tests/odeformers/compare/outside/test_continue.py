"""The same command again, one that was killed, more seeds or architectures, and other settings."""

import os
import re
import shutil
import signal
from pathlib import Path

import pytest
import torch
from filelock import FileLock
from script_helpers import contents

from odeformers.compare.results.rows import read_rows
from tests.odeformers.compare.outside.commands import (
    BOTH,
    SHORT,
    Command,
    Fork,
    alive,
    compare,
    held,
    line,
    refuse,
    run,
    scores,
    table,
    wait_for,
)

ALONE = ["--epochs", 2]  # no averages
PRODUCTS = [
    *("averaged.pt", "averaged.test.tsv"),
    *("checkpoint_best.pt", "checkpoint_best.test.tsv", "train.log"),
]
MADE_OF_PRODUCTS = ["averaged.test.csv", "checkpoint_best.test.csv", "curve.csv"]


@pytest.fixture
def again(finished, tmp_path):
    """Runs a command on a copy of the finished runs; its ``out`` is the copy."""
    out = shutil.copytree(finished / "runs", tmp_path / "runs")

    def command(*words, call=run, **environment):
        words = line(finished / "data", out, *words, plugin=finished / "plugin")
        return call(*words, **environment)

    command.out = out
    return command


def runs(out):
    """The products of each run that exist, by its folder's name."""
    return {
        folder.name: {
            name: (folder / name).read_bytes() for name in PRODUCTS if (folder / name).exists()
        }
        for folder in sorted(out.glob("*-seed*"))
    }


def trainings(out, run):
    """How often a run was trained to its end, and how often from a checkpoint."""
    log = (out / run / "train.log").read_text("utf-8")
    return log.count("done training in"), log.count("Loaded checkpoint")


def test_a_finished_run_keeps_only_its_products(finished):
    for products in runs(finished / "runs").values():
        assert [*products] == PRODUCTS
    for folder in (finished / "runs").glob("*-seed1"):
        assert len([*folder.glob("*.pt")]) == 2


def test_the_same_command_repeats_nothing(again):
    """The same command repeats neither trainings nor measurements."""
    before, accuracies = runs(again.out), scores(again.out)
    ended = again(*BOTH, *SHORT, call=Fork).end()
    assert ended.status == 0 and "trying" not in ended.errors
    assert runs(again.out) == before and scores(again.out) == accuracies


def test_missing_rows_of_a_run_are_written(again):
    """A command that waits for another one at the run also has the run in its report."""
    rows, accuracies = again.out / "scripted_poor-seed1/results.csv", scores(again.out)
    kept = rows.read_bytes()
    rows.unlink()
    with FileLock(rows.parent / ".lock"):  # as if another command had the run
        command = again(*BOTH, *SHORT, call=Fork)
        wait_for(lambda: "by another command" in command.text(command.output))
        rows.write_bytes(kept)
    assert command.end().status == 0 and scores(again.out) == accuracies
    rows.unlink()
    again(*BOTH, *SHORT)
    assert rows.read_bytes() == kept and scores(again.out) == accuracies


def test_outputs_that_cannot_be_scored_fail_their_run(again):
    """Other runs are scored, and the same command scores the failed one once it can."""
    folder, accuracies = again.out / "scripted_poor-seed1", scores(again.out)
    (folder / "results.csv").unlink()
    outputs = folder / "averaged.test.tsv"
    outputs.write_text(outputs.read_text("utf-8") + "120\n")
    ended = again(*BOTH, *SHORT, call=Fork).end()
    assert ended.status == 1 and "1 of 2" in ended.errors
    assert f"{outputs}, line 122" in ended.output
    page = (again.out / "report.md").read_text("utf-8")
    assert table(page, "unfinished")["scripted_poor"]["unfinished"].startswith("seed 1: not eval")
    outputs.unlink()
    again(*BOTH, *SHORT)
    assert scores(again.out) == accuracies


def test_more_seeds_do_not_repeat_others(again):
    """Seeds that a command does not name stay in the report."""
    before = runs(again.out)
    again("--archs", "scripted_poor", *SHORT, "--seeds", 3)
    after = runs(again.out)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"scripted_poor-seed3"}
    rows = table((again.out / "report.md").read_text("utf-8"), " against ")
    assert [rows[name]["seeds"] for name in BOTH[1:]] == ["1", "2"]


def test_more_architectures_do_not_repeat_others(again, controls):
    """The baseline of the first command stays, although the next command names another one.

    A failed run is reported, and trained again by the next command.
    """
    before, accuracies = runs(again.out), scores(again.out)
    words = ["--archs", "scripted_good", *SHORT]
    (controls / "fail-training").touch()
    ended = again(*words, call=Fork, SCRIPTED=str(controls)).end()
    assert ended.status == 1 and "1 of 1" in ended.errors
    (failed,) = (row for row in ended.output.splitlines() if "no memory is left" in row)
    assert "scripted_good-seed1" in failed
    assert scores(again.out) == accuracies
    (controls / "fail-training").unlink()
    again(*words)
    after = runs(again.out)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"scripted_good-seed1"}
    assert scores(again.out).items() >= accuracies.items()
    assert "against scripted_base" in (again.out / "report.md").read_text("utf-8")


@pytest.mark.parametrize(
    "options, named",
    [
        (["--average", 1, "--lr", "7e-3"], ["scripted_base", "average 2 → 1", "lr", "7e-3"]),
        (["--lr", "7e-3", "--epochs", 3], ["max-epoch 2 → 3"]),
    ],
    ids=lambda words: str(words[0]),
)
def test_other_options_are_refused_before_training(again, options, named):
    """The message has the option's name, its values and the folder, and nothing changes.

    Settings that all runs share are compared first, before any measurement.
    """
    before = contents(again.out)
    message = again(*BOTH, "--epochs", 2, "--average", 2, *options, call=refuse)
    assert str(again.out) in message
    for text in named:
        assert text in message
    assert contents(again.out) == before


@pytest.mark.parametrize(
    "changed, fault, words",
    [
        ("data/input0/test.bin", "data", []),
        ("data/label/train.bin", "data", ["--seeds", 2]),
        ("plugin/__init__.py", "scripted_base", ["--seeds", 2]),
    ],
)
def test_changed_data_and_plugins_are_refused(again, finished, changed, fault, words):
    """A changed last byte of a file suffices, also before a further seed."""
    file, before = finished / changed, contents(again.out)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b" " if changed.endswith(".bin") else content + b"\n")
    try:
        message = again(*BOTH, *SHORT, *words, call=refuse)
    finally:
        file.write_bytes(content)
    assert fault in message and str(again.out) in message
    assert contents(again.out) == before


def test_data_of_another_folder_are_refused(again, finished, tmp_path):
    other = shutil.copytree(finished / "data", tmp_path / "other")
    plugin = {"plugin": finished / "plugin"}
    message = refuse(*line(other, again.out, *BOTH, *SHORT, **plugin))
    assert str(other) in message


def test_a_killed_command_resumes_bit_for_bit(finished, controls, tmp_path):
    """SIGKILL at any stage leaves no process and repeats no finished work."""
    out, name = tmp_path / "runs", "scripted_base-seed1"
    words = ["--archs", "scripted_base", *SHORT]
    words = line(finished / "data", out, *words, plugin=finished / "plugin")
    holding = Path(__file__).with_name("holding")
    paths = os.pathsep.join([str(holding), os.environ.get("PYTHONPATH", "")])
    for place in ("training", "averaging", "evaluation"):
        hold = controls / f"hold-{place}"
        hold.touch()
        command = Command(*words, SCRIPTED=str(controls), PYTHONPATH=paths)
        (mark,) = wait_for(lambda: held(controls))
        command.kill()
        assert command.end().status == -signal.SIGKILL
        wait_for(lambda mark=mark: not alive(mark))
        hold.unlink()
        mark.unlink()
        begun = runs(out)[name]
        assert "checkpoint_best.test.tsv" not in begun
        assert ("averaged.pt" in begun) == (place == "evaluation")
    run(*words)
    assert trainings(out, name) == (1, 1)
    expected, actual = (runs(folder)[name] for folder in (finished / "runs", out))
    for product in ("checkpoint_best.test.tsv", "averaged.test.tsv"):
        assert actual[product] == expected[product], product
    for product in ("checkpoint_best.pt", "averaged.pt"):
        one, other = (
            torch.load(folder / name / product, weights_only=False)["model"]
            for folder in (out, finished / "runs")
        )
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one), product
    assert scores(out)["scripted_base"] == scores(finished / "runs")["scripted_base"]


def test_simultaneous_commands_train_one_plan(data, tmp_path):
    """Both commands train the updates that one of them has counted for the budget."""
    out = tmp_path / "runs"
    words = line(data, out, *BOTH, "--budget", "1s")
    commands = [Fork(*words), Fork(*words)]
    assert [command.end().status for command in commands] == [0, 0]
    assert [trainings(out, run) for run in runs(out)] == [(1, 0)] * 2
    refused = refuse(*line(data, out, *BOTH, "--budget", "3s"))
    assert "(budget 0:00:01 → 0:00:03); give another folder" in refused


def test_a_command_leaves_another_commands_runs_alone(finished, controls, tmp_path):
    """Two commands in one folder train the runs that each names, none twice, and lose no seed."""
    out, plugin = tmp_path / "runs", finished / "plugin"
    hold = controls / "hold-training"
    hold.touch()
    first = Fork(
        *line(finished / "data", out, "--archs", "scripted_base", *ALONE, plugin=plugin),
        SCRIPTED=str(controls),
    )
    wait_for(lambda: held(controls))
    compare(finished / "data", out, "--archs", "scripted_poor", *ALONE, plugin=plugin)
    assert trainings(out, "scripted_base-seed1") == (0, 0), "the first command is at it"
    second = Fork(*line(finished / "data", out, *BOTH, *ALONE, plugin=plugin))
    hold.unlink()
    assert first.end().status == second.end().status == 0
    assert {run: trainings(out, run) for run in runs(out)} == {
        "scripted_base-seed1": (1, 0),
        "scripted_poor-seed1": (1, 0),
    }
    assert scores(out) == scores(finished / "runs")
    assert re.search("against scripted_base", (out / "report.md").read_text("utf-8"))


@pytest.mark.parametrize(
    "name", ["results.csv", *(f"scripted_poor-seed1/{name}" for name in MADE_OF_PRODUCTS)]
)
def test_a_report_restores_a_removed_file(again, name):
    """The page and the restored file are as before."""
    page, kept = (again.out / "report.md").read_bytes(), (again.out / name).read_bytes()
    (again.out / name).unlink()
    run("report", again.out)
    assert (again.out / "report.md").read_bytes() == page
    assert (again.out / name).read_bytes() == kept


@pytest.mark.parametrize("suffix", ["tsv", "csv"])
def test_compare_restores_removed_outputs(again, suffix):
    """``report`` names the command ``compare`` where it needs the outputs."""
    accuracies = scores(again.out)
    paths = [again.out / f"scripted_poor-seed1/averaged.test.{name}" for name in ("tsv", suffix)]
    for path in paths:
        path.unlink(missing_ok=True)
    if suffix == "csv":
        message = refuse("report", again.out)
        assert str(paths[1]) in message and "repeat the command odeformers compare" in message
    again(*BOTH, *SHORT)
    assert scores(again.out) == accuracies and all(path.exists() for path in paths)


def test_a_report_leaves_out_removed_runs(again):
    shutil.rmtree(again.out / "scripted_poor-seed1")
    run("report", again.out)
    assert [*scores(again.out)] == ["scripted_base", "always 0"]


def test_a_repeated_run_does_not_change_the_order_of_the_architectures(again):
    def order():
        return [row.architecture for row in read_rows(again.out)]

    before = order()
    assert before == sorted(before)
    shutil.rmtree(again.out / "scripted_base-seed1")
    again(*BOTH, *SHORT)
    assert order() == before
