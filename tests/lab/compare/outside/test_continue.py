"""The same command again, one that was killed, more seeds or architectures, and other settings."""

import re
import shutil
import signal

import pytest
import torch
from lab.compare.outside.commands import (
    BOTH,
    SHORT,
    Command,
    alive,
    compare,
    held,
    line,
    refuse,
    scores,
    table,
    wait_for,
)
from script_helpers import contents

PRODUCTS = [
    *("averaged.pt", "averaged.test.tsv"),
    *("checkpoint_best.pt", "checkpoint_best.test.tsv", "train.log"),
]


@pytest.fixture
def again(finished, tmp_path):
    """Runs a command on a copy of these runs; its ``out`` is the copy."""
    out = shutil.copytree(finished / "runs", tmp_path / "runs")

    def command(*words, call=compare):
        if call is compare:
            return compare(finished / "data", out, *words, plugin=finished / "plugin")
        return call(*line(finished / "data", out, *words, plugin=finished / "plugin"))

    command.out = out
    return command


def runs(out):
    """The products of each run, by its folder's name; what is missing is left out."""
    return {
        folder.name: {
            name: (folder / name).read_bytes() for name in PRODUCTS if (folder / name).exists()
        }
        for folder in sorted(out.glob("*-seed*"))
    }


def trainings(out, run):
    """How often a run was trained to its end, and how often that began from a checkpoint."""
    log = (out / run / "train.log").read_text("utf-8")
    return log.count("done training in"), log.count("Loaded checkpoint")


def test_a_finished_run_has_its_products_and_no_other_checkpoint(finished):
    for products in runs(finished / "runs").values():
        assert [*products] == PRODUCTS
    for folder in (finished / "runs").glob("*-seed1"):
        assert len([*folder.glob("*.pt")]) == 2


def test_the_same_command_repeats_nothing(again):
    before, told = runs(again.out), scores(again.out)
    again(*BOTH, *SHORT)
    assert runs(again.out) == before and scores(again.out) == told


def test_more_seeds_train_alone(again):
    before = runs(again.out)
    again(*BOTH, *SHORT, "--seeds", 1, 2)
    after = runs(again.out)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"scripted_base-seed2", "scripted_poor-seed2"}
    rows = table((again.out / "report.md").read_text("utf-8"), " against ")
    assert [rows[name]["seeds"] for name in BOTH[1:]] == ["2", "2"]


def test_a_seed_that_is_not_named_stays_in_the_report(again):
    again(*BOTH, *SHORT, "--seeds", 3)
    assert [*runs(again.out)] == [f"{name}-seed{seed}" for name in BOTH[1:] for seed in (1, 3)]
    rows = table((again.out / "report.md").read_text("utf-8"), " against ")
    assert rows["scripted_base"]["seeds"] == "2"


def test_more_architectures_train_alone(again):
    """The first one of the first command stays the baseline, though the next names another."""
    before, told = runs(again.out), scores(again.out)
    again("--archs", "scripted_good", *SHORT)
    after = runs(again.out)
    assert after.items() >= before.items()
    assert after.keys() - before.keys() == {"scripted_good-seed1"}
    assert scores(again.out).items() >= told.items()
    assert "against scripted_base" in (again.out / "report.md").read_text("utf-8")


@pytest.mark.parametrize(
    "options, named",
    [
        (["--lr", "7e-3"], ["lr", "7e-3"]),
        (["--luck", 3], ["luck", "3"]),
        (["--epochs", 3], ["epoch", "3"]),
        (["--average", 1], ["average", "2", "1"]),
    ],
    ids=lambda words: str(words[0]),
)
def test_other_options_are_refused_before_training(again, options, named):
    """By name and value; nothing changes, and the message says which folder it is about."""
    before = contents(again.out)
    said = again(*BOTH, "--epochs", 2, "--average", 2, *options, call=refuse)
    assert str(again.out) in said and "scripted_base" in said
    for text in named:
        assert text in said
    assert contents(again.out) == before


