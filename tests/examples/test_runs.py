"""What the experiments' run.sh share: many runs by one command, none of them twice."""

import subprocess

import pytest
from script_helpers import ROOT

EXPERIMENT = """
set -euo pipefail
. examples/runs.sh
experiment() { echo "$1 $2"; complete "$3/out" work "$1"; }
work() { [ "$1" != bad ] || { echo "no such thing"; return 1; }; echo done; }
"""


def bash(script, **environment):
    return subprocess.run(
        ["bash", "-c", EXPERIMENT + script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    "seeds, expected", [({"SEEDS": "3 1"}, "31"), ({"SEED": "2"}, "2"), ({}, "1")]
)
def test_each_architecture_with_each_seed(tmp_path, seeds, expected):
    result = bash(f"all_runs data {tmp_path}/small- one two", **seeds)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n")[:-1] == [f"{a} {s}" for s in expected for a in ("one", "two")]
    for seed in expected:
        assert (tmp_path / f"small-two-seed{seed}" / "out").read_text() == "done\n"


def test_a_run_that_fails_leaves_no_result_and_does_not_stop_the_others(tmp_path):
    result = bash(f"all_runs data {tmp_path}/ bad good", SEEDS="1 2")
    assert result.returncode == 1
    assert result.stdout.split("\n")[:-1] == ["bad 1", "good 1", "bad 2", "good 2"]
    for seed in (1, 2):
        assert f"no such thing\n{tmp_path}/bad-seed{seed}: failed\n" in result.stderr
        assert not (tmp_path / f"bad-seed{seed}" / "out").exists()
        assert (tmp_path / f"good-seed{seed}" / "out").exists()


def test_a_run_that_another_process_is_at_is_left_to_it(tmp_path):
    busy = f"mkdir {tmp_path}/one-seed1; exec 8> {tmp_path}/one-seed1/lock; flock 8\n"
    result = bash(busy + f"all_runs data {tmp_path}/ one two")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{tmp_path}/one-seed1: another process is at it\ntwo 1\n"


def test_a_run_that_has_begun_with_other_options_is_refused(tmp_path):
    """One that has kept none goes on, as one does that has no checkpoint yet."""
    folder = tmp_path / "one-seed1"

    def train(options):
        return bash(f"extra=({options}); all_runs data {tmp_path}/ one")

    for options in ("--lr 1", "--lr 2 '--betas=(0, 1)'"):
        assert train(options).returncode == 0
    (folder / "checkpoint_best.pt").touch()
    assert train("--lr 2 '--betas=(0, 1)'").returncode == 0
    for options in ("", "--lr 2"):
        refused = train(options)
        assert refused.returncode == 1 and refused.stdout == ""
        assert f"{folder}: begun with the options ''--lr' '2' '--betas=(0, 1)''" in refused.stderr
    (folder / "options").unlink()
    assert train("").returncode == 0 and not (folder / "options").exists()


def test_a_run_that_has_begun_with_other_data_is_refused(tmp_path):
    """Whose accuracy would be printed as that of these; where the data lie does not matter."""
    assert bash(f"all_runs data/agnews {tmp_path}/ one").returncode == 0
    (tmp_path / "one-seed1" / "checkpoint_best.pt").touch()
    assert bash(f"all_runs elsewhere/agnews {tmp_path}/ one").returncode == 0
    refused = bash(f"all_runs data/imdb {tmp_path}/ one")
    assert refused.returncode == 1 and refused.stdout == ""
    assert "begun with the data 'agnews', not 'imdb'" in refused.stderr


@pytest.mark.parametrize(
    "args, parts, extra",
    [
        ("--lr 1", "a-1 a-2 ab b-1", "--lr 1"),
        ("--part b --lr 1 --part a-", "a-1 a-2 b-1", "--lr 1"),
        ("--part a --part a-2", "a-1 a-2 ab", ""),
    ],
)
def test_parts_are_named_by_their_start(args, parts, extra):
    """Each is taken once, in the order of the names; the other options are left."""
    script = f'take_parts "a-1 a-2 ab b-1" {args}; echo "${{parts[*]}}|${{extra[*]}}"'
    assert bash(script).stdout == f"{parts}|{extra}\n"


@pytest.mark.parametrize("args", ["--part 1", "--part", "--part 'a-1 a-2'x"])
def test_a_part_that_is_none_is_refused(args):
    result = bash(f'take_parts "a-1 a-2" {args}')
    assert result.returncode == 2 and "give the start of one or several of a-1" in result.stderr
