"""The commands of the classification experiments, on a few generated examples."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = "--max-update 2 --encoder-embed-dim 16 --encoder-attention-heads 2 --cpu".split()


def write_data(folder, symbols, length, inputs=1):
    random = np.random.default_rng(0)
    dictionary = make_dictionary(symbols)
    write_dictionaries(folder, inputs, dictionary, ["0", "1"])
    for split, size in (("train", 40), ("valid", 8), ("test", 9)):
        write_split(
            folder,
            split,
            (
                (random.integers(4, len(dictionary), (inputs, length)), str(i % 2))
                for i in range(size)
            ),
        )


def run(script, *args, **environment):
    """The output of a script of the examples."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", EXAMPLES / script, *map(str, args)],
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("recipe", ["transevolve", "small"])
def test_text_classification(tmp_path, recipe):
    write_data(tmp_path / "data-bin", "abcdef", 12)
    arch = "transformer_classifier"
    result = run("text_classification/run.sh", tmp_path, arch, *TINY, RECIPE=recipe)
    assert "test: accuracy " in result.stdout, result.stdout
    table = tmp_path / f"{recipe}-{arch}-seed1" / "test.tsv"
    assert len(table.read_text().splitlines()) == 1 + 9


@pytest.mark.parametrize("task, inputs", [("image", 1), ("retrieval", 2)])
def test_long_range_arena(tmp_path, task, inputs):
    write_data(tmp_path / f"{task}-bin", map(str, range(256)), 30, inputs)
    arch = "transevolve_classifier_fullff_1"
    result = run("lra/run.sh", task, arch, *TINY, "--pixel-input", "value", DATA=str(tmp_path))
    assert "test: accuracy " in result.stdout, result.stdout
    table = tmp_path / f"{task}-transject-{arch}-seed1" / "test.tsv"
    assert len(table.read_text().splitlines()) == 1 + 9


@pytest.mark.parametrize(
    "script, args, recipe, message",
    [
        ("lra/run.sh", ["cat", "macaron_classifier"], "transject", "cat: choose from listops"),
        ("lra/run.sh", ["image", "macaron_classifier"], "transevolve", "choose from listops, text"),
        ("lra/run.sh", ["text", "macaron_classifier"], "transject", "make it with scripts/prepare"),
        ("lra/run.sh", ["text"], "transject", "examples/lra/run.sh TASK ARCH"),
        ("text_classification/run.sh", ["x", "y"], "none", "RECIPE=none: choose from transevolve"),
    ],
)
def test_what_is_not_there(tmp_path, script, args, recipe, message):
    result = run(script, *args, DATA=str(tmp_path), RECIPE=recipe)
    assert result.returncode == 2
    assert message in result.stdout
