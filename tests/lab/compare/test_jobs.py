"""Jobs on this machine: their GPUs, and that no process outlives them."""

import os
import signal
import sys
import time
from argparse import Namespace
from dataclasses import replace

import pytest
from filelock import FileLock
from submitit import AutoExecutor

from fairseq_odeformers.lab.compare import watch
from fairseq_odeformers.lab.compare.jobs import FORK, Cluster, Machine, choose_machine
from fairseq_odeformers.lab.compare.runs import Run, Step

# Holds a lock as long as it lives, or as a process lives that it starts.
HOLD = """
import fcntl, signal, subprocess, sys
alive = open("alive", "w")
fcntl.flock(alive, fcntl.LOCK_EX)
if sys.argv[1:]:
    subprocess.Popen(sys.argv[1:], pass_fds=[alive.fileno()])
open("begun", "w").close()
signal.pause()
"""


@pytest.fixture
def holding(tmp_path, monkeypatch):
    """A run that does not end."""
    monkeypatch.chdir(tmp_path)
    step = Step("training", (sys.executable, "-c", HOLD), "trained")
    return Run("arch", 1, tmp_path, (step,))


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_run_is_a_job_whose_steps_are_commands(tmp_path):
    step = Step("listing", ("odeformers", "list"), "listed", printed="stdout")
    run = Run("arch", 1, tmp_path, (step,))
    (job,) = Machine(1, 0).submit([run]).values()
    wait_until(job.done)
    assert run.finished and job.exception() is None
    assert "transevolve_fullff_2" in (tmp_path / "listed").read_text()


def test_a_job_that_is_cancelled_leaves_no_process(holding, tmp_path):
    """Neither a command nor what a command has started."""
    step = replace(holding.steps[0], words=(*holding.steps[0].words, "sleep", "600"))
    (job,) = Machine(1, 0).submit([replace(holding, steps=(step,))]).values()
    wait_until((tmp_path / "begun").exists)
    assert holding.busy
    job.cancel()
    with FileLock(tmp_path / "alive", timeout=20):
        assert job.done() and not holding.busy
    assert "status -9" in str(job.exception())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGHUP])
def test_the_jobs_of_a_command_end_with_it(number, holding, tmp_path):
    """However it ends; the next command finds the run free."""

    def compare():
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.default_int_handler)
        watch.submit_and_watch([holding], Machine(1, 0))

    command = FORK.Process(target=compare)
    command.start()
    wait_until((tmp_path / "begun").exists)
    os.kill(command.pid, number)
    command.join(60)
    ended = not command.is_alive()
    command.kill()  # or pytest would wait for it
    assert ended and command.exitcode
    with FileLock(tmp_path / "alive", timeout=20):
        wait_until(lambda: not holding.busy)
    assert holding.failure is None


def test_a_job_that_is_killed_is_a_failure_of_its_run(holding, tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0)
    machine = Machine(1, 0)

    def kill():
        wait_until((tmp_path / "begun").exists)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    submit = machine.submit

    def note(runs):
        jobs = submit(runs)
        (tmp_path / "pid").write_text(str(jobs[holding].process.pid))
        return jobs

    monkeypatch.setattr(machine, "submit", note)
    killer = FORK.Process(target=kill)
    killer.start()
    watch.submit_and_watch([holding], machine)
    killer.join()
    assert holding.failure == "the job ended early: it has ended with status -9"


def test_jobs_share_the_gpus_of_a_machine(tmp_path, monkeypatch):
    """Those of the command, in turn; a job that has ended gives its GPU back."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-3f,5")
    line = f"until [ -e {tmp_path}/end ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES"
    step = Step("listing", ("sh", "-c", line), "gpus", printed="stdout")
    runs = [Run("arch", seed, tmp_path / str(seed), (step,)) for seed in range(5)]
    for run in runs:
        run.folder.mkdir()
    machine = Machine(4, 1)
    jobs = machine.submit(runs[:4]).values()
    (tmp_path / "end").touch()
    wait_until(lambda: all(job.done() for job in jobs))
    (last,) = machine.submit(runs[4:]).values()
    wait_until(last.done)
    assert [(run.folder / "gpus").read_text() for run in runs] == [
        f"{name}\n" for name in ("2", "GPU-3f", "5", "2", "2")
    ]


def test_a_cluster_gets_all_runs_at_once(tmp_path):
    """By the public interface of submitit, here of its executor for tests."""
    step = Step("listing", ("echo", "done"), "listed", printed="stdout")
    runs = [Run("arch", seed, tmp_path / str(seed), (step,)) for seed in range(3)]
    watch.submit_and_watch(runs, Cluster(AutoExecutor(tmp_path / "jobs", cluster="debug")))
    assert [(run.folder / "listed").read_text() for run in runs] == ["done\n"] * 3


@pytest.mark.parametrize("seconds, minutes", [(45, 1), (60, 1), (90, 2)])
def test_what_sbatch_refuses_is_one_line(seconds, minutes, tmp_path, monkeypatch):
    """Slurm is there, but has no such partition. Its time limit is in whole minutes; 0 is none."""
    for name in ("srun", "sbatch"):
        path = tmp_path / name
        path.write_text("#!/bin/sh\necho 'sbatch: error: invalid partition: x' >&2\nexit 1\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    options = {"cluster": "slurm", "time": seconds / 60, "jobs": 1, "gpus_per_run": None}
    args = Namespace(**options, slurm_partition="x")
    run = Run("arch", 1, tmp_path / "1", (Step("listing", ("echo", "done"), "listed"),))
    cluster = choose_machine(args, tmp_path)
    with pytest.raises(ValueError, match="--cluster slurm: .*invalid partition: x"):
        cluster.submit([run])
    (script,) = (tmp_path / "jobs").glob("*.sh")
    assert f"--time={minutes}\n" in script.read_text()
