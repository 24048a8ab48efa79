"""Programs in forks of the process that runs the tests.

A fork has imported torch and fairseq already, which takes a new process five seconds.
"""

import logging
import multiprocessing
import os
import runpy
import sys

FORK = multiprocessing.get_context("fork")


def write_to(file):
    """Make a file the standard output and error of a fork, which sets up its own logging."""
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(file.fileno(), number)
        setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", closefd=False))
    logging.root.handlers.clear()
    logging.disable(logging.NOTSET)


def become(output, cwd, name, arguments):
    """Turn a fork into what ``python -m name arguments`` starts."""
    write_to(output)
    os.chdir(cwd)
    sys.argv[:] = [name, *arguments]
    runpy.run_module(name, run_name="__main__", alter_sys=True)
