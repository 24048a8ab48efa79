"""``scripts/prepare-*.sh`` run their commands, and survive kills and damaged archives."""

import os
import signal
import subprocess
from itertools import count
from pathlib import Path

import pytest
from published import iwslt14, multi30k, write_archive, write_folder
from script_helpers import SCRIPTS, contents, execute, run, stub_commands

from odeformers.__main__ import main
from odeformers.prepare import CORPORA
from odeformers.processes import FORK

COMMANDS = {
    path.stem: path.stem.removeprefix("prepare-").replace("parallel-text", "parallel")
    for path in SCRIPTS.glob("prepare-*")
}


def test_the_scripts_of_earlier_versions_exist():
    """A new corpus needs no script, since ``odeformers prepare`` finds its module."""
    corpora = "glue iwslt14 lm lra multi30k parallel ptb text-classification wikitext103 wmt14"
    assert {*COMMANDS.values()} == {*corpora.split()} <= {*CORPORA}


@pytest.mark.parametrize(
    "script, command",
    [
        *((script, f"prepare {corpus}") for script, corpus in COMMANDS.items()),
        ("score-wmt14", "score-wmt14"),
    ],
)
def test_a_script_runs_its_command(script, command, tmp_path):
    (tmp_path / "scripts").symlink_to(SCRIPTS)
    stub_commands(tmp_path, python='echo "$@"')
    output = execute("bash", tmp_path / "scripts" / f"{script}.sh", "--out", "a b")
    assert output == f"-m odeformers {command} --out a b\n"


def test_a_killed_preparation_ends_with_the_same_files(tmp_path, monkeypatch):
    """The kill comes before or after each rename of a step's temporary folder to its final name."""
    write_folder(tmp_path / "raw", multi30k(train=40, val=5, test_2016_flickr=6))
    line = "--from raw --bpe-operations 20 --workers 1 --out".split()
    run("prepare-multi30k.sh", *line, "whole", cwd=tmp_path)
    monkeypatch.chdir(tmp_path)
    rename = Path.rename
    for number in count():

        def rename_and_die(path, target, done=number % 2):
            if not path.is_dir():
                return rename(path, target)
            if done:
                rename(path, target)
            os.kill(os.getpid(), signal.SIGKILL)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", rename_and_die)
            preparation = FORK.Process(
                target=main, args=(["prepare", "multi30k", *line, "killed"],)
            )
            preparation.start()
            preparation.join()
        if preparation.exitcode == 0:
            break
        assert preparation.exitcode == -signal.SIGKILL
    assert number == 2 * len(list((tmp_path / "whole").rglob("recipe.json"))) > 0
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_a_damaged_archive_ends_a_script_with_one_line(tmp_path):
    archive = write_archive(tmp_path / "cut.tgz", iwslt14())
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(subprocess.CalledProcessError) as error:
        run("prepare-iwslt14.sh", "--from", "cut.tgz", "--out", "out", cwd=tmp_path)
    assert error.value.returncode == 2
    last = error.value.stdout.splitlines()[-1]
    assert last.startswith("odeformers prepare iwslt14: error: cut.tgz is damaged")
    assert "Traceback" not in error.value.stdout
    assert "\r" not in error.value.stdout  # no progress bar without a terminal
