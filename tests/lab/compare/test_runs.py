"""Runs: their steps, what they keep, and how a folder is continued."""

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from filelock import FileLock
from lab.compare.test_scores import write_log

from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab.compare import runs
from fairseq_odeformers.lab.compare.experiment import Experiment
from fairseq_odeformers.lab.compare.results import read_rows
from fairseq_odeformers.lab.compare.runs import (
    Step,
    check_begun,
    choose_facts,
    explain_failure,
    make_runs,
    make_steps,
    read_yaml,
    share,
    write_shared,
)
from fairseq_odeformers.lab.compare.scores import TRAIN_LOG, TRAINED, Facts

OPTIONS = {"arch": "transformer", "source-lang": "de", "target-lang": "en", "lr": "1e-3"}
FACTS = Facts("a", 1, "translation", "/data", OPTIONS, updates=78, baseline="a")
FORK = multiprocessing.get_context("fork")


def lines(facts, folder=Path("out/a-seed1")):
    return [(step, " ".join(step.words)) for step in make_steps(facts, folder)]


# --- steps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "saving, by, kept",
    [
        ({}, "epoch", "--keep-last-epochs 2"),
        ({"save-interval-updates": 500}, "update", "--keep-interval-updates 2 --no-epoch"),
    ],
)
def test_what_a_run_averages_and_scores(saving, by, kept):
    """The checkpoints that the training keeps, and each translation of the splits with a score."""
    score = {"test": "odeformers score-wmt14 en-de {output}"}
    sets = dict.fromkeys(["valid", "test"])
    facts = replace(FACTS, options={**OPTIONS, **saving}, average=2, test_sets=sets, score=score)
    (_, training), (_, averaging), *others = lines(facts)
    assert kept in training and "--seed 1 " in training and "--save-dir out/a-seed1 " in training
    assert "--update-epoch-batch-itr True" in training, "or it cannot go on as if not interrupted"
    assert averaging.startswith(f"odeformers average --checkpoint-dir out/a-seed1 --by {by}")
    expected = []
    for name in ("checkpoint_best", "averaged"):
        for split in ("valid", "test"):
            expected.append((f"{name}.{split}.out", "fairseq-generate", "stdout"))
        expected.append((f"{name}.test.score", "odeformers", "stdout"))
    assert [(step.product, step.words[0], step.printed) for step, _ in others] == expected
    for step, line in others:
        if step.words[0] == "fairseq-generate":
            checkpoint, split, _ = step.product.split(".")
            assert f"--path out/a-seed1/{checkpoint}.pt" in line and f"subset {split} " in line
        else:
            assert line.endswith(step.product.replace(".score", ".out"))


def test_without_averages_no_epoch_is_kept():
    ((_, training),) = lines(FACTS)
    assert "--no-epoch-checkpoints" in training and "keep-last" not in training


@pytest.mark.parametrize(
    "task, suffix, printed",
    [("sentence_prediction", "tsv", ""), ("language_modeling", "out", "all")],
)
def test_predictions_are_a_table_or_what_a_command_logs(task, suffix, printed):
    facts = replace(FACTS, task=task, test_sets={"test.2016": None})
    _, (step, line) = lines(facts)
    assert (step.product, step.printed) == (f"checkpoint_best.test.2016.{suffix}", printed)
    assert ("--output" in line) == (suffix == "tsv")


@pytest.mark.parametrize("printed", ["", "stdout", "all"])
def test_a_failure_is_kept_with_the_last_line_of_its_output(printed, tmp_path):
    """And with the log that has its errors."""
    step = Step(
        "training", ("sh", "-c", "echo begun >&2; echo no such thing >&2; exit 1"), "x", printed
    )
    with pytest.raises(
        ValueError, match=rf"^sh: no such thing \(status 1\); its log is {tmp_path}"
    ):
        step.make_product(tmp_path)
    assert (tmp_path / TRAIN_LOG).read_text().endswith("no such thing\n")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("printed", [">&2", ""])
def test_a_score_that_is_logged_is_read_from_both_streams(printed, tmp_path, monkeypatch):
    """As fairseq-eval-lm logs it, also where LOGLEVEL would hide it."""
    monkeypatch.setenv("LOGLEVEL", "ERROR")
    line = f"echo hello; echo $LOGLEVEL Perplexity: 7.5 {printed}"
    Step("predicting", ("sh", "-c", line), "test.out", "all").make_product(tmp_path)
    assert (tmp_path / "test.out").read_text() == "hello\nINFO Perplexity: 7.5\n"


def test_warnings_are_no_score(tmp_path):
    """They are in the log; nothing printed is a failure."""
    line = "echo careful >&2; echo 27.55"
    Step("scoring", ("sh", "-c", line), "test.score", "stdout").make_product(tmp_path)
    assert (tmp_path / "test.score").read_text() == "27.55\n"
    assert (tmp_path / TRAIN_LOG).read_text() == "careful\n"
    step = Step("scoring", ("sh", "-c", "echo 27.55 >&2"), "other.score", "stdout")
    with pytest.raises(ValueError, match="^sh: it has printed nothing"):
        step.make_product(tmp_path)
    assert not (tmp_path / "other.score").exists()