@pytest.mark.parametrize(
    "changed, named, words",
    [
        ("data/input0/test.bin", "data", []),
        ("data/label/train.bin", "data", ["--seeds", 2]),
        ("plugin/__init__.py", "scripted_base", ["--seeds", 2]),
    ],
)
def test_other_data_and_another_plugin_are_refused(again, finished, changed, named, words):
    """The same file, but for its last byte; before a further seed, too."""
    file, before = finished / changed, contents(again.out)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b" " if changed.endswith(".bin") else content + b"\n")
    try:
        said = again(*BOTH, *SHORT, *words, call=refuse)
    finally:
        file.write_bytes(content)
    assert named in said and str(again.out) in said
    assert contents(again.out) == before


def test_data_of_another_folder_are_refused(again, finished, tmp_path):
    other = shutil.copytree(finished / "data", tmp_path / "other")
    plugin = {"plugin": finished / "plugin"}
    said = refuse(*line(other, again.out, *BOTH, *SHORT, **plugin))
    assert str(other) in said


@pytest.mark.parametrize("place", ["training", "averaging", "evaluation"])
def test_what_was_killed_resumes(place, finished, controls, tmp_path):
    """By SIGKILL; in the end there is what an uninterrupted command leaves, to the bit.

    No process is left behind, and what was finished before is not repeated.
    """
    out = tmp_path / "runs"
    words = line(finished / "data", out, *BOTH, *SHORT, "--jobs", 1, plugin=finished / "plugin")
    hold = controls / f"hold-{place}"
    hold.touch()
    command = Command(*words, SCRIPTED=str(controls))
    (mark,) = wait_for(lambda: held(controls))
    command.kill()
    assert command.end().status == -signal.SIGKILL
    wait_for(lambda: not alive(mark))
    hold.unlink()
    begun = runs(out)["scripted_base-seed1"]
    assert ("checkpoint_best.test.tsv" in begun, "averaged.pt" in begun) == (
        False,
        place == "evaluation",
    )
    compare(finished / "data", out, *BOTH, *SHORT, plugin=finished / "plugin")
    assert trainings(out, "scripted_base-seed1") == (1, int(place == "training"))
    for run in ("scripted_base-seed1", "scripted_poor-seed1"):
        for name in ("checkpoint_best.test.tsv", "averaged.test.tsv"):
            expected = (finished / "runs" / run / name).read_bytes()
            assert (out / run / name).read_bytes() == expected, (run, name)
        for name in ("checkpoint_best.pt", "averaged.pt"):
            one, other = (
                torch.load(folder / run / name, weights_only=False)["model"]
                for folder in (out, finished / "runs")
            )
            assert one.keys() == other.keys()
            assert all(torch.equal(one[key], other[key]) for key in one), (run, name)
    assert scores(out) == scores(finished / "runs")


def test_a_command_leaves_another_s_runs_to_it(finished, controls, tmp_path):
    """Two at a time in one folder: each trains what it names, none twice, and no seed is lost."""
    out, plugin = tmp_path / "runs", finished / "plugin"
    hold = controls / "hold-training"
    hold.touch()
    first = Command(
        *line(finished / "data", out, "--archs", "scripted_base", *SHORT, plugin=plugin),
        SCRIPTED=str(controls),
    )
    wait_for(lambda: held(controls))
    compare(finished / "data", out, "--archs", "scripted_poor", *SHORT, plugin=plugin)
    assert trainings(out, "scripted_base-seed1") == (0, 0), "the first command is at it"
    second = Command(*line(finished / "data", out, *BOTH, *SHORT, plugin=plugin))
    hold.unlink()
    assert first.end().status == second.end().status == 0
    assert {run: trainings(out, run) for run in runs(out)} == {
        "scripted_base-seed1": (1, 0),
        "scripted_poor-seed1": (1, 0),
    }
    assert scores(out) == scores(finished / "runs")
    assert re.search("against scripted_base", (out / "report.md").read_text("utf-8"))
