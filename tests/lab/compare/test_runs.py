"""Runs go on where they were left, whatever was killed, and two commands share them."""

import multiprocessing
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from fairseq_odeformers.files import sha256
from fairseq_odeformers.lab import commands
from fairseq_odeformers.lab.compare import runs
from fairseq_odeformers.lab.compare.runs import Run, Step

# In place of fairseq's commands: says that it was called, and writes to the log and its own file.
# With a file "kill" beside it, it kills itself or the process of the run in between. It holds a
# lock as long as it lives.
PROGRAM = """
import fcntl, os, pathlib, signal, sys
name, *product = sys.argv[1:]
alive = open("alive", "w")
fcntl.flock(alive, fcntl.LOCK_EX)
with open("calls", "a") as file:
    print(name, file=file)
print("half of", name, flush=True)
if pathlib.Path("kill").exists():
    step, victim = pathlib.Path("kill").read_text().split()
    if step == name:
        os.kill(os.getpid() if victim == "command" else os.getppid(), signal.SIGKILL)
        signal.pause()
print("all of", name)
for path in product:
    pathlib.Path(path).write_text(name)
if name == "diverges":
    print("WARNING | NaN detected in output of encoder.layers.0.fc1, shape: torch.Size([3, 4])")
    print("FloatingPointError: gradients are Nan/Inf\\nTraceback\\nStopIteration")
    sys.exit(1)
if name == "fails":
    sys.exit("no such thing")
"""
STEPS = (
    Step("training", ("fairseq-train", "train"), "trained"),
    Step("averaging", ("odeformers", "average", "averaged.pt"), "averaged.pt"),
    Step("predicting", ("fairseq-generate", "generate"), "test.out", printed="stdout"),
)
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text(PROGRAM)
    modules = dict.fromkeys(commands.MODULES, "program")
    monkeypatch.setattr(commands, "MODULES", modules)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(run):
    """A run in a process of its own, as submitit calls it; returns the exit status."""
    process = FORK.Process(target=run)
    process.start()
    process.join()
    return process.exitcode


@pytest.mark.parametrize("victim", ["command", "run"])
@pytest.mark.parametrize("step", ["train", "average", "generate"])
def test_a_killed_run_goes_on(step, victim, folder):
    run = Run("arch", 1, folder, STEPS)
    (folder / "kill").write_text(f"{step} {victim}")
    call(run)
    with FileLock(folder / "alive", timeout=20):
        assert not run.finished and not run.busy
    assert (run.failure is None) == (victim == "run")
    assert not (folder / "test.out").exists()
    (folder / "kill").unlink()
    call(run)
    assert run.finished
    calls = (folder / "calls").read_text().split()
    names = ["train", "average", "generate"]
    place = names.index(step)
    assert calls == [*names[: place + 1], *names[place:]], "what was done is not repeated"
    assert (folder / "test.out").read_text() == "half of generate\nall of generate\n"
    call(run)
    assert (folder / "calls").read_text().split() == calls


@pytest.mark.parametrize("printed", ["", "stdout", "stderr"])
def test_a_failure_is_kept_with_the_last_line_of_its_output(printed, folder):
    """And with the log that has its errors."""
    step = Step("training", ("fairseq-train", "fails"), "product", printed)
    run = Run("arch", 1, folder, (step, *STEPS[1:]))
    call(run)
    log = folder / runs.LOG
    assert run.failure == f"fairseq-train: no such thing (status 1); its log is {log}"
    assert log.read_text().endswith("no such thing\n")
    assert (folder / "calls").read_text().split() == ["fails"]
    assert not (folder / "product").exists()