def test_a_training_that_diverged_says_so_and_where():
    output = (
        "WARNING | NaN detected in output of encoder.layers.0.fc1, shape: torch.Size([3, 4])\n"
        "FloatingPointError: gradients are Nan/Inf\nTraceback\nStopIteration"
    )
    assert explain_failure(output).startswith(
        "the loss or the gradients became NaN or infinite (gradients are Nan/Inf, NaN first in the "
        "output of encoder.layers.0.fc1); lower --lr"
    )
    assert explain_failure("one\ntwo\n") == "two" and explain_failure(" ") == "no output"


# --- runs ------------------------------------------------------------------------------


def begun(out, facts=FACTS):
    """A run that has begun."""
    (run,) = make_runs([facts], out, [facts.seed])
    run.begin()
    return run


def test_what_is_missing_of_a_run(tmp_path):
    """From its folder alone; the comparison's file says it."""
    (run,) = make_runs([replace(FACTS, test_sets={"test": None})], tmp_path, [3])
    run.note_unfinished()
    assert not run.folder.exists() and run.folder == tmp_path / "a-seed3"

    def state():
        run.note_unfinished()
        (row,) = read_rows(tmp_path)
        assert (row.seed, row.validation) == (3, None)
        return row.state

    run.begin()
    stats = '{"epoch": 1, "num_updates": "45"}'
    (run.folder / TRAIN_LOG).write_text(f"a | INFO | train_inner | {stats}\n")
    assert state() == "45 of 78 updates"
    run.fail("no memory")
    assert state() == "failed: no memory"
    run.begin()  # the next command
    (run.folder / TRAINED).touch()
    assert state() == "not evaluated" and not run.finished


def test_a_candidate_is_finished_when_it_is_trained(tmp_path):
    (run,) = make_runs([replace(FACTS, tried={"lr": "1"}, test_sets={"test": None})], tmp_path, [1])
    run.tuning = True
    run.begin()
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    (run.folder / TRAINED).touch()
    assert run.folder.name == "a-lr-1-seed1" and not run.finished, "its row is not there"
    run()
    assert run.finished and not replace(run, tuning=False).finished
    assert [row.validation for row in read_rows(tmp_path)] == [5.0]


def test_a_run_does_not_train_on_data_that_were_replaced(tmp_path):
    """What is trained already is still evaluated."""
    (data := tmp_path / "data").mkdir()
    (data / "train.bin").write_text("1")
    run = begun(tmp_path / "runs", replace(FACTS, data=str(data), data_digest="another"))
    with pytest.raises(ValueError, match=f"{data} has changed since"):
        run.check_data()
    run()
    assert "data has changed since" in run.failure
    (run.folder / TRAINED).touch()
    run.check_data()
    (run.folder / TRAINED).unlink()
    replace(run, facts=replace(run.facts, data_digest=sha256(data))).check_data()


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path):
    run = begun(tmp_path)
    with FileLock(run.folder / runs.LOCK):
        assert run.busy
        process = FORK.Process(target=run)
        process.start()
        process.join()
        run.note_unfinished()
    assert process.exitcode == 0 and run.failure is None
    assert not (tmp_path / "results.csv").exists() and not (run.folder / TRAIN_LOG).exists()


def test_the_checkpoints_of_the_training_go_when_all_is_done(tmp_path):
    run = begun(tmp_path)
    for name in ("checkpoint_best", "checkpoint_last", "checkpoint3", "averaged"):
        (run.folder / f"{name}.pt").touch()
    run.remove_checkpoints()
    assert {path.name for path in run.folder.glob("*.pt")} == {"checkpoint_best.pt", "averaged.pt"}


# --- continuing ------------------------------------------------------------------------


def test_the_same_settings_continue_a_folder(tmp_path):
    """Wherever the package is, and however large the batches of an evaluation are."""
    begun(tmp_path, replace(FACTS, evaluate={"beam": 5}))
    same = {**OPTIONS, "user-dir": "elsewhere", "fp16": False, "clip-norm": None}
    smaller = {"beam": 5, "batch-size": 8}
    check_begun([replace(FACTS, options=same, evaluate=smaller, seed=9)], tmp_path)


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"options": {**OPTIONS, "lr": "2e-3"}}, "a: lr 1e-3 → 2e-3"),
        ({"options": {**OPTIONS, "fp16": True}}, "a: fp16 unset → set"),
        ({"average": 2}, "a: average 0 → 2"),
        ({"evaluate": {"beam": 4}}, "a: evaluate beam 5 → 4"),
        ({"bleu_tokenize": "char"}, "a: bleu-tokenize unset → char"),
        ({"test_sets": {"test": None, "valid": None}}, "a: splits test → test valid"),
        ({"score": {"test": "wc"}}, "a: score test unset → wc"),
        ({"code": "x"}, "a: the files of its plugin have changed"),
    ],
)
def test_other_settings_are_refused_with_the_folders_to_delete(changes, named, tmp_path):
    """Which are all of the architecture, whatever their seeds."""
    out = tmp_path / "runs"
    kept = replace(FACTS, evaluate={"beam": 5}, test_sets={"test": None})
    for facts in (kept, replace(kept, seed=2), replace(kept, architecture="b")):
        begun(out, facts)
    folders = f"{out}/a-seed1 {out}/a-seed2"
    message = f"^{out} was begun with other settings .{named}.; delete {folders} to .* {out}-2$"
    with pytest.raises(ValueError, match=message):
        check_begun([replace(kept, **changes)], out)
    for folder in folders.split():
        shutil.rmtree(folder)
    check_begun([replace(kept, **changes)], out)


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.bin").write_text("1")
    data = str(tmp_path / "data")
    return Experiment(data, {"max-epoch": 3}, {"a": {}, "b": {}}, seeds=[5, 1])


