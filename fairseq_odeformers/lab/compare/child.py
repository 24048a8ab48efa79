"""A function that runs in a fork of this process, which keeps nothing of its memory."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection

import torch

FORK = multiprocessing.get_context("fork")  # has imported all that this process has


def call_in_child(function: Callable):
    """Call a function in a fork of this process, and return or raise what it does.

    Raises:
        ValueError: the child was killed.
    """
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(sender, function))
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise ValueError(
            "the trial of the models was killed, perhaps because memory ran out"
        ) from None
    finally:
        child.kill()
        child.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(sender: Connection, function: Callable) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # the trainings' logs have them
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        result = function()
    except Exception as error:
        result = error
    sender.send(result)
