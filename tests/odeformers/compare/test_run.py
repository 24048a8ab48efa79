"""Runs: their steps, and what they keep."""

import multiprocessing
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml
from filelock import FileLock

from fairseq_odeformers.files import sha256
from odeformers.compare.outcome import TRAIN_LOG, TRAINED
from odeformers.compare.results.rows import read_rows
from odeformers.compare.run import LOCK, Run, Step, explain_failure, make_runs, make_steps, read_run
from odeformers.compare.variant import Variant
from tests.odeformers.compare.comparisons import estimated
from tests.odeformers.compare.test_outcome import write_log

OPTIONS = {"arch": "transformer", "source-lang": "de", "target-lang": "en", "lr": "1e-3"}
VARIANT = Variant("a", "translation", "/data", OPTIONS, baseline="a")
FORK = multiprocessing.get_context("fork")


def lines(variant, folder=Path("out/a-seed1")):
    return [(step, " ".join(step.words)) for step in make_steps(variant, 1, folder)]


# --- steps -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "saving, by, kept",
    [
        ({}, "epoch", "--keep-last-epochs 2"),
        ({"save-interval-updates": 500}, "update", "--keep-interval-updates 2 --no-epoch"),
    ],
)
def test_a_run_averages_kept_checkpoints_and_scores_splits(saving, by, kept):
    """A run averages checkpoints that the training keeps, and scores splits that have a score."""
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


def test_without_averaging_no_epoch_is_kept():
    ((_, training),) = lines(VARIANT)
    assert "--no-epoch-checkpoints" in training and "keep-last" not in training


@pytest.mark.parametrize(
    "task, suffix, printed",
    [("sentence_prediction", "tsv", ""), ("language_modeling", "out", "all")],
)
def test_predictions_are_a_table_or_a_log(task, suffix, printed):
    variant = replace(VARIANT, task=task, test_sets={"test.2016": None})
    _, (step, line) = lines(variant)
    assert (step.product, step.printed) == (f"checkpoint_best.test.2016.{suffix}", printed)
    assert ("--output " in line) == (suffix == "tsv")


@pytest.mark.parametrize("printed", ["", "stdout", "all"])
def test_a_failure_has_the_last_line_of_its_output(printed, tmp_path):
    """The message also names the log with the errors."""
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
def test_a_logged_score_is_read_from_both_streams(printed, tmp_path, monkeypatch):
    """fairseq-eval-lm logs its score even if LOGLEVEL would hide it."""
    monkeypatch.setenv("LOGLEVEL", "ERROR")
    line = f"echo hello; echo $LOGLEVEL Perplexity: 7.5 {printed}"
    Step("predicting", ("sh", "-c", line), "test.out", "all").make_product(tmp_path)
    assert (tmp_path / "test.out").read_text() == "hello\nINFO Perplexity: 7.5\n"


def test_warnings_are_no_score(tmp_path):
    """Warnings go to the log, and a command that prints nothing fails."""
    line = "echo careful >&2; echo 27.55"
    Step("scoring", ("sh", "-c", line), "test.score", "stdout").make_product(tmp_path)
    assert (tmp_path / "test.score").read_text() == "27.55\n"
    assert (tmp_path / TRAIN_LOG).read_text() == "careful\n"
    step = Step("scoring", ("sh", "-c", "echo 27.55 >&2"), "other.score", "stdout")
    with pytest.raises(ValueError, match="^sh: it printed no score"):
        step.make_product(tmp_path)
    assert not (tmp_path / "other.score").exists()


def test_a_diverged_training_is_explained():
    output = (
        "WARNING | NaN detected in output of encoder.layers.0.fc1, shape: torch.Size([3, 4])\n"
        "FloatingPointError: gradients are Nan/Inf\nTraceback\nStopIteration"
    )
    assert explain_failure(output, 1).startswith(
        "the loss or the gradients became NaN or infinite (gradients are Nan/Inf, NaN first in the "
        "output of encoder.layers.0.fc1); lower --lr"
    )


@pytest.mark.parametrize(
    "output, status, message",
    [
        ("x has already been imported.\n", -9, "killed by signal 9, often for lack of memory"),
        ("", -11, "killed by signal 11"),
        ("one\ntwo\n", 1, "two (status 1)"),
        (" ", 1, "no output (status 1)"),
        ("  raise\nKeyError: 'a'\nat exit\n", 1, "KeyError: 'a' (status 1)"),
        (
            "ImportError: \n\nIMPORTANT: read\nadvice\n",
            1,
            "ImportError: IMPORTANT: read (status 1)",
        ),
        ("torch.cuda.OutOfMemoryError: full\n", 1, "torch.cuda.OutOfMemoryError: full (status 1)"),
        ("error: --lr 0: no\nadvice", 2, "error: --lr 0: no (status 2)"),
        ("odeformers predict: error: no\nadvice", 2, "odeformers predict: error: no (status 2)"),
    ],
)
def test_a_failure_is_explained_by_its_signal_or_last_line(output, status, message):
    assert explain_failure(output, status) == message


# --- runs ------------------------------------------------------------------------------


def start_run(out, variant=VARIANT, seed=1, **more):
    """A run that has started."""
    (run,) = make_runs([estimated(variant)], out, [seed], **more)
    run.start()
    return run


