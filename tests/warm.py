"""Programs in forks of the process that runs the tests.

A fork has imported torch and fairseq already, which takes a new process five seconds.
"""

import copy
import logging
import multiprocessing
import os
import runpy
import sys
from functools import cache

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from hydra.core.override_parser.overrides_parser import OverridesParser

FORK = multiprocessing.get_context("fork")


def parse_once(parse):
    """Hydra's parser of an option with its value; forks inherit what it has parsed.

    fairseq gives it 270 of them for each configuration, most with the same default, which takes
    half of the time to compose one.
    """
    known = {}

    def parse_rule(self, text, rule):
        if (text, rule) not in known:
            known[text, rule] = parse(self, text, rule)
        return copy.copy(known[text, rule])

    return parse_rule


OverridesParser.parse_rule = parse_once(OverridesParser.parse_rule)


@cache
def prepare():
    """Compose one configuration, so that others, in forks, take less time."""
    line = ["unused", "--task", "translation", "--arch", "transformer"]
    args = options.parse_args_and_arch(options.get_training_parser(), line)
    convert_namespace_to_omegaconf(args)


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
