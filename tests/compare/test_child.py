"""Calls in forks of this process; ``test_compare.py`` has errors that come from them."""

import os
import signal

import pytest

from fairseq_odeformers.compare.child import in_child


def test_a_fork_that_is_killed_is_an_error_of_one_line(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    process = in_child(os.getpid)
    assert process != os.getpid()
    with pytest.raises(ValueError, match="memory"):
        in_child(lambda: os.kill(os.getpid(), signal.SIGKILL))
