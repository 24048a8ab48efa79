"""Options that are tuned: what is trained, what is chosen, and what the report says of it."""

import multiprocessing
import re
from dataclasses import replace

import pytest
import yaml

from fairseq_odeformers.lab import commands
from fairseq_odeformers.lab.analysis.command import leave_out_rejected
from fairseq_odeformers.lab.compare import (
    command,
    continue_plan,
    experiments,
    trial,
    watch,
)
from fairseq_odeformers.lab.compare.defaults import default_recipe
from fairseq_odeformers.lab.compare.entry import Entry
from fairseq_odeformers.lab.compare.experiments import parse_tuning
from fairseq_odeformers.lab.compare.jobs import Machine
from fairseq_odeformers.lab.compare.make_plan import check_tuned_widths, make_plan
from fairseq_odeformers.lab.compare.overview import overview
from fairseq_odeformers.lab.compare.plan import Plan, save_plan
from fairseq_odeformers.lab.compare.recipe import Recipe
from fairseq_odeformers.lab.compare.tuning import choose_candidates
from fairseq_odeformers.lab.compare.watch import execute_plan

# In place of fairseq-train: the loss is least at the rate 2 for the architecture a, and at 3 for b.
# At the fourth call it waits, if there is a file "wait".
PROGRAM = """
import json, os, pathlib, signal, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
with open("calls", "a") as file:
    print(os.path.basename(options["--save-dir"]), file=file)
calls = pathlib.Path("calls").read_text().split()
if len(calls) == 4 and pathlib.Path("wait").exists():
    signal.pause()
if options["--lr"] == "9":
    sys.exit("gradients are Nan/Inf")
loss = abs(int(options["--lr"]) - {"a": 2, "b": 3}[options["--arch"]])
for kind, stats in (
    ("valid", {"epoch": 1, "valid_loss": str(loss), "valid_num_updates": "1"}),
    ("train", {"train_train_wall": 1, "train_num_updates": 1, "train_loss": 1}),
):
    print("2026-11-22 16:38:37 | INFO |", kind, "|", json.dumps(stats))
folder = pathlib.Path(options["--save-dir"])
for name in ("best", "last"):
    (folder / f"checkpoint_{name}.pt").touch()
"""
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    monkeypatch.setattr(commands, "MODULES", {"fairseq-train": "program"})
    monkeypatch.setattr(watch, "LOOK", 0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tuned(names, rates, seeds):
    """A plan that trains architectures at several rates, and evaluates nothing."""
    recipe = Recipe("/data", {}, {}, seeds=seeds, tune={"lr": rates})
    entries = [
        Entry(name, {"arch": name, "lr": rate}, training_seconds=60, tried={"lr": rate})
        for name in names
        for rate in rates
    ]
    return Plan(recipe, tuple(entries), test_sets={})


def execute(plan, folder):
    names = {entry.name for entry in plan.entries}
    kept = save_plan(plan, folder / "runs").keep(lambda entry: entry.name in names)
    return execute_plan(kept, plan.recipe.seeds, Machine(1, 0), folder / "runs")


def test_the_estimate_counts_each_tuning_run_once(tmp_path, monkeypatch):
    monkeypatch.setattr("time.process_time", lambda: 0)
    plan = tuned("ab", ["1", "2", "3"], [5, 6])
    said = "\n8 of 8 runs are left, 2 at a time: about 0:04:00,"
    assert said in overview(plan, [5, 6], tmp_path, 2)


def test_the_estimate_has_the_runs_of_this_command_alone(folder):
    """After a tuning with one seed, another seed is one run for each architecture."""
    execute(tuned("ab", ["1", "2", "3"], [5]), folder)
    kept = save_plan(tuned("ab", ["1", "2", "3"], [6]), folder / "runs")
    assert "\n2 of 8 runs are left" in overview(kept, [6], folder / "runs", 1)
    kept = kept.keep(lambda entry: entry.name == "a")
    assert "\n1 of 4 runs are left" in overview(kept, [6], folder / "runs", 1)


def test_other_values_and_seeds_extend_a_tuning(folder):
    """The first seed stays the one that candidates are compared by; a glob has no rejected ones."""
    execute(tuned("a", ["1", "4"], [5]), folder)
    runs = execute(tuned("a", ["1", "3"], [2]), folder)
    assert [run.folder.name for run in runs] == ["a-lr-1-seed2"], "a loss of 1, as at 3"
    calls = (folder / "calls").read_text().split()
    assert calls == ["a-lr-1-seed5", "a-lr-4-seed5", "a-lr-3-seed5", "a-lr-1-seed2"]
    found = [f"runs/{call}/checkpoint_best.pt" for call in calls]
    assert leave_out_rejected([*found, "calls"]) == [found[0], found[3], "calls"]
    assert leave_out_rejected(found[1:3]) == found[1:3], "alone, they are meant"
    with pytest.raises(ValueError, match="begun with other settings .a: tune lr → unset"):
        execute(Plan(Recipe("/data", {}, {}), (Entry("a", {"arch": "a", "lr": "1"}),)), folder)


def test_the_larger_metric_is_the_better_where_the_recipe_says_so(folder):
    plan = tuned("a", ["1", "2", "5"], [1])
    execute(plan, folder)
    plan.recipe.train["maximize-best-checkpoint-metric"] = True
    (chosen,) = choose_candidates(plan, folder / "runs").entries
    assert chosen.tried == {"lr": "5"}


def test_a_plan_has_all_combinations(training_data):
    """Of one size, unless the size is tuned, which matching would undo."""
    recipe = default_recipe(training_data / "words", {"transformer_classifier": {}}, epochs=1)
    recipe.sizes = {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1}
    recipe.tune = {"lr": ["1e-3", "2e-3"], "dropout": ["0", "0.1"]}
    entries = make_plan(recipe).entries
    labels = [entry.label.removeprefix("transformer_classifier") for entry in entries]
    assert labels == [f"-lr-{lr}-dropout-{p}" for lr in ("1e-3", "2e-3") for p in ("0", "0.1")]
    assert [(entry.options["lr"], entry.options["dropout"]) for entry in entries][1:3] == [
        ("1e-3", "0.1"),
        ("2e-3", "0"),
    ]
    with pytest.raises(ValueError, match="--tune encoder-ffn-embed-dim: .* add --match none"):
        make_plan(replace(recipe, tune={"encoder-ffn-embed-dim": ["16", "512"]}))


def test_only_widths_conflict_with_equal_parameters():
    check_tuned_widths(["batch-size", "required-batch-size-multiple", "layers", "lr"])
    for option in ("size", "width", "ffn", "encoder-embed-dim", "decoder-ffn-embed-dim"):
        with pytest.raises(ValueError, match=f"--tune {option}: equal parameters set widths"):
            check_tuned_widths([option])


def test_candidates_that_differ_in_rates_share_a_trial(training_data, monkeypatch):
    """What has been measured once holds for both; options are checked, and sizes are tried."""
    tried = []

    def count(recipe, entry, *others):
        tried.append(entry.tried)
        return trial.try_training(recipe, entry, *others)

    monkeypatch.setattr("fairseq_odeformers.lab.compare.make_plan.try_training", count)
    recipe = default_recipe(training_data / "words", {"transformer_classifier": {}}, epochs=1)
    recipe.sizes = {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1}
    recipe.tune = {"warmup-updates": ["50%", "1"], "layers": [1, 2]}
    entries = make_plan(recipe, match=False).entries
    assert [entry.tried for entry in entries[:2]] == tried
    for first, twin in zip(entries[:2], entries[2:]):
        warmup = {"warmup-updates": "1"}
        assert twin == replace(
            first, options={**first.options, **warmup}, tried={**first.tried, **warmup}
        )
    assert entries[0].options["warmup-updates"] > 1


@pytest.mark.parametrize(
    "name, value, refused",
    [
        ("dropout", "2", "--dropout 2.0: give at least 0"),
        ("lr", "x", "--lr: give a number, not 'x'"),
    ],
)
def test_wrong_values_are_refused_before_the_first_trial(
    name, value, refused, training_data, monkeypatch
):
    monkeypatch.setattr("fairseq_odeformers.lab.compare.make_plan.try_training", None)
    recipe = default_recipe(training_data / "words", {"transformer_classifier": {}}, epochs=1)
    recipe.tune = {name: ["0.1", value]}
    with pytest.raises(ValueError, match=f"--tune {name}={value} cannot be trained .*{refused}"):
        make_plan(recipe)


def test_a_dry_run_shows_what_is_tuned_anew(folder, monkeypatch, capsys):
    """The candidate that earlier runs have chosen does not count where these will be removed."""
    plan = tuned("ab", ["1", "2", "3"], [5])
    plan = replace(plan, recipe=replace(plan.recipe, data=str(folder)))
    execute(plan, folder)
    path = folder / "recipe.yaml"
    recipe = {"data": ".", "train": {"fp16": True}, "architectures": dict.fromkeys("ab", {})}
    path.write_text(yaml.safe_dump({**recipe, "tune": plan.recipe.tune, "seeds": [5]}))
    monkeypatch.setattr(continue_plan, "call_in_child", lambda function: plan)
    monkeypatch.setattr(experiments, "check_names", lambda *_: None)
    command.main([str(path), "--dry-run", "--redo", "a"])
    _, commands = capsys.readouterr().out.split("# Then with the best")
    assert re.findall("# (.*-seed5)", commands) == ["a-lr-1-seed5", "b-lr-3-seed5"]


def test_a_run_that_fails_does_not_stop_the_other_parts(folder, monkeypatch, capsys):
    """``--redo`` names an architecture of any part; a wrong name is refused before the first."""
    parts = {
        name: {"architectures": {name: {}}, "tune": {"lr": [rate]}} for name, rate in ("a9", "b3")
    }
    recipe = {"data": str(folder), "train": {"fp16": True}, "seeds": [5], "parts": parts}
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))

    def make_plan(make):
        (recipe,) = make.args
        return replace(tuned(recipe.architectures, recipe.tune["lr"], [5]), recipe=recipe)

    monkeypatch.setattr(continue_plan, "call_in_child", make_plan)
    monkeypatch.setattr(experiments, "check_names", lambda *_: None)
    with pytest.raises(ValueError, match="--redo z: not among a, b"):
        command.main(["recipe.yaml", "--redo", "z"])
    assert not (folder / "runs").exists()
    with pytest.raises(SystemExit, match="1 of 2 runs did not finish"):
        command.main(["recipe.yaml", "--redo", "b"])
    assert "a-lr-9-seed5: fairseq-train: gradients are Nan/Inf" in capsys.readouterr().out
    assert (folder / "runs/b/report.md").exists()


def test_values_of_tuned_options():
    assert parse_tuning(["lr=1,2", "--dropout=0,3"]) == {"lr": ["1", "2"], "dropout": ["0", "3"]}
    for text in ("lr", "lr=", "lr=1", "lr=1,,2", "lr=1,1"):
        remedy = "each value once" if text == "lr=1,1" else "two or more values between commas"
        with pytest.raises(ValueError, match=f"--tune {text}: give {remedy}, such as lr="):
            parse_tuning([text])
