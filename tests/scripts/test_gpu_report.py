"""``scripts/gpu_report.sh`` with stubs instead of its measurements."""

import os
import subprocess
import sys

import pytest
from script_helpers import ROOT, stub_commands

# A measurement writes its name and its precision; "infer" fails. The environment is described once.
PYTHON = """
case "$*" in
    *" infer "*) echo "no memory left"; exit 1 ;;
    *" fairseq_odeformers benchmark "*) echo "| table of $4 |" ;;
    -) [ -e {environment} ] || {python} - > {environment} || exit 1; cat {environment} ;;
esac
echo "$*" >> calls"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The stub of Python."""
    environment = tmp_path_factory.mktemp("described") / "environment"
    return PYTHON.replace("{python}", sys.executable).replace("{environment}", str(environment))


@pytest.fixture
def report(python, tmp_path):
    stub_commands(tmp_path, python=python)
    (tmp_path / "fairseq_odeformers").symlink_to(ROOT / "fairseq_odeformers")
    (tmp_path / "scripts").symlink_to(ROOT / "scripts")

    def run(*args, **environment):
        (tmp_path / "calls").write_text("")
        result = subprocess.run(
            ["bash", tmp_path / "scripts" / "gpu_report.sh", *args],
            cwd=tmp_path,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return result, (tmp_path / "calls").read_text().splitlines()

    return run


def test_failed_parts_are_repeated_and_finished_parts_kept(report, tmp_path):
    first, calls = report("out", "--dry-run")
    assert first.returncode == 1, first.stdout
    assert "infer-bf16: failed, see" in first.stdout and "no memory left" in first.stdout
    assert any("-m gpu" in call for call in calls)
    assert sum("--precision fp16" in call for call in calls) == 3  # but not infer
    summary = (tmp_path / "out" / "dry-run" / "summary.md").read_text()
    assert "| infer-fp16 | not finished: no memory left |" in summary
    assert "| train-fp16 | finished |" in summary and "## generate-float32" in summary

    second, calls = report("out", "--dry-run")
    assert "train-float32: done before" in second.stdout
    assert not any("benchmark train" in call for call in calls)

    (tmp_path / "out" / "dry-run" / "environment.txt").write_text("another machine")
    third, _ = report("out", "--dry-run")
    assert third.returncode == 2 and "give another folder" in third.stdout


def test_no_part_starts_after_the_time_limit(report, tmp_path):
    result, calls = report("out", "--dry-run", MINUTES="0")
    assert result.returncode == 1 and "tests: no time left" in result.stdout
    assert calls == ["-"]


def test_missing_data_are_refused(report):
    result, calls = report("out", "--dry-run", MULTI30K="nowhere")
    assert result.returncode == 2 and "MULTI30K=nowhere: no data-bin there" in result.stdout
    assert not calls