def test_the_first_command_says_what_runs_share(experiment, tmp_path):
    """The baseline, the seed that tunes and the size to match stay those of the first command."""
    out = tmp_path / "runs"
    first = replace(share(experiment, out), parameters=7)
    assert (first.baseline, first.seed) == ("a", 5)
    write_shared(out, first)
    later = replace(experiment, architectures={"c": {}}, seeds=[2])
    assert share(later, out) == first
    write_shared(out, replace(first, baseline="c"))
    assert share(later, out) == first


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"data": "{own}"}, "data {data} → {own}"),
        ({"tune": {"lr": [1, 2]}}, "tune unset → lr"),
        ({"budget": 2.0}, "max-epoch 3 → unset, budget unset → 0:02:00"),
        ({"train": {"max-epoch": 4}}, "max-epoch 3 → 4"),
        ({"baseline": "b"}, "baseline a → b"),
    ],
)
def test_another_comparison_is_told_a_free_folder(changes, named, experiment, tmp_path):
    own, out = shutil.copytree(experiment.data, tmp_path / "own"), tmp_path / "runs"
    write_shared(out, share(experiment, out))
    begun(out)
    changes = {k: v.format(own=own) if k == "data" else v for k, v in changes.items()}
    other, named = replace(experiment, **changes), named.format(data=experiment.data, own=own)
    for free in ("runs-2", "runs-3"):
        refused = f"^{out} .*settings .a: {named}.; .* {tmp_path}/{free}$"
        with pytest.raises(ValueError, match=refused):
            share(other, out)
        (tmp_path / free).mkdir()


def test_replaced_data_are_refused(experiment, tmp_path):
    out = tmp_path / "runs"
    write_shared(out, share(experiment, out))
    (tmp_path / "data/train.bin").write_text("2")
    with pytest.raises(ValueError, match=f"/data has other files than when {out} was begun"):
        share(experiment, out)


def test_a_folder_of_an_earlier_version_is_refused(experiment, tmp_path):
    (tmp_path / "plan.yaml").touch()
    with pytest.raises(ValueError, match=f"{tmp_path} was begun by an earlier version"):
        share(experiment, tmp_path)


@pytest.mark.parametrize("text", ["", "1", "[]", "a: &a [*a]", "!!python/name:os.system x"])
def test_a_damaged_file_of_a_run_is_named(text, tmp_path):
    run = begun(tmp_path)
    (run.folder / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"{run.folder}/run.yaml is no run.yaml of this version"):
        check_begun([FACTS], tmp_path)


def test_the_facts_of_a_run_are_kept_as_they_are(tmp_path):
    run = begun(tmp_path, replace(FACTS, tried={"lr": "no"}, paper={"BLEU": 1.5}, budget=0.5))
    kept = read_yaml(run.folder / "run.yaml", Facts)
    assert kept.begun and replace(kept, begun="") == run.facts
    again = begun(tmp_path, replace(run.facts, command="later"))
    assert read_yaml(again.folder / "run.yaml", Facts) == kept, "the first command stays"
    assert yaml.safe_load((run.folder / "run.yaml").read_text())["tried"] == {"lr": "no"}


# --- tuning ----------------------------------------------------------------------------


def test_the_best_validation_is_chosen_also_of_earlier_candidates(tmp_path):
    """Not the last one, which is better here for another; what has diverged is not chosen."""
    logs = {
        "1": [(10, 3.0, 1), (20, 1.0, 1), (30, 4.0, 1)],
        "2": [(10, 3.0, 1), (20, 2.5, 1), (30, 2.0, 1)],
        "3": [(10, float("nan"), 1)],
        "4": [],
    }
    every = [replace(FACTS, tried={"lr": rate}) for rate in logs]
    assert choose_facts(every[1:], tmp_path) == [every[1]], "the first, before any is trained"
    for facts, log in zip(every, logs.values()):
        run = begun(tmp_path, facts)
        write_log(run.folder / TRAIN_LOG, *log)
        run.write_results("not evaluated")
    (chosen,) = choose_facts(every[1:], tmp_path)
    assert chosen.tried == {"lr": "1"}
    other = replace(FACTS, architecture="b")
    assert [f.architecture for f in choose_facts([*every[1:], other], tmp_path)] == ["a", "b"]