def test_a_score_that_is_logged_is_the_product(folder, monkeypatch):
    """As fairseq-eval-lm logs it. A score that is printed nowhere is a failure, no empty row."""
    line = "echo $LOGLEVEL Perplexity: 7.5 >&2; echo hello"
    monkeypatch.setenv("LOGLEVEL", "ERROR")
    step = Step("predicting", ("sh", "-c", line), "test.out", printed="stderr")
    call(Run("arch", 1, folder, (step,)))
    assert (folder / "test.out").read_text() == "INFO Perplexity: 7.5\n"
    assert (folder / runs.LOG).read_text() == "hello\n"
    step = Step("scoring", ("sh", "-c", "echo 27.55 >&2"), "test.score", printed="stdout")
    run = Run("arch", 1, folder, (step,))
    call(run)
    assert run.failure.startswith("sh: it has printed nothing to stdout")
    assert not (folder / "test.score").exists()


def test_warnings_are_no_part_of_what_a_command_prints(folder):
    """They are in the log; without any, a failure is told by what the command has printed."""
    warn = "echo 27.55; echo careful >&2"
    step = Step("scoring", ("sh", "-c", warn), "test.score", printed="stdout")
    call(Run("arch", 1, folder, (step,)))
    assert (folder / "test.score").read_text() == "27.55\n"
    assert (folder / runs.LOG).read_text() == "careful\n"
    step = Step(
        "scoring", ("sh", "-c", "echo no references; exit 3"), "other.score", printed="stdout"
    )
    run = Run("arch", 1, folder, (step,))
    call(run)
    assert run.failure.startswith("sh: no references (status 3)")


def test_a_training_that_diverged_says_so_and_where(folder):
    """Until it fails for another reason."""
    run = Run("arch", 1, folder, (Step("training", ("fairseq-train", "diverges"), "product"),))
    call(run)
    assert run.failure.startswith(
        "fairseq-train: the loss or the gradients became NaN or infinite (gradients are Nan/Inf, "
        "NaN first in the output of encoder.layers.0.fc1); lower --lr"
    )
    call(replace(run, steps=(Step("training", ("fairseq-train", "fails"), "product"),)))
    assert run.failure.startswith("fairseq-train: no such thing (status 1)")


def test_a_run_does_not_train_on_data_that_were_replaced(folder):
    """What is trained already is still evaluated."""
    (folder / "data").mkdir()
    (folder / "data" / "train.bin").write_text("1")
    run = Run("arch", 1, folder / "run", STEPS, data=str(folder / "data"), data_digest="another")
    run.folder.mkdir()
    call(run)
    assert "data has changed since" in run.failure and not Path("calls").exists()
    (run.folder / runs.TRAINED).touch()
    call(run)
    assert Path("calls").exists()
    run = replace(run, folder=folder / "other", data_digest=sha256(folder / "data"))
    run.folder.mkdir()
    call(run)
    assert run.finished


def test_what_is_missing_of_a_run(folder):
    run = Run("arch", 3, folder / "run", STEPS, updates=78)
    assert run.unfinished == ""
    run.folder.mkdir()
    stats = '{"epoch": 1, "num_updates": "45"}'
    (run.folder / runs.LOG).write_text(f"a | INFO | train_inner | {stats}\n")
    assert run.unfinished == "seed 3: 45 of 78 updates"
    run.fail("no memory")
    assert run.unfinished == "seed 3 failed: no memory"
    (run.folder / runs.FAILURE).unlink()
    (run.folder / runs.TRAINED).touch()
    assert run.unfinished == "seed 3 is not evaluated"
    for step in STEPS:
        (run.folder / step.product).touch()
    assert run.unfinished == ""


def test_a_run_that_another_process_is_at_is_left_to_it(folder):
    run = Run("arch", 1, folder, STEPS)
    with FileLock(folder / runs.LOCK):
        assert run.busy
        assert call(run) == 0
    assert not run.finished and not Path("calls").exists()


def test_the_checkpoints_of_the_training_go_when_all_is_done(folder):
    for name in ("checkpoint_best", "checkpoint_last", "checkpoint3"):
        (folder / f"{name}.pt").touch()
    call(Run("arch", 1, folder, STEPS))
    assert {path.name for path in folder.glob("*.pt")} == {"checkpoint_best.pt", "averaged.pt"}
