import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
import warm
from fairseq import options
from script_helpers import demo_module

DEMO = Path(__file__).parents[2] / "examples" / "demo" / "demo.py"
progress, recipes, steps, training = map(demo_module, ("progress", "recipes", "steps", "training"))

SIZES = ["--train", "100", "--valid", "8", "--test", "8"]
AT_ONCE = ["--target-bleu", "0"]  # the first validation, after one epoch, reaches it
BY_THE_CLOCK = ["--target-bleu", "100", "--minutes", "0.01"]


@pytest.fixture(scope="module")
def start():
    """Starts the demo, whose Python commands and itself run in forks of this process."""
    with warm.commands() as (programs, functions):
        python = str(programs / "python")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHON": python, **functions}

        def start(*options, **kwargs):
            return subprocess.Popen(
                [python, DEMO, *map(str, options)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                **kwargs,
            )

        yield start


@pytest.fixture(scope="module")
def demo(start):
    """Runs the demo to its end."""

    def run(*options):
        with start(*options) as process:
            output = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, *output)

    return run


@pytest.mark.parametrize("arch", recipes.ARCHITECTURES)
@pytest.mark.parametrize("corpus", recipes.CORPORA)
def test_every_recipe_is_of_options_that_every_architecture_has(corpus, arch):
    args = Namespace(recipe=recipes.CORPORA[corpus], arch=arch, seed=1)
    _, *line = steps.train_command(args, Path("data"), Path("checkpoints"))
    line = line[: line.index("--user-dir")]  # it is imported
    assert options.parse_args_and_arch(options.get_training_parser(), line).arch == arch


def outcome(out):
    return json.loads((out / "checkpoints" / "ended.json").read_text())


@pytest.fixture(scope="module")
def done(demo, tmp_path_factory):
    """The folder of a demo that reached its target, and its process."""
    out = tmp_path_factory.mktemp("demo") / "out"
    process = demo("--out", out, *SIZES, *AT_ONCE)
    assert process.returncode == 0, process.stderr
    return out, process


@pytest.fixture
def out(done, tmp_path):
    """A folder with the corpus of that demo, and nothing else."""
    unwanted = shutil.ignore_patterns("checkpoints", "translations", "*.md")
    return shutil.copytree(done[0], tmp_path / "out", ignore=unwanted)


def test_demo_ends_with_a_table(done):
    out, process = done
    result = (out / "result.md").read_text("utf-8")
    assert process.stdout.endswith(result)
    assert re.search(r"BLEU on the held-out pairs \| \*\*\d+\.\d\*\*", result)
    assert re.search(r"training \| \d+ updates in \d+:\d\d, BLEU of validation \d+\.\d \|", result)
    assert result.count("  - translation: ") == 5
    assert "fairseq-train" in process.stdout and "fairseq-generate" in process.stdout


def test_training_ends_with_the_first_checkpoint_that_is_good(done):
    """Long before its 30 minutes; the log has no later update."""
    out, _ = done
    log = (out / "checkpoints" / "train.log").read_text("utf-8")
    assert log.count("| Saved checkpoint ") == 1
    assert outcome(out)["updates"] == log.count("| INFO | train_inner |") < 10
    assert {path.name for path in (out / "checkpoints").glob("*.pt")} == {
        "checkpoint_best.pt",
        "checkpoint_last.pt",
    }


def test_what_fairseq_says_is_in_the_logs_only(done):
    out, process = done
    assert "Namespace(" in (out / "prepare.log").read_text("utf-8")
    assert " | INFO | " in (out / "checkpoints" / "train.log").read_text("utf-8")
    assert "Namespace(" not in process.stdout + process.stderr
    assert " | INFO | " not in process.stdout
    assert "\r" not in process.stdout


def test_a_second_call_repeats_no_step(demo, done):
    out, process = done
    second = demo("--out", out, *SIZES, *AT_ONCE)
    assert second.returncode == 0, second.stderr
    assert second.stdout.endswith((out / "result.md").read_text("utf-8"))
    assert "fairseq-train" not in second.stdout and "fairseq-generate" not in second.stdout


