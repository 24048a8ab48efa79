"""``odeformers compare`` from data to a report, and what it refuses before it trains."""

import os
import re
import shlex
import shutil
import signal
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from dataclasses import replace
from types import SimpleNamespace

import pytest
import warm
import yaml
from fairseq.models import ARCH_MODEL_REGISTRY
from filelock import FileLock
from script_helpers import IN_MAIN_THREAD, ROOT, parallel_data

import odeformers
from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab.compare import (
    command,
    continue_plan,
    jobs,
    notes,
    plan,
    runs,
    watch,
)
from fairseq_odeformers.lab.compare.defaults import default_recipe
from fairseq_odeformers.lab.compare.entry import Entry, plugin_digest
from fairseq_odeformers.lab.compare.make_plan import make_plan
from fairseq_odeformers.lab.compare.matching import TOLERANCE
from fairseq_odeformers.lab.compare.overview import overview
from fairseq_odeformers.lab.compare.plan import Plan
from fairseq_odeformers.lab.compare.recipe import Recipe

SMALL = "--encoder-embed-dim 16 --encoder-ffn-embed-dim 32".split()
ARCHS = ["transformer_prenorm", "transevolve_fullff_2_prenorm"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    parallel_data(folder, "de", "en", train=120, valid=8, test=11)
    return folder / "data-bin"


def test_models_have_the_parameters_of_the_first(data):
    recipe = default_recipe(data, {arch: {} for arch in ARCHS}, epochs=1)
    recipe.sizes = {"embed-dim": 32, "ffn-embed-dim": 128, "attention-heads": 2, "layers": 2}
    del recipe.train["source-lang"], recipe.train["target-lang"]
    made = make_plan(recipe)
    assert list(made.test_sets or ()) == ["test"], "languages are those of the data"
    assert made.recipe.train["target-lang"] == "en"
    first, other = made.entries
    assert first.options["encoder-ffn-embed-dim"] == 128
    assert abs(other.parameters - first.parameters) <= TOLERANCE * first.parameters
    assert first.options["total-num-update"] == first.updates > 0
    alone = replace(recipe, architectures={ARCHS[1]: {}})
    assert make_plan(alone, baseline=first).entries[0].options == other.options


def test_a_plan_is_kept_with_those_of_earlier_commands(tmp_path):
    """But not where these have begun the same trainings with other settings."""
    recipe = Recipe("/data", {"task": "translation"}, {"a": {}}, evaluate={"beam": 5})
    one, two = (Entry(name, {"arch": name, "lr": "1e-3"}, updates=5) for name in "ab")
    plan.save_plan(Plan(recipe, (two,)), tmp_path)
    plan.save_plan(Plan(replace(recipe, seeds=[3]), (one, two)), tmp_path)
    kept = plan.load_plan(tmp_path)
    plan.save_plan(Plan(replace(recipe, seeds=[2], splits=["valid"]), (one,)), tmp_path)
    assert (kept.entries, plan.load_plan(tmp_path).entries) == ((two, one), (two, one))
    assert plan.load_plan(tmp_path).recipe.seeds == [1, 2, 3]
    same = replace(one, options={"arch": "a", "lr": "1e-3", "fp16": False, "clip-norm": None})
    smaller = {"beam": 5, "batch-size": 8}
    plan.save_plan(Plan(replace(recipe, splits=["valid"], evaluate=smaller), (same,)), tmp_path)
    other = replace(one, options={"arch": "a", "lr": "1", "clip-norm": None})
    for changed, entry, named in (
        (recipe, other, "a: lr 1e-3 → 1.; give --redo a to"),
        (recipe, replace(one, options={"arch": "a", "fp16": True}), "a: fp16 unset → set, lr 1e-3"),
        (replace(recipe, data="own"), two, "b, a: data /data → own.; give another folder"),
        (replace(recipe, average=2), one, "b, a: average 0 → 2.; give another"),
        (replace(recipe, evaluate={}), one, "b, a: evaluate beam 5 → unset.; give another"),
    ):
        with pytest.raises(ValueError, match=f"{tmp_path} .*settings .{named}"):
            plan.save_plan(Plan(changed, (entry,)), tmp_path)
    plan.save_plan(Plan(replace(recipe, splits=["valid"]), (one,), "digest"), tmp_path)
    with pytest.raises(ValueError, match=f"data has other files than when {tmp_path} was begun"):
        plan.save_plan(Plan(recipe, (one,), "another"), tmp_path)
    assert plan.load_plan(tmp_path).recipe.splits == ["valid"]


def test_a_comparison_of_other_data_is_told_a_free_folder(tmp_path):
    """One beside the other, numbered; or to train all anew, if the command has all."""
    entry, out = Entry("a", {"arch": "a"}), tmp_path / "runs"
    plan.save_plan(Plan(Recipe("/data", {}, {}), (entry,)), out)
    for free in ("runs-2", "runs-3"):
        with pytest.raises(ValueError, match=f"give --redo a to .* --out {tmp_path}/{free}$"):
            plan.save_plan(Plan(Recipe("/other", {}, {}), (entry,)), out)
        (tmp_path / free).mkdir()


def test_a_plan_of_an_earlier_version_is_read_and_extended(tmp_path):
    """Its entries told their times as seconds and evaluation; the key digest has stayed."""
    recipe = {"data": "/data", "train": {"task": "translation"}, "architectures": {"a": {}}}
    entry = {"name": "a", "options": {"arch": "a"}, "updates": 5, "seconds": 2.0, "evaluation": 3.0}
    kept = tmp_path / plan.PLAN
    kept.write_text(yaml.safe_dump({"recipe": recipe, "entries": [entry], "digest": "x"}))
    before = Entry("a", {"arch": "a"}, updates=5, training_seconds=2.0, evaluation_seconds=3.0)
    assert plan.load_plan(tmp_path).entries == (before,)
    other = Entry("b", {"arch": "b"})
    plan.save_plan(Plan(Recipe(**recipe), (other,), data_digest="x"), tmp_path)
    assert plan.load_plan(tmp_path).entries == (before, other)
    assert yaml.safe_load(kept.read_text())["digest"] == "x"


@pytest.mark.parametrize(
    "kept, options, refused",
    [
        ("/data", [], "data /data → {data}"),
        ("/data", ["--redo", "transformer_prenorm"], ""),
        (None, ["--tune", "lr=1,2"], "tune unset → lr"),
        (None, ["--budget", "2m"], "budget unset → 0:02:00"),
        (None, [], ""),
    ],
)
def test_another_comparison_is_refused_before_the_trial(
    kept, options, refused, data, tmp_path, monkeypatch, capsys
):
    """Nothing is built where the folder has runs of other data or tuned options."""
    recipe = Recipe(kept or str(data), {}, {})
    plan.save_plan(Plan(recipe, (Entry("transformer_prenorm", {}),)), tmp_path)
    tried = []
    monkeypatch.setattr(continue_plan, "call_in_child", lambda make: (tried.append(make), 1 / 0))
    line = ["compare", str(data), "--archs", "transformer_prenorm", "--out", str(tmp_path)]
    with pytest.raises(SystemExit if refused else ZeroDivisionError):
        odeformers.main([*line, *options])
    assert len(tried) == (not refused)
    settings = f"transformer_prenorm: {refused.format(data=data)}"
    message = f"{tmp_path} was begun with other settings ({settings}); give --redo transformer_"
    assert not refused or message in capsys.readouterr().err


def test_two_commands_at_once_lose_no_seed(tmp_path):
    """The second one reads the plan when the first has written it."""
    plans = [Plan(Recipe("/data", {}, {}, seeds=[seed]), (Entry("a", {}),)) for seed in (1, 2)]
    with ThreadPoolExecutor() as pool:
        with FileLock(tmp_path / plan.LOCK):
            second = pool.submit(plan.save_plan, plans[1], tmp_path)
            with pytest.raises(TimeoutError):
                second.result(timeout=0.2)
            plan.write_plan(plans[0], tmp_path)
        assert second.result().recipe.seeds == [1, 2]


def test_runs_go_on_where_the_package_has_moved(tmp_path):
    then, now = (
        Plan(Recipe("/data", {}, {}), (Entry("a", {"user-dir": place}),)) for place in ("x", "y")
    )
    plan.save_plan(then, tmp_path)
    assert plan.save_plan(now, tmp_path).entries == now.entries


def test_a_refused_command_leaves_a_plugin_as_it_is(data, tmp_path, monkeypatch, capsys):
    """The runs of an earlier command import it; a dry run writes it where there is none."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # forks of this process need one thread
    first, second, out = tmp_path / "first", tmp_path / "second", tmp_path / "runs"
    for plugin in (first, second):
        plugin.mkdir()
        (plugin / "__init__.py").touch()
    line = ["compare", data, "--archs", "transformer_prenorm", "--match", "none", "--out", out]
    line = list(map(str, [*line, *SMALL, "--epochs", 3, "--user-dir"]))
    odeformers.main([*line, str(first), "--dry-run"])
    written = out / "odeformers_plugins" / "__init__.py"
    before = written.read_text()
    assert str(first) in before
    options = {"arch": "transformer_prenorm", "lr": "7"}
    entry = Entry("transformer_prenorm", options)
    plan.save_plan(Plan(Recipe(str(data), {}, {}), (entry,)), out)
    for more in (["--dry-run"], []):
        with pytest.raises(SystemExit):
            odeformers.main([*line, str(second), *more])
        message = f"{out} was begun with other settings (transformer_prenorm: "
        assert message in capsys.readouterr().err
    assert written.read_text() == before


def test_an_overview_adds_up_all_runs_that_are_left(tmp_path, monkeypatch):
    """Two models of 60 and 90 seconds, with two seeds, two at a time, and 3 seconds a command."""
    monkeypatch.setattr("time.process_time", lambda: 3)
    entries = tuple(
        Entry(str(s), {}, 1234, 5, s - 9, "note", evaluation_seconds=9.0) for s in (60, 90)
    )
    plan = Plan(Recipe("data", {}, {}, seeds=[1, 2]), entries)
    text = overview(plan, [1, 2], tmp_path, jobs=2)
    assert "| 60 | 1,234 | 5 | 0:01:00 | note |" in text
    assert "4 of 4 runs are left, 2 at a time: about 0:02:36" in text
    finished = [tmp_path / f"{s}-seed{seed}" for s in (60, 90) for seed in (1, 2)]
    for folder in finished[:3]:
        folder.mkdir()
        (folder / "trained").touch()
    assert "1 of 4 runs are left, 2 at a time: about 0:00:46" in overview(plan, [1, 2], tmp_path, 2)
    finished[3].mkdir()
    log = '... | INFO | train_inner | {"epoch": 1, "num_updates": "2"}\n'
    (finished[3] / "train.log").write_text(log)
    text = overview(plan, [1, 2], tmp_path, jobs=2)
    assert "1 of 4 runs are left, 2 at a time: about 0:00:30" in text, "3 of 5 updates are left"
    (finished[3] / "trained").touch()
    assert overview(plan, [1, 2], tmp_path, 2).endswith("\nAll 4 runs have finished.")
    assert "2 of 4 runs are left, 1 at a time" in overview(plan, [1, 2], tmp_path, 1, redo=["60"])


def test_what_is_trained_anew_is_forgotten(tmp_path):
    """Its runs, and nothing of the others."""
    entries = Entry("a", {}), Entry("b", {})
    plan.save_plan(Plan(Recipe("/data", {}, {}, seeds=[1, 2]), entries), tmp_path)
    for name in ("a-seed1", "a-seed2", "b-seed1"):
        (tmp_path / name).mkdir()
    with FileLock(tmp_path / "a-seed2" / runs.LOCK):
        with pytest.raises(ValueError, match="--redo a: another command is at .*a-seed2"):
            command.forget(["a"], tmp_path)
    assert (tmp_path / "a-seed1").exists()
    command.forget(["a"], tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["b-seed1"]
    anew = Entry("a", {"lr": 2}, tried={"lr": 2})
    plan.save_plan(Plan(Recipe("/data", {}, {}), (anew,)), tmp_path, redo={"a"})
    assert plan.load_plan(tmp_path).entries == (anew, entries[1]), "the baseline stays"


def test_a_plugin_is_not_replaced_while_runs_import_it(tmp_path):
    """By another one; the same is written whole."""
    folder, run = tmp_path / "odeformers_plugins", runs.Run("a", 1, tmp_path / "a-seed1", ())
    run.folder.mkdir()
    command.write_plugin(folder, ["one"], [run])
    with run.lock():
        command.write_plugin(folder, ["one"], [run])
        with pytest.raises(ValueError, match="--user-dir two: another command is at .*a-seed1 "):
            command.write_plugin(folder, ["two"], [run])
        assert "one" in (folder / "__init__.py").read_text()
    command.write_plugin(folder, ["two"], [run])
    assert [path.name for path in folder.iterdir()] == ["__init__.py"]
    assert "two" in (folder / "__init__.py").read_text()


def test_a_plugin_that_has_changed_is_refused(tmp_path):
    """But for what does not depend on it; the message says how to go on."""
    recipe = Recipe("/data", {}, {})
    mine, other = Entry("mine", {}, plugin="digest"), Entry("transformer", {})
    plan.save_plan(Plan(recipe, (mine, other)), tmp_path)
    changed = replace(mine, plugin="another")
    with pytest.raises(ValueError, match=f"mine: .*{tmp_path}; give --redo mine"):
        plan.save_plan(Plan(recipe, (changed, other)), tmp_path)
    plan.save_plan(Plan(recipe, (other,)), tmp_path)
    plan.save_plan(Plan(recipe, (changed, other)), tmp_path, redo={"mine"})


def test_a_plugin_is_all_python_files_of_its_folder(tmp_path, monkeypatch):
    class Mine:
        pass

    folders = tmp_path / "mine", tmp_path / "other"
    for folder in folders:
        (folder / "layers").mkdir(parents=True)
        (folder / "__init__.py").touch()
    module = SimpleNamespace(__file__=str(folders[0] / "__init__.py"))
    monkeypatch.setitem(sys.modules, Mine.__module__, module)
    monkeypatch.setitem(ARCH_MODEL_REGISTRY, "mine", Mine)
    digests = []
    for path, text in (
        *(("layers/own.py", "1"), ("layers/own.py", "2"), ("notes.txt", "3")),
        ("../other/__init__.py", "4"),
    ):
        (folders[0] / path).write_text(text)
        digests.append(plugin_digest(Recipe("data", {}, {}), "mine", folders))
    assert digests[0] != digests[1] == digests[2] == digests[3] != ""
    assert plugin_digest(Recipe("data", {}, {}), "transformer", folders) == ""


def test_only_updates_of_the_same_budget_go_on(tmp_path, monkeypatch):
    """As many checkpoints are averaged as before, unless all is planned anew."""
    entries = tuple(Entry(str(budget), {}, updates=7, budget=budget) for budget in (1.0, 2.0, None))
    recipe = Recipe("data", {}, {}, average=None)
    args = Namespace(what=tmp_path, match=None, budget=1.0, user_dir=[], no_check=False)

    def plan_in_fork(kept):
        make = continue_plan.plan_in_fork(args, recipe, plan, kept)
        assert make.keywords["inherited"] == bool(kept.entries)
        return make.keywords["planned"], make.args[0].average

    monkeypatch.setattr(continue_plan, "call_in_child", lambda make: make)
    plan = Plan(replace(recipe, average=2), entries)
    assert plan_in_fork(plan) == ({"1.0": 7}, 2)
    assert plan_in_fork(plan.keep(lambda entry: entry.name == "2.0")) == ({}, 2)
    assert plan_in_fork(plan.keep(lambda entry: False)) == ({}, None)


@pytest.mark.parametrize("change", ("", "seeds", "option", "budget", "plugin", "data", "redo"))
def test_the_same_command_needs_no_trial(change, tmp_path, data, monkeypatch):
    """Nor do more seeds; all else that a plan is made of does."""
    shutil.copytree(data, tmp_path / "data")
    (tmp_path / "mine.py").touch()
    out, trials = tmp_path / "runs", []

    def make_plan():
        trials.append(change)
        digest = sha256(tmp_path / "data")
        return Plan(replace(recipe), (Entry("a", {}), Entry("b", {})), digest)

    monkeypatch.setattr(continue_plan, "call_in_child", lambda function: make_plan())
    monkeypatch.setattr(continue_plan, "extend", lambda earlier, plan, *_: plan)
    args = Namespace(what=data, match=None, budget=None, user_dir=[tmp_path], no_check=False)
    args.dry_run = False
    recipe = Recipe(str(tmp_path / "data"), {"lr": 1}, {"a": {}, "b": {}})
    plan.save_plan(continue_plan.plan_experiment(args, recipe, out, ()), out)
    recipe = Recipe(str(tmp_path / "data"), {"lr": 1}, {"b": {}, "a": {}})
    recipe.seeds = [1, 2] if change == "seeds" else [1]
    recipe.train["lr"] = 2 if change == "option" else 1
    if change in ("plugin", "data"):
        (tmp_path / {"plugin": "mine.py", "data": "data/more"}[change]).write_text("1")
    if change == "budget":
        monkeypatch.setattr(continue_plan, "check_experiment", lambda *_: None)
        args.budget = 1.0
    again = continue_plan.plan_experiment(args, recipe, out, {"a"} if change == "redo" else ())
    assert len(trials) == 1 + (change not in ("", "seeds"))
    assert again.recipe.seeds == recipe.seeds
    assert [entry.name for entry in again.entries] == ["a", "b"]


@pytest.mark.parametrize("names, order, baseline", [("cba", "abc", None), ("cb", "bc", "a")])
def test_an_earlier_baseline_stays(names, order, baseline, tmp_path, data, monkeypatch):
    """Whatever the order of the next command, and if that has others alone."""
    recipe = Recipe(str(data), {}, {})
    plan.save_plan(Plan(recipe, (Entry("a", {}), Entry("b", {}))), tmp_path)
    recipe.architectures = {name: {} for name in names}
    args = Namespace(what=data, match=None, budget=None, user_dir=[], no_check=False)
    vars(args).update(jobs=1, dry_run=True)
    made = []
    monkeypatch.setattr(continue_plan, "call_in_child", lambda make: (made.append(make), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        command.compare(args, recipe, tmp_path, {"b"})
    first = made[0].keywords["baseline"]
    assert list(made[0].args[0].architectures) == list(order)
    assert (first and first.name) == baseline


def test_a_fork_that_is_killed_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert jobs.call_in_child(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="memory"):
        jobs.call_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))


@pytest.fixture
def forks(monkeypatch, tmp_path_factory):
    """Commands of runs are forks of their jobs; returns a function that names those so far."""
    calls = tmp_path_factory.mktemp("calls") / "calls"

    def fork(words, stdout, **options):
        place = words.index("-m")
        with open(calls, "a") as file:
            print(words[place + 1], file=file)
        arguments = stdout, ".", words[place + 1], words[place + 2 :]
        child = warm.FORK.Process(target=warm.become, args=arguments)
        child.start()
        child.join()
        return SimpleNamespace(returncode=child.exitcode)

    monkeypatch.setattr(runs.subprocess, "run", fork)
    monkeypatch.setattr(watch, "LOOK", 0)
    monkeypatch.setattr(notes, "SAMPLES", 10)
    return lambda: calls.read_text().split()


def test_a_comparison_from_data_to_report(data, tmp_path, forks, capsys, monkeypatch):
    """What is done is not repeated, and the report is the same from every folder."""
    out = tmp_path / "runs"
    write_references(data)
    monkeypatch.chdir(data.parent)
    line = ["compare", data.name, "--archs", *ARCHS, "--match", "none", "--epochs", 2, "--out", out]
    line += [*SMALL, *IN_MAIN_THREAD, "--max-target-positions", 40, "--average", 2]
    line = list(map(str, line))
    odeformers.main(line)
    first = capsys.readouterr().out
    assert "| transevolve_fullff_2_prenorm |" in first and "report.html" in first
    names = [
        "fairseq_odeformers.lab.compare.training",
        "fairseq_odeformers",
        *["fairseq_cli.generate"] * 2,
    ]
    assert forks() == [*names, *names]
    translations = (out / "transformer_prenorm-seed1/checkpoint_best.test.out").read_text()
    assert len(re.findall("^H-", translations, re.M)) == 11, "fairseq may leave some out"
    report = (out / "report.md").read_text()
    assert re.search(r"\| transevolve_fullff_2_prenorm \| 1 \| [\d.]+ \| [\d.]+ \|", report)
    assert "![Learning curves](curves.png)" in report and (out / "curves.png").exists()
    page = (out / "report.html").read_text()
    assert page.count("data:image/png") == report.count(".png)")
    for name in ("averaged.pt", "checkpoint_best.pt", "averaged.test.out", "train.log"):
        assert (out / "transformer_prenorm-seed1" / name).exists(), name
    seconds = plan.load_plan(out).command_seconds
    odeformers.main(line)
    assert len(forks()) == 8, "what is finished is not repeated"
    assert plan.load_plan(out).command_seconds > seconds, "the times of commands add up"
    report = (out / "report.md").read_text()
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    odeformers.main(["report", "runs"])
    assert capsys.readouterr().out.strip() == report.strip()
    assert (out / "report.md").read_text() == report


def write_references(data):
    """References as published, which no translation of the data's tokens matches."""
    path = data.parent / "plain" / "test.en"
    path.parent.mkdir(exist_ok=True)
    path.write_text("Nobody said that.\n" * 11)


# Of the command line behind DATA; {folder} is an empty folder, {root} the checkout.
MISTAKES = [
    ("", "--archs: name the architectures to train on"),
    ("--archs transformer_prenorn", "--archs transformer_prenorn: .*did you mean"),
    ("--archs macaron", "--archs macaron: no .*; did you mean macaron_transformer or "),
    ("--archs transformer_prenorm transformer_prenorm", "--archs transformer_prenorm: give each"),
    ("--archs transject", "--archs transject: it is for class.* such as transformer_prenorm "),
    ("--archs macaron_transformer_lm", "it is for language .* such as macaron_transformer "),
    ("--archs transformer,transject", "--archs transformer,transject: separate .* by spaces"),
    ("--archs transject --task translation", "translation: it does not train --arch transject"),
    ("--archs transformer[--dropout 0]", "transformer.--dropout: the bracket .*quote it: 'tra"),
    ("--archs transformer[dropout]", "dropout: give an option such as --dropout"),
    ("transformer --archs transformer", "transformer: give an option .* after --archs"),
    (
        "--archs transformer --encoder-depth 2",
        "--encoder-depth 2; .* belong to transevolve.* 'transevolve.--enc",
    ),
    ("--archs 'transformer[--encoder-blocks 2]'", "transformer-encoder-blocks-2 .*unrecognized"),
    ("--archs transformer --droput 0.1", "--droput 0.1; did you mean --dropout"),
    ("--archs 'transformer[--layer 2]'", "--layer 2; did you mean --layers"),
    ("--arch transformer,transevolve", "--arch: .* did you mean --archs"),
    ("--archs transformer --budgett 1m", "--budgett: .* did you mean --budget"),
    ("--archs transformer --learning-rate 1", "--learning-rate 1; fairseq calls it --lr"),
    ("--archs transformer --tune lr=fast,1", "--tune lr=fast .*--lr: give a number, not 'fast'"),
    ("--archs transformer --tune lr=-1e-3,1", "--tune lr=-1e-3 .*--lr: no value follows.*hyphen"),
    ("--archs transformer --width 130 --heads 4", "--heads 4: give a divisor of --width 130"),
    ("--archs transformer --layers 0", "--layers: 0: give a whole number"),
    ("--archs 'transformer[--width x]'", "--width x: give a whole number"),
    ("--archs 'transformer[--size big]'", "--size big: choose from small, base"),
    ("--archs transevolve_fullff_2 --layers 3", "--layers 3: the architecture has 2 blocks"),
    ("--archs transformer --lr x", "transformer .*--lr: .*x"),
    ("--archs transformer --criterion crossentropy", "--criterion: .*crossentropy"),
    ("--archs 'transevolve[--encoder-blocks 0]'", "--encoder-blocks 0: give at least 1"),
    ("--archs macaron_transformer --encoder-attention-heads 3", "--encoder-attention-heads 3"),
    ("--archs transformer --seed 3", "--seed 3: give --seeds; each run has its own"),
    ("--archs 'transformer[--save-dir x]'", "--save-dir x: give --out"),
    ("--archs transformer --seeds 1 2,1", "--seeds 1 2 1: give each once"),
    ("--archs transformer --seeds 1;2", "--seeds: 1;2: give a whole number"),
    ("--archs transformer_prenorm --average -1", "--average: -1"),
    ("--archs transformer --epochs 0", "--epochs: .*0"),
    ("--archs transformer --gpus-per-run -1", "--gpus-per-run: -1"),
    ("--archs transformer --tune lr=1,1", "--tune lr=1,1: give each value once"),
    ("--archs transformer --tune lr=1", "--tune lr=1: give two or more values"),
    ("--archs transformer --seeds -1", "--seeds: -1: give a whole number"),
    ("--archs transformer --lr -1", "--lr -1: give a rate above 0"),
    ("--archs transformer --tune lr=0,1", "transformer --tune lr=0 .*--lr 0: give a rate above 0"),
    ("--archs transformer --lr 1 --tune lr=1,2", "--lr is tuned; leave it out"),
    ("--archs 'transformer[--lr 1]' --tune lr=1,2", "--lr is tuned; leave it out"),
    ("--archs transformer --tune dropout=0,x", "transformer --tune dropout=x .*--dropout: .*x"),
    ("--archs transformer --redo lstm", "--redo lstm: not among transformer"),
    ("--archs transformer --part one", "--part one: for a RECIPE alone"),
    ("--archs transformer --budget soon", "--budget: soon"),
    ("--archs transformer --budget -1m", "--budget: -1m: give a time above 0"),
    ("--archs transformer --budget 30", "--budget: 30: give a time above 0"),
    ("--archs transformer --task parsing", "--task parsing: .* translation, "),
    ("--archs transformer --source-lang fr", "fr"),
    ("--archs transformer --user-dir {folder}/absent", "{folder}/absent"),
    (
        "--archs implicit_transformer_lm --user-dir {root}/examples/extending",
        "give one such as implicit_transformer ",
    ),
    ("--archs implicit_transformer_ml --user-dir {root}/examples/extending", "did you mean impl"),
    ("--archs transformer_prenorm --max-source-positions 4", "valid: .*8 .* examples are longer"),
    ("--archs transformer_prenorm --best-checkpoint-metric bleu", "metric bleu: choose from loss,"),
    ("--archs transformer_prenorm --disable-validation", "--disable-validation True: "),
    ("--archs transformer_prenorm --cluster slurm", "--cluster slurm: .*srun"),
    (
        "--archs transformer_prenorm --epochs 3 --budget 30s",
        "--epochs 3: --budget sets the updates",
    ),
    (
        "--archs transformer --max-update 9 --budget 30s",
        "--max-update 9: --budget sets the updates",
    ),
    (
        "--archs 'transformer[--max-epoch 2]' --budget 1m",
        "--max-epoch 2: --budget sets the updates",
    ),
    ("--archs transformer_prenorm --slurm-partition x", "--slurm-partition x: give --cluster"),
    ("--archs transformer_prenorm --dry-run --out {root}/Makefile/a", "Makefile is a file; give"),
    ("--archs transformer_prenorm --out {folder}/a:b", "{folder}/a:b.*':'"),
    (
        "--archs transformer_prenorm --max-tokens 2 --max-tokens-valid 100",
        "no training example fits; check --max-tokens and --max-positions",
    ),
]


@pytest.mark.parametrize("options, message", MISTAKES, ids=lambda value: value)
def test_mistakes_are_refused_before_the_first_training(
    options, message, data, tmp_path, monkeypatch, capsys
):
    line = [data, *shlex.split(options.format(folder=tmp_path, root=ROOT))]
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # forks of this process need one thread
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))  # without Slurm
    out = tmp_path / "runs"
    with pytest.raises(SystemExit) as stopped:
        odeformers.main(["compare", "--out", str(out), *map(str, line), *SMALL])
    assert stopped.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    message = message.replace("{folder}", str(tmp_path))
    assert re.search(f"odeformers compare: error: .*{message}", said)
    assert not out.exists()
