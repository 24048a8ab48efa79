"""``scripts/prepare-*.sh`` reach their commands, and survive kills and damage."""

import subprocess

import pytest
from published import iwslt14, multi30k, write_archive, write_folder
from script_helpers import SCRIPTS, assert_survives_kills, run

from fairseq_odeformers.cli import CORPORA

COMMANDS = {
    path.stem: path.stem.removeprefix("prepare-").replace("parallel-text", "parallel")
    for path in SCRIPTS.glob("prepare-*")
}


def test_each_corpus_has_a_script():
    """But ListOps, which the Long Range Arena's has."""
    assert {*COMMANDS.values(), "listops"} == set(CORPORA)


@pytest.mark.parametrize("script", COMMANDS)
def test_a_script_reaches_its_command(script, tmp_path):
    said = run(f"{script}.sh", "--help", cwd=tmp_path)
    assert said.startswith(f"usage: odeformers prepare {COMMANDS[script]} [-h]")


def test_killed_at_each_step_it_leaves_the_same(tmp_path, monkeypatch):
    write_folder(tmp_path / "raw", multi30k(train=40, val=5, test_2016_flickr=6))
    options = ["--from", "raw", "--bpe-operations", 20, "--workers", 1]
    assert_survives_kills(monkeypatch, "prepare-multi30k.sh", *options, cwd=tmp_path)


def test_a_damaged_archive_ends_a_script_with_one_line(tmp_path):
    archive = write_archive(tmp_path / "cut.tgz", iwslt14())
    archive.write_bytes(archive.read_bytes()[:1000])
    with pytest.raises(subprocess.CalledProcessError) as error:
        run("prepare-iwslt14.sh", "--from", "cut.tgz", "--out", "out", cwd=tmp_path)
    assert error.value.returncode == 2
    last = error.value.stdout.splitlines()[-1]
    assert last.startswith("odeformers prepare iwslt14: error: cut.tgz is damaged")
    assert "Traceback" not in error.value.stdout
    assert "\r" not in error.value.stdout  # no progress bar in what is no terminal
