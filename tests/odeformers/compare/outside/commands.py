"""Commands of ``odeformers`` in their own processes, and their output."""

import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from make_checkpoints import make_dictionary, write_rows
from script_helpers import write_to

from odeformers.__main__ import main
from odeformers.processes import FORK
from tests.odeformers.compare.pages import cell, numbers, table, tables  # noqa: F401  for its tests

EOS = 2
PLUGIN = Path(__file__).parent / "scripted"
BOTH = ["--archs", "scripted_base", "scripted_poor"]
SHORT = ["--epochs", 2, "--average", 2]
WAIT = 600  # seconds, after which a test fails that waits for another process


class Command:
    """A command line of ``odeformers``, in a process that leads a group."""

    def __init__(self, *words, **environment):
        self.output, self.errors = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.start([str(word) for word in words], environment)

    def start(self, words, environment):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "odeformers", *words],
            env={**os.environ, **environment},
            stdout=self.output,
            stderr=self.errors,
            start_new_session=True,
        )

    def kill(self, number=signal.SIGKILL):
        os.kill(self.process.pid, number)

    def wait(self):
        return self.process.wait(WAIT)

    def end(self):
        """Wait for the end, and return the output and the status."""
        try:
            status = self.wait()
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise TimeoutError(self.text(self.output) + self.text(self.errors)) from error
        return SimpleNamespace(
            status=status, output=self.text(self.output), errors=self.text(self.errors)
        )

    @staticmethod
    def text(file):
        file.seek(0)
        return file.read().decode()


class Fork(Command):
    """A command line whose main function runs in a fork of this process."""

    def start(self, words, environment):
        self.process = FORK.Process(target=self.main, args=(words, environment))
        self.process.start()

    def main(self, words, environment):
        write_to(self.output)
        os.dup2(self.errors.fileno(), 2)
        os.environ.update(environment)
        main(words)

    def wait(self):
        self.process.join(WAIT)
        if self.process.exitcode is None:
            raise subprocess.TimeoutExpired("odeformers", WAIT)
        return self.process.exitcode


def run(*words, start=Fork, **environment):
    """The output of a command that succeeds; the commands that it starts are new processes."""
    ended = start(*words, **environment).end()
    assert ended.status == 0, f"{ended.output}\n{ended.errors}"
    return ended.output


def refuse(*words, **environment):
    """The message of a command that is refused: one line, and status 2."""
    ended = Fork(*words, **environment).end()
    assert ended.status == 2, f"{ended.output}\n{ended.errors}"
    line = ended.errors.rstrip("\n").split("\n")[-1]
    start = f"odeformers {words[0]}: error: "
    assert line.startswith(start), ended.errors
    return line.removeprefix(start)


def wait_for(condition):
    """Wait until a condition is true, and return its value."""
    end = time.monotonic() + WAIT
    while not (value := condition()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return value


def held(controls):
    """The marks of waiting processes; their names end in the number of a process."""
    return [*controls.glob("hold-*-*")]


def alive(mark):
    """Whether the process of a mark is there, and no zombie."""
    try:
        with open(f"/proc/{mark.name.rpartition('-')[2]}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # the latter between open and read
        return False


def scores(out):
    """The accuracies in a report, by architecture."""
    rows = table((out / "report.md").read_text("utf-8"), "macro-F1")
    return {name: row["accuracy"] for name, row in rows.items()}


def commands(printed, program, run=""):
    """The options of each printed command of a program, or of one run's."""
    results = []
    for row in printed.splitlines():
        words = shlex.split(row) if row.startswith(program) else []
        options = {
            word[2:]: None if following.startswith("--") else following
            for word, following in zip(words, [*words[1:], "--"])
            if word.startswith("--")
        }
        if words and run in str(options):
            results.append(options)
    return results


def write_labelled(folder, **sizes):
    """Labelled texts for the scripted models: a word of the split, then one that no other has."""
    words, classes = make_dictionary(246), make_dictionary(3)
    for name, dictionary in (("input0", words), ("label", classes)):
        (folder / name).mkdir(parents=True)
        dictionary.save(str(folder / name / "dict.txt"))
    for marker, split in enumerate(("test", "valid", "train"), start=4):
        texts = [[marker, 10 + n, *[7] * (n % 4), EOS] for n in range(sizes[split])]
        write_rows(folder / "input0" / split, texts)
        write_rows(folder / "label" / split, [[4 + n % 3, EOS] for n in range(sizes[split])])
    return folder


def compare(data, out, *words, plugin=PLUGIN, **options):
    """A comparison of scripted models, by the words of its command, and what it prints."""
    return run(*line(data, out, *words, plugin=plugin), **options)


def line(data, out, *words, plugin=PLUGIN):
    """The words of a comparison that trains scripted models for a few updates."""
    own = ["--user-dir", plugin, "--no-check", "--match", "none", "--encoder-embed-dim", 8]
    fast = ["--batch-size", 2, "--num-workers", 0, "--data-buffer-size", 0, "--jobs", 4]
    return ["compare", data, "--out", out, *own, *fast, *words]
