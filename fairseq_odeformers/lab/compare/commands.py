"""Run fairseq's commands with the plugin from Python, and read their logs."""

import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO


class CommandFailed(RuntimeError):
    """A command has ended with a status other than 0; the message has the end of its output."""


def fairseq_command(name: str, *options: object) -> list[str]:
    """A command such as ``fairseq-train`` of this Python's environment, with the plugin."""
    program = os.path.relpath(Path(sys.executable).with_name(name))
    plugin = os.path.relpath(Path(__file__).parents[2])
    return [program, *map(str, options), "--user-dir", plugin]


def stream(command: list[str], log: TextIO) -> Iterator[str]:
    """Run a command and yield its output line by line, which also goes to a log.

    Closing the generator ends the command.

    Raises:
        CommandFailed: its status is not 0.
    """
    tail: deque[str] = deque(maxlen=20)
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None  # a pipe
        try:
            for line in process.stdout:
                log.write(line)
                tail.append(line)
                yield line
        except BaseException:  # the generator is closed, or interrupted
            process.terminate()
            raise
    if status := process.returncode:
        raise CommandFailed(
            f"{command[0]} ended with status {status}; the end of its output:\n{''.join(tail)}"
        )


def log_stats(line: str, kind: str) -> dict[str, str] | None:
    """The statistics in a line of fairseq's JSON log, if they are of this kind.

    A kind is ``train`` (an epoch), ``train_inner`` (some updates), or the name of a validation set.
    """
    match = re.search(rf"\| INFO \| {kind} \| (\{{.*\}})$", line)
    return json.loads(match.group(1)) if match else None