def test_the_clock_ends_the_training_and_more_time_goes_on(demo, out):
    first = demo("--out", out, *SIZES, *BY_THE_CLOCK)
    assert first.returncode == 0, first.stderr
    assert "ended by the clock before it was good" in first.stdout
    assert "ended by the clock before it was good" in (out / "result.md").read_text("utf-8")

    again = demo("--out", out, *SIZES, *BY_THE_CLOCK)
    assert "fairseq-train" not in again.stdout
    earlier = outcome(out)
    more = demo("--out", out, *SIZES, *BY_THE_CLOCK[:-1], "0.02")
    assert more.returncode == 0, more.stderr
    assert "Loaded checkpoint" in (out / "checkpoints" / "train.log").read_text("utf-8")
    assert outcome(out)["updates"] > earlier["updates"]
    assert outcome(out)["seconds"] > earlier["seconds"]


def test_an_interrupted_training_goes_on(start, demo, out):
    """Also where the interruption fell into the writing of the last checkpoint."""
    process = start("--out", out, *SIZES, "--target-bleu", "100", start_new_session=True)
    log, last = (out / "checkpoints" / name for name in ("train.log", "checkpoint_last.pt"))
    while not (log.exists() and "| Saved checkpoint " in log.read_text("utf-8")):
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.endswith(f"interrupted; the same command goes on from what {out} has\n")

    last.write_bytes(last.read_bytes()[:-1000])
    finished = demo("--out", out, *SIZES, *AT_ONCE)
    assert finished.returncode == 0, finished.stderr
    assert "| Loaded checkpoint " in log.read_text("utf-8")


def test_captions(demo, tmp_path):
    """Multi30k, from a folder of compressed files. Its preparation lower-cases, so BLEU does."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, count in (("train", 60), ("val", 10), ("test_2016_flickr", 10)):
        for lang, word in (("de", "Ein Hund"), ("en", "A dog")):
            with gzip.open(raw / f"{name}.{lang}.gz", "wt", encoding="utf-8") as file:
                file.writelines(f"{word} {number % 7}!\n" for number in range(count))
    options = ["--corpus", "multi30k", "--from", raw, *AT_ONCE]
    process = demo("--out", tmp_path / "out", *options)
    assert process.returncode == 0, process.stderr
    assert "prepare-multi30k.sh --from" in process.stdout
    result = (tmp_path / "out" / "result.md").read_text("utf-8")
    assert process.stdout.endswith(result)
    assert "case:lc" in result and "- source: Ein Hund 0!" in result


@pytest.mark.parametrize(
    "options, message",
    [
        (["--target-bleu", "101"], "--target-bleu 101.0: give a BLEU, from 0 to 100"),
        (["--minutes", "0"], "--minutes 0.0: give a time above 0"),
        (["--from", "here"], "--from here: the pairs of --corpus cldr are generated"),
        (["--corpus", "multi30k", "--test", "9"], "--test 9: is for --corpus cldr"),
    ],
)
def test_bad_options_are_refused(demo, tmp_path, options, message):
    refused = demo("--out", tmp_path / "out", *options)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1].endswith(message)
    assert not (tmp_path / "out").exists()


def test_bad_sizes_are_refused_before_work_starts(demo, tmp_path):
    refused = demo("--out", tmp_path / "out", "--test", "0")
    assert refused.returncode == 1
    assert refused.stderr.endswith("demo: --test 0: each split needs at least one pair\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("own, expected", [({}, "3000"), ({"GOMP_SPINCOUNT": "7"}, "7")])
def test_threads_that_wait_leave_the_core(monkeypatch, tmp_path, own, expected):
    """Unless the user says otherwise."""
    monkeypatch.delenv("GOMP_SPINCOUNT", raising=False)
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    lines = training.run(["env"], tmp_path / "log")
    assert f"GOMP_SPINCOUNT={expected}" in map(str.strip, lines)


def test_progress_on_a_terminal_is_one_line(monkeypatch, capsys):
    """A later text covers an earlier one; none is wider than the terminal."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "10")
    line = progress.ProgressLine()
    line.show("wider than the terminal")
    line.show("short")
    line.end()
    _, wide, short, blank, after = capsys.readouterr().out.split("\r")
    assert (wide, short, blank, after) == ("wider tha", "short    ", " " * 9, "")


def test_progress_elsewhere_is_a_line_now_and_then(monkeypatch, capsys):
    seconds = iter([0, 29, 30, 30, 59, 60, 60])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))
    line = progress.ProgressLine(interval=30)
    for text in ("soon", "first", "soon", "second"):
        line.show(text)
    line.end()
    assert capsys.readouterr().out == "first\nsecond\n"