def test_missing_parts_of_a_run_are_recorded(tmp_path):
    """The run's folder determines them, and the comparison's file states them."""
    estimate = estimated(replace(VARIANT, test_sets={"test": None}))
    (run,) = make_runs([estimate], tmp_path, [3])
    run.note_unfinished()
    assert not run.folder.exists() and run.folder == tmp_path / "a-seed3"

    def state():
        run.note_unfinished()
        (row,) = read_rows(tmp_path)
        assert (row.seed, row.validation) == (3, None)
        return row.state

    run.start()
    stats = '{"epoch": 1, "num_updates": "45"}'
    (run.folder / TRAIN_LOG).write_text(f"a | INFO | train_inner | {stats}\n")
    assert state() == "45 of 78 updates"
    run.fail("no memory")
    assert state() == "failed: no memory"
    (run,) = make_runs([estimate], tmp_path, [3])  # of the next command
    (run.folder / TRAINED).touch()
    assert state() == "not evaluated" and not run.finished


def test_a_trained_candidate_is_finished(tmp_path):
    variant = replace(VARIANT, tried={"lr": "1"}, test_sets={"test": None})
    run = start_run(tmp_path, variant, tuning=True)
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    (run.folder / TRAINED).touch()
    assert run.folder.name == "a-lr-1-seed1" and not run.finished, "its row is not there"
    run()
    assert run.finished and not replace(run, tuning=False).finished
    assert [row.validation for row in read_rows(tmp_path)] == [5.0]


def test_the_log_has_the_traceback_of_an_internal_error(tmp_path):
    """The run's rows cannot be written here; a user's mistakes have no traceback."""
    (data := tmp_path / "data").mkdir()
    variant = replace(VARIANT, tried={"lr": "1"}, data=str(data))
    run = start_run(tmp_path / "runs", variant, tuning=True)
    log = run.folder / TRAIN_LOG
    write_log(log, (10, 5.0, 7))
    run()
    assert "data has changed" in run.failure and "Traceback" not in log.read_text()
    (run.folder / TRAINED).touch()
    (run.folder / "results.csv").mkdir()
    run()
    assert run.failure in log.read_text() and "Traceback" in log.read_text()


def test_a_run_does_not_train_on_replaced_data(tmp_path):
    """A run that is already trained is still evaluated."""
    (data := tmp_path / "data").mkdir()
    (data / "train.bin").write_text("1")
    run = start_run(tmp_path / "runs", replace(VARIANT, data=str(data), data_digest="another"))
    with pytest.raises(ValueError, match=f"{data} has changed since"):
        run.check_data()
    run()
    assert "data has changed since" in run.failure
    (run.folder / TRAINED).touch()
    run.check_data()
    (run.folder / TRAINED).unlink()
    now = replace(run.variant, data_digest=sha256(data))
    replace(run, estimate=estimated(now)).check_data()


def test_a_run_of_another_process_is_left_alone(tmp_path):
    run = start_run(tmp_path)
    with FileLock(run.folder / LOCK):
        assert run.busy
        run.fail("of the other")
        run = start_run(tmp_path)
        process = FORK.Process(target=run)
        process.start()
        process.join()
        run.note_unfinished()
    assert process.exitcode == 0 and run.failure is None
    assert not (tmp_path / "results.csv").exists() and not (run.folder / TRAIN_LOG).exists()


def test_checkpoints_of_a_finished_run_are_removed(tmp_path):
    """A candidate's go, too, but not while another process works at it."""
    run = replace(start_run(tmp_path), tuning=True)
    write_log(run.folder / TRAIN_LOG, (10, 5.0, 7))
    for name in ("checkpoint_best", "checkpoint_last", "checkpoint3", "averaged"):
        (run.folder / f"{name}.pt").touch()
    run.discard()
    (run.folder / TRAINED).touch()
    run.write_results("not evaluated")
    with FileLock(run.folder / LOCK):
        run.discard()
    assert len([*run.folder.glob("*.pt")]) == 4
    run.discard()
    assert {path.name for path in run.folder.glob("*.pt")} == {"checkpoint_best.pt", "averaged.pt"}


KEPT = """
architecture: a
seed: 3
task: translation
data: /data
options: {arch: transformer, lr: '1e-3'}
data_digest: cd4c
code: ''
tried: {lr: '1e-3'}
evaluate: {beam: 5}
average: 2
test_sets: {test: null}
score: {}
bleu_tokenize: null
paper: {BLEU: 34.4}
baseline: a
budget: null
parameters: 2123
updates: 40
epoch_updates: 20
update_seconds: 0.25
validation_texts: 40
size: ''
defaults: {dropout: '0.1'}
environment: date 2026-11-28
command: '2026-11-28T03:23:52'
begun: '2026-11-28T03:24:27.269662'
flaws: {test: {unknown: 0.0, leaked: 0.5}}
"""


def test_a_run_of_an_earlier_commit_is_read(tmp_path):
    """The file of a run has the fields of three values side by side, as now."""
    (tmp_path / "run.yaml").write_text(KEPT)
    run, content = read_run(tmp_path), yaml.safe_load(KEPT)
    values = [vars(run), vars(run.estimate), vars(run.variant)]
    for name, value in content.items():
        assert [each[name] for each in values if name in each] == [value], name
    (again,) = make_runs([run.estimate], tmp_path, [3], command=run.command, flaws=run.flaws)
    again.start()
    written = yaml.safe_load((again.folder / "run.yaml").read_text())
    assert {**{name: written[name] for name in content}, "begun": run.begun} == content


def test_the_settings_of_a_run_are_saved(tmp_path):
    """One file has the variant, the estimate and the rest of the run."""
    variant = replace(VARIANT, tried={"lr": "no"}, paper={"BLEU": 1.5}, budget=0.5)
    run = start_run(tmp_path, variant, command="now", flaws={"test": {"leaked": 0.5}})
    kept = read_run(run.folder)
    assert kept.begun and all(getattr(kept, n.name) == getattr(run, n.name) for n in fields(Run))
    start_run(tmp_path, variant, command="later")
    assert read_run(run.folder).command == "now", "the first command stays"
    assert yaml.safe_load((run.folder / "run.yaml").read_text())["tried"] == {"lr": "no"}
