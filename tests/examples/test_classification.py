"""The commands of the classification experiments, on a few generated examples."""

import numpy as np
import pytest
from script_helpers import IN_MAIN_THREAD, contents, example, lines

from fairseq_odeformers.compare.commands import log_stats
from fairseq_odeformers.data.classification import (
    make_dictionary,
    write_dictionaries,
    write_split,
)

TINY = [*"--max-update 2 --encoder-embed-dim 16 --cpu".split(), *IN_MAIN_THREAD]
HEADS = ["--encoder-attention-heads", "2"]


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


@pytest.mark.parametrize(
    "recipe, arch, heads",
    [
        ("transevolve", "transformer_classifier", HEADS),
        ("small", "transformer_classifier", HEADS),
        ("small", "node_transformer", HEADS),
        ("small", "transject", []),
        ("transject", "transject_random", []),
    ],
)
def test_text_classification(tmp_path, recipe, arch, heads):
    write_data(tmp_path / "data-bin", "abcdef", 12)
    result = example("text_classification/run.sh", tmp_path, arch, *TINY, *heads, RECIPE=recipe)
    assert "test: accuracy " in result.stdout, result.stdout
    check_run(tmp_path / f"{recipe}-{arch}-seed1")


def check_run(folder):
    """Predictions of the nine texts, the log with each epoch, and no checkpoint but the best."""
    assert len(lines(folder / "test.tsv")) == 1 + 9
    log = lines(folder / "train.log")
    assert any(log_stats(line, "valid") for line in log)
    assert [path.name for path in folder.glob("*.pt")] == ["checkpoint_best.pt"]


def test_what_is_finished_is_not_repeated(tmp_path):
    write_data(tmp_path / "data-bin", "abcdef", 12)
    for seed in (1, 2):
        folder = tmp_path / "runs" / f"small-transject-seed{seed}"
        folder.mkdir(parents=True)
        (folder / "checkpoint_best.pt").touch()
        (folder / "test.tsv").write_text("made before\n")
        (folder / "train.log").write_text("test: accuracy 50.00%\n")
    before = contents(tmp_path)
    result = example(
        *("text_classification/run.sh", tmp_path, "transject"),
        **{"RECIPE": "small", "SEEDS": "1 2", "RUNS": str(tmp_path / "runs")},
    )
    assert result.returncode == 0, result.stdout
    assert "transject, seed 2: test: accuracy 50.00%" in result.stdout
    after = contents(tmp_path)
    assert {path: content for path, content in after.items() if path.name != "lock"} == before


@pytest.mark.parametrize(
    "task, inputs, arch, heads",
    [
        ("image", 1, "transevolve_classifier_fullff_1", HEADS),
        ("image", 1, "node_transformer", HEADS),
        ("retrieval", 2, "transevolve_classifier_fullff_1", HEADS),
        ("retrieval", 2, "transject_lra", []),
        ("text", 1, "transject_lra_random", []),
    ],
)
def test_long_range_arena(tmp_path, task, inputs, arch, heads):
    write_data(tmp_path / f"{task}-bin", map(str, range(256)), 30, inputs)
    tiny = [*TINY, *heads, "--pixel-input", "value"]
    result = example("lra/run.sh", task, arch, *tiny, DATA=str(tmp_path))
    assert "test: accuracy " in result.stdout, result.stdout
    check_run(tmp_path / f"{task}-transject-{arch}-seed1")


@pytest.mark.parametrize(
    "script, args, recipe, message",
    [
        ("lra/run.sh", ["cat", "macaron_classifier"], "transject", "cat: choose from listops"),
        ("lra/run.sh", ["image", "macaron_classifier"], "transevolve", "choose from listops, text"),
        ("lra/run.sh", ["text", "macaron_classifier"], "transject", "make it with scripts/prepare"),
        ("lra/run.sh", ["text", "transject"], "small", "RECIPE=small: small is for listops-short"),
        ("lra/run.sh", ["listops-short", "transject"], "transject", "RECIPE=transject: small is"),
        ("lra/run.sh", ["text"], "transject", "examples/lra/run.sh TASK ARCH ..."),
        ("text_classification/run.sh", ["x", "y"], "none", "RECIPE=none: choose from transevolve"),
        ("text_classification/run.sh", ["x", "y"], "small", "x/data-bin: make it with scripts/"),
    ],
)
def test_what_is_not_there(tmp_path, script, args, recipe, message):
    result = example(script, *args, DATA=str(tmp_path), RECIPE=recipe)
    assert result.returncode == 2
    assert message in result.stdout
