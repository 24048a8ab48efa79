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
from fairseq_odeformers.lab.compare.experiment import Experiment, Shared
from fairseq_odeformers.lab.compare.results import Comparison, read_rows
from fairseq_odeformers.lab.compare.runs import (
    Step,
    begin,
    best_runs,
    check_begun,
    explain_failure,
    make_runs,
    make_steps,
    read_yaml,
    share,
    write_yaml,
)
from fairseq_odeformers.lab.compare.scores import TRAIN_LOG, TRAINED
from fairseq_odeformers.lab.compare.variant import Variant

OPTIONS = {"arch": "transformer", "source-lang": "de", "target-lang": "en", "lr": "1e-3"}
VARIANT = Variant("a", 1, "translation", "/data", OPTIONS, updates=78, baseline="a")
SHARED = Shared("/data", "", "translation", "", {}, "a", 1)
FORK = multiprocessing.get_context("fork")


def lines(variant, folder=Path("out/a-seed1")):
    return [(step, " ".join(step.words)) for step in make_steps(variant, folder)]


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
    variant = replace(
        VARIANT, options={**OPTIONS, **saving}, average=2, test_sets=sets, score=score
    )
    (_, training), (_, averaging), *others = lines(variant)
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
    ((_, training),) = lines(VARIANT)
    assert "--no-epoch-checkpoints" in training and "keep-last" not in training


@pytest.mark.parametrize(
    "task, suffix, printed",
    [("sentence_prediction", "tsv", ""), ("language_modeling", "out", "all")],
)
def test_predictions_are_a_table_or_what_a_command_logs(task, suffix, printed):
    variant = replace(VARIANT, task=task, test_sets={"test.2016": None})
    _, (step, line) = lines(variant)
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


def begun(out, variant=VARIANT):
    """A run that has begun."""
    (run,) = make_runs([variant], out, [variant.seed])
    run.begin()
    return run


def test_what_is_missing_of_a_run(tmp_path):
    """From its folder alone; the comparison's file says it."""
    (run,) = make_runs([replace(VARIANT, test_sets={"test": None})], tmp_path, [3])
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
    (run,) = make_runs(
        [replace(VARIANT, tried={"lr": "1"}, test_sets={"test": None})], tmp_path, [1]
    )
    run.tuning = True
    run.begin()
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    (run.folder / TRAINED).touch()
    assert run.folder.name == "a-lr-1-seed1" and not run.finished, "its row is not there"
    run()
    assert run.finished and not replace(run, tuning=False).finished
    assert [row.validation for row in read_rows(tmp_path)] == [5.0]


def test_a_run_whose_rows_lack_its_scores_is_not_finished(tmp_path):
    """As where an earlier version was killed after the evaluation of a candidate."""
    run = begun(tmp_path, replace(VARIANT, test_sets={"test": None}))
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    run.write_results("")
    for step in run.steps:
        (run.folder / step.product).touch()
    assert run.next_step is None and not run.finished


def test_a_run_does_not_train_on_data_that_were_replaced(tmp_path):
    """What is trained already is still evaluated."""
    (data := tmp_path / "data").mkdir()
    (data / "train.bin").write_text("1")
    run = begun(tmp_path / "runs", replace(VARIANT, data=str(data), data_digest="another"))
    with pytest.raises(ValueError, match=f"{data} has changed since"):
        run.check_data()
    run()
    assert "data has changed since" in run.failure
    (run.folder / TRAINED).touch()
    run.check_data()
    (run.folder / TRAINED).unlink()
    replace(run, variant=replace(run.variant, data_digest=sha256(data))).check_data()


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
    """Of a candidate, too, but not while another process is at it."""
    run = replace(begun(tmp_path), tuning=True)
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    for name in ("checkpoint_best", "checkpoint_last", "checkpoint3", "averaged"):
        (run.folder / f"{name}.pt").touch()
    run.discard()
    (run.folder / TRAINED).touch()
    run.write_results("not evaluated")
    with FileLock(run.folder / runs.LOCK):
        run.discard()
    assert len([*run.folder.glob("*.pt")]) == 4
    run.discard()
    assert {path.name for path in run.folder.glob("*.pt")} == {"checkpoint_best.pt", "averaged.pt"}


