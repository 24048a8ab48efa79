"""How far runs are, and the end of their jobs."""

import subprocess
import time
from argparse import Namespace
from functools import partial

import pytest
from filelock import FileLock
from submitit import AutoExecutor

from fairseq_odeformers.lab.compare import watch
from fairseq_odeformers.lab.compare.runs import Run, Step


def test_the_updates_are_those_of_the_last_line(tmp_path):
    """That of an epoch's end, too, which --log-interval may not divide."""
    log = tmp_path / "train.log"
    assert watch.latest(log)["updates"] == 0
    start = "2026-11-24 08:31:02 | INFO |"
    inner = f'{start} train_inner | {{"epoch": 2, "num_updates": "140", "ups": "1.5"}}\n'
    log.write_text(inner)
    assert watch.latest(log) == {"updates": 140, "epoch": "2", "ups": "1.5"}
    valid = f'{start} valid | {{"epoch": 2, "valid_loss": "8.1", "valid_num_updates": "150"}}\n'
    log.write_text(inner + valid + "half of a li")
    assert watch.latest(log) == {"updates": 150, "epoch": "2", "ups": "1.5", "loss": "8.1"}


@pytest.fixture
def executor(tmp_path):
    """Of jobs of this machine."""
    return watch.make_executor(Namespace(cluster="local", time=None, gpus_per_run=0), tmp_path)


def test_a_run_is_a_job_whose_steps_are_commands(executor, tmp_path):
    step = Step("listing", ("odeformers", "list"), "listed", printed=True)
    run = Run("arch", 1, tmp_path, (step,))
    (job,) = watch.submit(executor, [run]).values()
    job.wait()
    assert run.finished and "transevolve_fullff_2" in (tmp_path / "listed").read_text()


def test_what_has_failed_is_tried_again_by_the_next_command(tmp_path, monkeypatch):
    monkeypatch.setattr(watch, "LOOK", 0)
    step = Step("training", ("test", "-e", str(tmp_path / "there")), "trained")
    run = Run("arch", 1, tmp_path / "run", (step,))
    for finished in (False, True):
        watch.execute([run], AutoExecutor(tmp_path / "jobs", cluster="debug"), 1)
        assert (run.finished, run.failure is None) == (finished, finished)
        (tmp_path / "there").touch()


def test_a_job_that_is_cancelled_leaves_no_process(executor, tmp_path):
    """The one that submitit starts, and the one that this starts, which runs the function."""
    (job,) = watch.submit(executor, [Sleep(tmp_path / "lock")]).values()
    wait_until((tmp_path / "lock").exists)
    watch.cancel(job)
    with FileLock(tmp_path / "lock", timeout=20):
        wait_until(job.done)
    assert job.state == "INTERRUPTED"


def test_jobs_share_the_gpus_of_a_machine(tmp_path, monkeypatch):
    """Those of the command, in turn; a job that has ended gives its own back."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,GPU-3f,5")
    executor = watch.OneMachine(tmp_path, 1)
    line = f"until [ -e {tmp_path / 'end'} ]; do sleep 0.1; done; echo $CUDA_VISIBLE_DEVICES"
    job = partial(subprocess.getoutput, line)
    jobs = watch.submit(executor, [partial(job) for _ in range(4)]).values()
    (tmp_path / "end").touch()
    assert [job.result() for job in jobs] == ["2", "GPU-3f", "5", "2"]
    (last,) = watch.submit(executor, [job]).values()
    assert last.result() == "2"


class Sleep:
    """A function that holds a lock as long as it lives."""

    def __init__(self, path):
        self.path = path

    def __call__(self):
        with FileLock(self.path):
            time.sleep(600)


def wait_until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
