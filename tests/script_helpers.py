"""Run scripts and fairseq's commands, and read their output."""

import logging
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path

import pytest
import torch._dynamo  # noqa: F401  the first optimizer of each fork would import it
from fairseq.data import Dictionary, data_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.options import get_preprocessing_parser
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq_cli import preprocess, train

from odeformers.processes import FORK

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = ROOT / "scripts"
USER_DIR = str(ROOT / "fairseq_odeformers")
# fairseq aborts if one of its threads still reads batches when the program ends.
IN_MAIN_THREAD = ["--num-workers", "0", "--data-buffer-size", "0"]


def run(script, *options, cwd):
    """The output of a shell script of ``scripts``, with this Python."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "scripts").symlink_to(SCRIPTS)
        words = ["env", f"PYTHON={sys.executable}", "bash", root / "scripts" / script]
        return execute(*words, *options, cwd=cwd)


def command(name, *args, cwd=None):
    """The output of one of fairseq's commands."""
    if name == "train":
        args = [*args, *IN_MAIN_THREAD]
    return module(f"fairseq_cli.{name}", *args, cwd=cwd)


def module(name, *args, cwd=None):
    """The output of ``python -m name``."""
    return execute(sys.executable, "-m", name, *args, cwd=cwd)


def execute(*words, cwd=None):
    """What a program prints, on either stream.

    Raises:
        CalledProcessError: it fails; its output is printed.
    """
    words = [str(word) for word in words]
    ended = subprocess.run(
        words, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if ended.returncode:
        print(ended.stdout)
        raise subprocess.CalledProcessError(ended.returncode, words, ended.stdout)
    return ended.stdout


def write_to(file):
    """Make a file the standard output and error of a fork, which sets up its own logging."""
    for number, name in enumerate(("stdout", "stderr"), start=1):
        os.dup2(file.fileno(), number)
        setattr(sys, name, open(number, "w", buffering=1, encoding="utf-8", closefd=False))
    logging.root.handlers.clear()
    logging.disable(logging.NOTSET)


def trainings(configs, cwd, processes=1, main=train.main, **environment):
    """Train by configurations of ``fairseq-train``, one after the other, in forks of this process.

    Args:
        processes: how many train together, as if torchrun had started them.
        main: the function to run instead of training, of another of fairseq's commands.
        environment: variables to set in addition.

    Returns:
        What each has logged.

    Raises:
        CalledProcessError: one of them fails; what all have logged is printed.
    """
    if processes > 1:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
        environment.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=port, WORLD_SIZE=str(processes))
    with tempfile.TemporaryFile() as output:
        ranks = [
            FORK.Process(
                target=call_all,
                args=(main, configs, cwd, output, {**environment, "RANK": str(rank)}),
            )
            for rank in range(processes)
        ]
        for rank in ranks:
            rank.start()
        sentinels = [rank.sentinel for rank in ranks]
        while sentinels and not any(rank.exitcode for rank in ranks):
            sentinels = [logs for logs in sentinels if logs not in wait(sentinels)]
        for rank in ranks:  # one may wait for a failed one
            rank.kill()
            rank.join()
        output.seek(0)
        log = output.read().decode()
    for rank in ranks:
        if rank.exitcode:
            print(log)
            raise subprocess.CalledProcessError(rank.exitcode, main.__module__, log)
    return log.split("\f")[1:]


def call_all(main, configs, cwd, output, environment):
    write_to(output)
    os.chdir(cwd)
    os.environ.update(environment)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, force=True)
    for config in configs:
        print("\f", flush=True)
        distributed_utils.call_main(config, main)


def failing_command(*args):
    with pytest.raises(subprocess.CalledProcessError) as error:
        command(*args)
    return error.value.stdout


def lines(path):
    return path.read_text(encoding="utf-8").splitlines()


def binarized_lines(data_bin, split, pair, lang):
    """One side of a binarised split as text, its subwords joined."""
    dictionary = Dictionary.load(str(data_bin / f"dict.{lang}.txt"))
    dataset = data_utils.load_indexed_dataset(str(data_bin / f"{split}.{pair}.{lang}"), dictionary)
    return [dictionary.string(ids, "subword_nmt") for ids in dataset]


def labelled_texts(data_bin, split, inputs=1):
    """Class and texts of each example of a binarised split; the end of a text is marked once."""
    columns = []
    for part in ("label", *(f"input{number}" for number in range(inputs))):
        dictionary = Dictionary.load(str(data_bin / part / "dict.txt"))
        dataset = data_utils.load_indexed_dataset(str(data_bin / part / split), dictionary)
        assert all(ids.tolist().index(dictionary.eos()) == len(ids) - 1 for ids in dataset)
        columns.append([dictionary.string(ids) for ids in dataset])
    return list(zip(*columns))


def sentence_prediction(data_bin, split, classes, regression=False):
    """fairseq's task of that name, and a split of a data set as it loads it."""
    cfg = SentencePredictionConfig(
        data=str(data_bin),
        num_classes=classes,
        regression_target=regression,
        classification_head_name="head",
        no_shuffle=True,
        seed=1,
    )
    task = SentencePredictionTask.setup_task(cfg)
    return task, task.load_dataset(split)


def parallel_data(folder, source, target, **sizes):
    """Sentences of the same twenty words in two languages, and ``data-bin`` made of them.

    Args:
        sizes: sentence pairs of each split; test sets are ``test``, ``test1``, and so on.
    """
    words = random.Random(1)
    for split, size in sizes.items():
        for lang in (source, target):
            rows = (" ".join(f"word{words.randrange(20)}" for _ in range(5)) for _ in range(size))
            (folder / f"{split}.{lang}").write_text("".join(row + "\n" for row in rows))
    tests = ",".join(str(folder / split) for split in sizes if split.startswith("test"))
    prefixes = [f"--{split}pref={folder / split}" for split in ("train", "valid")]
    options = ["-s", source, "-t", target, "--joined-dictionary", *prefixes, f"--testpref={tests}"]
    parser = get_preprocessing_parser()
    preprocess.main(parser.parse_args([*options, "--destdir", str(folder / "data-bin")]))


@contextmanager
def full_disk(size):
    """Limit files that processes started meanwhile write to *size* bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def contents(folder):
    """The bytes of each file below a folder."""
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def times(folder):
    """The time of the last change of each file and folder below a folder."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def stub_commands(root, **commands):
    """Replace commands by shell scripts, in a folder that stands for the repository.

    Args:
        commands: the lines of each; ``_`` in a name is ``-``.
    """
    folder = root / ".venv" / "bin"
    if not folder.exists():
        (root / "examples").symlink_to(ROOT / "examples")
        folder.mkdir(parents=True)
    for name, lines in commands.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!/bin/bash\n{lines}\n")
        path.chmod(0o755)