# --- continuing ------------------------------------------------------------------------


def test_the_same_settings_continue_a_folder(tmp_path):
    """Wherever the package is, and however large the batches of an evaluation are.

    An earlier version kept no digest of a plugin that has only a preset.
    """
    begun(tmp_path, replace(VARIANT, evaluate={"beam": 5}))
    same = {**OPTIONS, "user-dir": "elsewhere", "fp16": False, "clip-norm": None}
    smaller = {"beam": 5, "batch-size": 8}
    check_begun(
        SHARED, [replace(VARIANT, options=same, evaluate=smaller, seed=9, code="x")], tmp_path
    )


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
    kept = replace(VARIANT, evaluate={"beam": 5}, test_sets={"test": None}, code="y")
    for variant in (kept, replace(kept, seed=2), replace(kept, architecture="b")):
        begun(out, variant)
    folders = f"{out}/a-seed1 {out}/a-seed2"
    message = f"^{out} was begun with other settings .{named}.; delete {folders} to .* {out}-2$"
    with pytest.raises(ValueError, match=message):
        check_begun(SHARED, [replace(kept, **changes)], out)
    for folder in folders.split():
        shutil.rmtree(folder)
    check_begun(SHARED, [replace(kept, **changes)], out)


@pytest.fixture
def experiment(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.bin").write_text("1")
    data = str(tmp_path / "data")
    return Experiment(data, {"max-epoch": 3}, {"a": {}, "b": {}}, seeds=[5, 1])


def test_the_first_command_says_what_runs_share(experiment, tmp_path):
    """The baseline and the seed that tunes stay those of the first command, once a run has begun.

    An earlier version also kept the size to match.
    """
    out = tmp_path / "runs"
    first = share(experiment, out)
    assert (first.baseline, first.seed) == ("a", 5)
    begin([], replace(first, baseline="b", effort={}), out)
    begin(make_runs([VARIANT], out, [1]), first, out)
    later = replace(experiment, architectures={"c": {}}, seeds=[2])
    assert share(later, out) == first
    with open(out / "comparison.yaml", "a") as file:
        file.write("parameters: 7\n")
    assert share(later, out) == first


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"data": "{own}"}, "data {data} → {own}"),
        ({"tune": {"lr": [1, 2]}}, "tune unset → lr by seed 5"),
        ({"budget": 2.0}, "max-epoch 3 → unset, budget unset → 0:02:00"),
        ({"train": {"max-epoch": 4}}, "max-epoch 3 → 4"),
        ({"baseline": "b"}, "baseline a → b"),
        ({"train": {"max-epoch": 4}, "baseline": "b"}, "baseline a → b, max-epoch 3 → 4"),
    ],
)
def test_another_comparison_is_told_a_free_folder(changes, named, experiment, tmp_path):
    own, out = shutil.copytree(experiment.data, tmp_path / "own"), tmp_path / "runs"
    begin(make_runs([VARIANT], out, [1]), share(experiment, out), out)
    changes = {k: v.format(own=own) if k == "data" else v for k, v in changes.items()}
    other, named = replace(experiment, **changes), named.format(data=experiment.data, own=own)
    for free in ("runs-2", "runs-3"):
        refused = f"^{out} .*settings .a: {named}.; give .* {tmp_path}/{free}$"
        with pytest.raises(ValueError, match=refused):
            check_begun(share(other, out), [VARIANT], out)
        (tmp_path / free).mkdir()


def test_replaced_data_are_refused(experiment, tmp_path):
    out = tmp_path / "runs"
    begin(make_runs([VARIANT], out, [1]), share(experiment, out), out)
    (tmp_path / "data/train.bin").write_text("2")
    with pytest.raises(ValueError, match="a: the files of .*/data have changed"):
        check_begun(share(experiment, out), [VARIANT], out)


