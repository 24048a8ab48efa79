"""Launchers assign GPUs, respect limits, and leave no process behind."""

import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from filelock import FileLock
from submitit import AutoExecutor

from odeformers.compare.launch import LocalJob, Machine, Slurm, launch, progress
from odeformers.compare.outcome import TRAIN_LOG
from odeformers.compare.run import Run, Step, read_failure
from odeformers.processes import FORK, call_in_child
from tests.odeformers.compare.comparisons import estimated
from tests.odeformers.compare.test_run import VARIANT

# Holds a lock until its process ends.
HOLD = """
import fcntl, signal, subprocess
alive = open("alive", "w")
fcntl.flock(alive, fcntl.LOCK_EX)
{more}
open("begun", "w").close()
signal.pause()
"""
# Holds the lock until its child has ended, too.
HOLD_WITH_CHILD = HOLD.format(more="subprocess.Popen(['sleep', '600'], pass_fds=[alive.fileno()])")


@dataclass
class Shell:
    """A line for a shell in place of a run; its output is in its folder."""

    folder: object
    line: str

    def __call__(self):
        os.chdir(self.folder)
        os.system(self.line)


@dataclass
class OneStep:
    """In place of a run, a step that calls a program of Python in its folder."""

    folder: object
    program: str

    def __call__(self):
        (self.folder / "job").write_text(str(os.getpid()))
        os.chdir(self.folder)
        Step("step", (sys.executable, "-c", self.program), "product").make_product(self.folder)


class Failing(Run):
    def __call__(self):
        with open(self.folder / TRAIN_LOG, "a") as log:
            log.write("begun\n")
        self.fail("")
        replace(self).start()  # another command


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_cancelled_job_leaves_no_process(tmp_path):
    """Neither its command nor a process that the command started remains."""
    job = LocalJob(OneStep(tmp_path, HOLD_WITH_CHILD), [])
    wait_until((tmp_path / "begun").exists)
    assert not job.done()
    job.cancel()
    with FileLock(tmp_path / "alive", timeout=20):
        assert job.done()
    assert "status -9" in str(job.exception())


def test_jobs_share_the_gpus_of_a_machine(tmp_path, monkeypatch):
    """Jobs take the command's GPUs in turn, and return them when they end."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-3f,5")
    line = f"until [ -e {tmp_path}/end ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES > gpus"
    shells = [Shell(tmp_path / str(n), line) for n in range(5)]
    for shell in shells:
        shell.folder.mkdir()
        shell.__class__.__hash__ = object.__hash__
    machine = Machine(4, 1)
    jobs = machine.submit(shells[:4]).values()
    (tmp_path / "end").touch()
    wait_until(lambda: all(job.done() for job in jobs))
    (last,) = machine.submit(shells[4:]).values()
    wait_until(last.done)
    assert [(shell.folder / "gpus").read_text().strip() for shell in shells] == [
        *("2", "GPU-3f", "5", "2", "2")
    ]


def test_a_cluster_gets_all_runs_at_once(tmp_path):
    """submitit's public interface takes them, here with its executor for tests."""
    slurm = Slurm.__new__(Slurm)
    slurm.executor = AutoExecutor(tmp_path / "jobs", cluster="debug")
    runs = [Run(tmp_path / str(n), estimated(VARIANT), n) for n in range(2)]
    jobs = slurm.submit(runs)
    assert list(jobs) == runs and slurm.jobs is None


@pytest.fixture
def job_folder(tmp_path):
    """The folder of a job; the job's processes end with the test even if it fails."""
    yield tmp_path
    with suppress(ProcessLookupError):
        os.killpg(int((tmp_path / "job").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_a_killed_command_leaves_no_process(number, job_folder):
    """A command's job and the job's step end with it, whatever the signal."""

    def compare():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        LocalJob(OneStep(job_folder, HOLD.format(more="")), []).process.join()

    command = FORK.Process(target=compare)
    command.start()
    wait_until((job_folder / "begun").exists)
    os.kill(command.pid, number)
    command.join(60)
    assert command.exitcode == -number
    with FileLock(job_folder / "alive", timeout=20):  # the step has ended
        wait_until(lambda: not is_alive(int((job_folder / "job").read_text())))


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_an_empty_launch_prints_no_progress(capsys):
    """A launch is empty if all runs have failed in tuning."""
    launch([], Machine(1, 0))
    assert capsys.readouterr().out == ""


def test_a_failed_run_is_not_restarted(tmp_path):
    """Only the next command restarts a failed run, even if the cause is unknown."""
    run = Failing(tmp_path / "run", estimated(VARIANT), 1)
    launch([run], Machine(1, 0))
    assert run.failure == "" and (run.folder / TRAIN_LOG).read_text() == "begun\n"
    launch([replace(run, earlier_failure=read_failure(run.folder))], Machine(1, 0))
    assert (run.folder / TRAIN_LOG).read_text() == "begun\nbegun\n"


@pytest.fixture
def run(tmp_path):
    """A run after a quarter of its updates."""
    folder = tmp_path / "transevolve_classifier_fullff_1_prenorm-lr-1e-3-seed1"
    folder.mkdir()
    stats = '{"epoch": 2, "num_updates": "150", "ups": "1.5", "valid_loss": "8"}'
    (folder / TRAIN_LOG).write_text(f"a | INFO | train_inner | {stats}\n")
    return Run(folder, estimated(VARIANT, updates=600), 1)


def test_progress_says_what_is_left(run):
    """The remaining time follows from the present speed, and inactive runs are counted."""
    past = "epoch 2, 150 of 600 updates, validation loss 8, 1.50 updates/s, 0:05:00 left"
    assert progress([run], [run]) == [
        "0 of 1 runs finished",
        f"{run.folder.name}: training, {past}",
    ]
    assert progress([run, run], []) == ["0 of 2 runs finished"]
    run.fail("killed by signal 9")
    assert progress([run, run], []) == ["0 of 2 runs finished, 2 failed"]


def test_a_killed_fork_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert call_in_child(os.getpid) != os.getpid()
    with pytest.raises(ValueError, match="memory"):
        call_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(ZeroDivisionError):
        call_in_child(lambda: 1 / 0)
