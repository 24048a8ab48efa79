"""``fairseq-train --help``, without this package and with ``--user-dir``."""

import subprocess
import sys
from pathlib import Path

import torch

import fairseq_odeformers

from .subjects import Subject
from .timing import Step

SETTINGS: set[str] = set()
COMMANDS = {
    "fairseq": [],
    "plugin": ["--user-dir", str(Path(fairseq_odeformers.__file__).parent)],
}


def build(name: str, args) -> Subject:
    """One of the two commands, in the place of a model.

    Raises:
        ValueError: there is no such command.
    """
    if name not in COMMANDS:
        raise ValueError(f"--models {name}: choose from {', '.join(COMMANDS)}")
    return Subject(name, torch.nn.Module(), None, None)


def step(subject: Subject, args, length: int) -> Step:
    line = [sys.executable, "-m", "fairseq_cli.train", "--help", *COMMANDS[subject.name]]
    return lambda: subprocess.run(line, check=True, capture_output=True)
