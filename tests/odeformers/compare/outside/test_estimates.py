"""Faults of data and options that are found before the first training."""

import shutil

import pytest
from make_checkpoints import write_data, write_rows, write_splits

from tests.odeformers.compare.outside.commands import commands, refuse, run

SIZES = "--layers 1 --width 8 --heads 2 --ffn 8 --epochs 2 --cpu --dry-run".split()
EOS = 2
BLOCKS = "--tokens-per-sample 64 --sample-break-mode eos"
# By task: an architecture, options for 64 positions, and options for more positions.
MODELS = {
    "translation": (
        "macaron_transformer",
        "--max-source-positions 64 --max-target-positions 64",
        "--max-source-positions 99 --max-target-positions 99",
    ),
    "sentence_prediction": (
        "transject",
        "--max-positions 64 --shorten-method none",
        "--max-positions 64 --shorten-method truncate",
    ),
    "language_modeling": ("macaron_transformer_lm", BLOCKS, BLOCKS.replace("64", "99")),
}


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Folders of data for each of these tasks, with short sentences."""
    folder = tmp_path_factory.mktemp("words")
    write_data(folder)
    write_splits(folder, train=12, valid=6, test=8)
    return folder / "words"


def lengthen(words, split, size=8):
    """Give the third sentence of a split 70 tokens, and the others three."""
    rows = [[5, 6, EOS]] * size
    rows[2] = [*[5] * 69, EOS]
    for part in (f"{split}.de-en.de", f"{split}.de-en.en", split, f"input0/{split}"):
        write_rows(words / part, rows)
    write_rows(words / "label" / split, [[4, EOS]] * size)


def line(words, task, options):
    arch, out = MODELS[task][0], words.parent / "runs"
    return ["compare", words, "--task", task, "--archs", arch, "--out", out, *SIZES, *options]


@pytest.mark.parametrize("task", MODELS)
def test_long_examples_are_named_before_the_training(task, words, tmp_path):
    """Long training examples are left out, and a model with more positions takes all."""
    words = shutil.copytree(words, tmp_path / "words")
    _, less, more = (option.split() for option in MODELS[task])
    lengthen(words, "train", 12)
    lengthen(words, "valid")
    message = refuse(*line(words, task, less))
    assert f"{words}, valid" in message and "#2" in message and "64" in message
    assert any(word in message for word in less if word.startswith("--"))
    skipping = [*less, "--skip-invalid-size-inputs-valid-test"]
    lengthen(words, "test")
    message = refuse(*line(words, task, skipping))
    assert f"{words}, test" in message, "scores of two models are of the same sentences"
    assert "--skip" not in message, "which is given already"
    assert any(word in message for word in less if word.startswith("--"))
    (training,) = commands(run(*line(words, task, more)), "fairseq-train")
    assert training["task"] == task and training["max-epoch"] == "2"


def test_skipped_validation_texts_are_not_counted(words, tmp_path):
    words, out = shutil.copytree(words, tmp_path / "words"), tmp_path / "runs"
    lengthen(words, "valid")
    options = [*MODELS["translation"][1].split(), "--skip-invalid-size-inputs-valid-test"]
    command = [*line(words, "translation", options), "--max-update", 1]
    command.remove("--dry-run")
    run(*command)
    assert "on 7 validation texts" in (out / "report.md").read_text("utf-8")


def test_a_batch_has_room_for_the_longest_example(words, tmp_path):
    words = shutil.copytree(words, tmp_path / "words")
    lengthen(words, "valid")
    more = [*MODELS["translation"][2].split(), "--max-tokens", 40]
    message = refuse(*line(words, "translation", more))
    assert f"{words}, valid" in message and "40" in message and "--max-tokens-valid" in message


@pytest.mark.parametrize("split", ["train", "test"])
def test_labels_of_two_words_are_named(split, words, tmp_path):
    """Labels of the test set, which trainings do not read, are checked as well."""
    words = shutil.copytree(words, tmp_path / "words")
    write_rows(words / "label" / split, [[4, 5, EOS]] * {"train": 12, "test": 8}[split])
    options = ["--archs", "macaron_classifier", "--task", "long_range_arena"]
    assert f"{words}/label/{split}" in refuse(*line(words, "sentence_prediction", options))


def test_masked_language_models_are_trained_and_not_evaluated(words):
    options = ["--archs", "macaron_bert", "--task", "masked_lm", "--max-positions", 64]
    printed = run(*line(words, "language_modeling", options))
    (training,) = commands(printed, "fairseq-train")
    assert training["task"] == training["criterion"] == "masked_lm"
    assert not commands(printed, "fairseq-eval-lm")