def test_of_two_commands_that_begin_at_once_the_second_is_compared(experiment, tmp_path):
    """Both have found an empty folder; one that asks for the same goes on."""
    out = tmp_path / "runs"
    first, second = share(experiment, out), share(replace(experiment, baseline="b"), out)
    runs = make_runs([VARIANT], out, [1])
    begin(runs, first, out)
    begin(runs, first, out)
    with pytest.raises(ValueError, match="a: baseline a → b"):
        begin(runs, second, out)
    others = make_runs([replace(VARIANT, options={**OPTIONS, "lr": "2e-3"})], out, [1, 2])
    with pytest.raises(ValueError, match="a: lr 1e-3 → 2e-3"):
        begin(others, first, out)
    assert not others[1].folder.exists()


def test_a_folder_of_an_earlier_version_is_refused(experiment, tmp_path):
    (tmp_path / "plan.yaml").touch()
    with pytest.raises(ValueError, match=f"{tmp_path} was begun by an earlier version"):
        share(experiment, tmp_path)


@pytest.mark.parametrize("name", ["comparison.yaml", "a-seed1/run.yaml", "part/comparison.yaml"])
def test_a_folder_with_other_files_is_refused(name, experiment, tmp_path):
    """But for one with a comparison, whatever else is there."""
    (out := tmp_path / "runs").mkdir()
    (out / ".hidden").touch()
    share(experiment, out)
    (out / "README.md").touch()
    with pytest.raises(ValueError, match=f"^--out {out}: it has files .* --out {tmp_path}/runs-2$"):
        share(experiment, out)
    shared = share(experiment, tmp_path / "new")
    (out / name).parent.mkdir(exist_ok=True)
    write_yaml(out / name, VARIANT if name.endswith("run.yaml") else shared)
    assert share(experiment, out) == shared


@pytest.mark.parametrize("text", ["", "1", "[]", "a: &a [*a]", "!!python/name:os.system x"])
def test_a_damaged_file_of_a_run_is_named(text, tmp_path):
    run = begun(tmp_path)
    (run.folder / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=f"{run.folder}/run.yaml is no run.yaml of this version"):
        check_begun(SHARED, [VARIANT], tmp_path)


def test_what_determines_a_run_is_kept_as_it_is(tmp_path):
    run = begun(tmp_path, replace(VARIANT, tried={"lr": "no"}, paper={"BLEU": 1.5}, budget=0.5))
    kept = read_yaml(run.folder / "run.yaml", Variant)
    assert kept.begun and replace(kept, begun="") == run.variant
    again = begun(tmp_path, replace(run.variant, command="later"))
    assert read_yaml(again.folder / "run.yaml", Variant) == kept, "the first command stays"
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
    every = [replace(VARIANT, tried={"lr": rate}) for rate in logs]

    def chosen(variants):
        return [run.variant for run in best_runs(variants, tmp_path, 1, [1])]

    assert chosen(every[1:]) == [every[1]], "the first, before any is trained"
    for variant, log in zip(every, logs.values()):
        for seed, lines in ((1, log), (2, [(10, 0.1, 1)] if variant is every[1] else [])):
            run = begun(tmp_path, replace(variant, seed=seed))
            write_log(run.folder / TRAIN_LOG, *lines)
            run.write_results("not evaluated")
    (best,) = chosen(every[1:])
    assert best.tried == {"lr": "1"}, "by the seed that tunes alone"
    tie = begun(tmp_path, replace(VARIANT, tried={"lr": "0"}))
    write_log(tie.folder / TRAIN_LOG, (10, 1.0, 1))
    tie.write_results("not evaluated")
    here = replace(tie.variant, options={**OPTIONS, "user-dir": "/here"})
    (best,) = chosen([here])
    assert best.tried == {"lr": "1"}, "which began before, as the report has it"
    assert Comparison(read_rows(tmp_path)).runs["a"][0].tuned == "lr 1"
    assert best.options["user-dir"] == "/here", "where the package is now"
    other = replace(VARIANT, architecture="b")
    assert [each.architecture for each in chosen([*every[1:], other])] == ["a", "b"]
