"""Calls in forks of this process."""

import os
import signal

import pytest

from fairseq_odeformers.compare.child import in_child


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_a_value_or_an_error_comes_from_another_process():
    process, value = in_child(lambda value: (os.getpid(), value), {"a": 1})
    assert process != os.getpid() and value == {"a": 1}
    with pytest.raises(ValueError, match="--lr x"):
        in_child(refuse, "--lr x")


def refuse(message):
    raise ValueError(message)


def test_a_fork_that_is_killed_is_an_error_of_one_line():
    with pytest.raises(ValueError, match="memory"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
