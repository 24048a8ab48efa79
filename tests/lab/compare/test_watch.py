"""How far runs are, and what becomes of those that have failed."""

import json
from io import StringIO

import pytest
from rich.console import Console

from fairseq_odeformers.files import TEMPORARY
from fairseq_odeformers.lab.compare import watch
from fairseq_odeformers.lab.compare.jobs import Machine
from fairseq_odeformers.lab.compare.runs import Run, Step


def test_progress_says_what_is_left(tmp_path):
    """Of the updates, by the present speed; a run that is not active has no end in sight."""
    run = Run("arch", 1, tmp_path, (Step("training", ("x",), "trained"),), updates=600)
    stats = {"epoch": 2, "num_updates": "150", "ups": "1.5", "valid_loss": "8"}
    (tmp_path / "train.log").write_text(f"a | INFO | train_inner | {json.dumps(stats)}\n")
    past = "epoch 2, 150 of 600 updates, validation loss 8"
    assert watch.describe(run, True) == f"training, {past}, 1.50 updates/s, 0:05:00 left"
    assert watch.describe(run, False) == f"waiting, {past}"


def test_names_are_whole_in_a_narrow_terminal(tmp_path):
    """Beside a log with all that there is to say, and a failure with brackets."""
    folder = tmp_path / "transevolve_classifier_fullff_1_prenorm-lr-1e-3-seed1"
    folder.mkdir()
    (folder / "failed.txt").write_text("[Errno 28] No space left")
    run = Run("arch", 1, folder, (Step("training", ("x",), "trained"),), updates=6000)
    stats = {"epoch": 2, "num_updates": "1500", "ups": "1.5", "valid_loss": "8"}
    (folder / "train.log").write_text(f"a | INFO | train_inner | {json.dumps(stats)}\n")
    console = Console(width=80, file=StringIO())
    console.print(watch.progress([run], []))
    text = console.file.getvalue()
    assert folder.name in text and "1,500" in text and "[Errno" in text


def test_no_runs_have_no_progress(capsys):
    """As after tuning runs that have all failed."""
    watch.submit_and_watch([], Machine(1, 0))
    assert capsys.readouterr().out == ""


def test_a_translation_counts_its_sentences(tmp_path):
    step = Step("predicting", ("fairseq-generate",), "best.test.out", printed="stdout")
    run = Run("arch", 1, tmp_path, (step,))
    assert watch.state(run, True) == "predicting"
    output = tmp_path / f"best.test.out.01234567{TEMPORARY}"
    output.write_text("S-3\ta\nH-3\t-0.1\tb\nS-1\tH-\nH-1\t-0.2\tc\nS-2\td\n")
    assert watch.state(run, True) == "predicting, 2 sentences"


def test_what_has_failed_is_tried_again_by_the_next_command(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0)
    step = Step("training", ("test", "-e", str(tmp_path / "there")), "trained")
    run = Run("arch", 1, tmp_path / "run", (step,))
    for finished in (False, True):
        watch.submit_and_watch([run], Machine(1, 0))
        assert (run.finished, run.failure is None) == (finished, finished)
        (tmp_path / "there").touch()


def test_a_run_that_takes_too_long_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0)
    step = Step("training", ("sleep", "600"), "trained")
    run, other = (Run(name, 1, tmp_path / name, (step,)) for name in ("one", "other"))
    watch.submit_and_watch([run, other], Machine(1, 0, seconds=0.5))
    assert "--time" in run.failure and "--time" in other.failure
    assert not run.busy


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_more_jobs_run_at_a_time_than_allowed(jobs, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0)
    line = f"cd {tmp_path}; mkdir $$; ls -d [0-9]* | wc -l; sleep 0.5; rmdir $$"
    step = Step("training", ("sh", "-c", line), "count", printed="stdout")
    runs = [Run("arch", seed, tmp_path / f"run{seed}", (step,)) for seed in range(4)]
    watch.submit_and_watch(runs, Machine(jobs, 0))
    counts = [int((run.folder / "count").read_text()) for run in runs]
    assert max(counts) == jobs
