"""An example that is too long for a model or a batch is found before the first training."""

import re
import shutil

import pytest
from helpers import EOS
from make_checkpoints import write_rows, write_splits

from fairseq_odeformers.lab.compare.defaults import default_recipe
from fairseq_odeformers.lab.compare.entry import make_entry
from fairseq_odeformers.lab.compare.lengths import check_lengths
from fairseq_odeformers.lab.compare.trial import build

SIZES = {"embed-dim": 8, "ffn-embed-dim": 8, "attention-heads": 2, "layers": 1}
EOS_BLOCKS = {"tokens-per-sample": 64, "sample-break-mode": "eos"}
MODELS = {  # by task: the architecture, options that give its models 64 positions, and more of them
    "translation": (
        "macaron_transformer",
        {"max-source-positions": 64, "max-target-positions": 64},
        {"max-source-positions": 99, "max-target-positions": 99},
    ),
    "sentence_prediction": (
        "macaron_classifier",
        {"max-positions": 64, "shorten-method": "none"},
        {"max-positions": 99},
    ),
    "language_modeling": ("macaron_transformer_lm", EOS_BLOCKS, {"tokens-per-sample": 99}),
    "long_range_arena": ("macaron_classifier", {"max-positions": 64}, {}),
}
TASKS = [task for task in MODELS if task != "long_range_arena"]  # which truncates all texts


@pytest.fixture
def words(training_data, tmp_path):
    """A folder of data for all of these tasks, whose sentences are short."""
    write_splits(training_data, train=12, valid=6, test=8)
    return shutil.copytree(training_data / "words", tmp_path / "words")


def lengthen(words, split, size=8):
    """The third sentence of a split has 70 tokens, the others have three."""
    rows = [[5, 6, EOS]] * size
    rows[2] = [*[5] * 69, EOS]
    for part in (f"{split}.de-en.de", f"{split}.de-en.en", split, f"input0/{split}"):
        write_rows(words / part, rows)
    write_rows(words / "label" / split, [[4, EOS]] * size)


def check(words, task, splits=("test",), evaluate=None, **options):
    arch, limits, _ = MODELS[task]
    recipe = default_recipe(words, {arch: {}}, task, epochs=1)
    recipe.train |= {"batch-size": 4, "cpu": True, **limits, **options}
    recipe.train.pop("max-tokens", None) if "max-tokens" not in options else None
    recipe.sizes, recipe.evaluate, recipe.splits = SIZES, evaluate or {}, [*splits]
    entry = make_entry(recipe, arch, {})
    check_lengths(recipe, entry, build(recipe, entry))


@pytest.mark.parametrize("split", ["valid", "test"])
@pytest.mark.parametrize("task", TASKS)
def test_a_long_example_is_counted_and_named(task, split, words):
    """With positions for it, all are taken."""
    check(words, task)
    lengthen(words, split)
    found = f"words, {split}: 1 of 8 examples are longer .* 64 .*number 3 has 70"
    with pytest.raises(ValueError, match=found):
        check(words, task)
    check(words, task, **MODELS[task][2])


@pytest.mark.parametrize("task", TASKS)
def test_what_fairseq_leaves_out_is_counted(task, words, capsys):
    """Of the training set always, of the validation set where it is asked for, but of no test set:
    the scores of two models are of the same sentences."""
    skip = {"skip-invalid-size-inputs-valid-test": True}
    lengthen(words, "train", 12)
    lengthen(words, "valid")
    check(words, task, **skip)
    printed = capsys.readouterr().out
    assert re.search(r"train: 1 of 12 .*number 3 has 70.*; they are left out\n", printed)
    assert re.search(r"valid: 1 of 8 .*number 3 has 70.*; they are left out\n", printed)
    lengthen(words, "test")
    with pytest.raises(ValueError, match="test: 1 of 8 examples"):
        check(words, task, **skip)


@pytest.mark.parametrize("task", ["translation", "language_modeling"])
def test_a_batch_has_room_for_the_longest_example(task, words):
    longer = MODELS[task][2]
    lengthen(words, "valid")
    with pytest.raises(ValueError, match="valid: number 3 has 70 tokens, .*--max-tokens-valid 70"):
        check(words, task, **{**longer, "max-tokens": 40})
    check(words, task, **{**longer, "max-tokens": 40, "max-tokens-valid": 70})
    lengthen(words, "test")
    longer |= {"max-tokens-valid": 70}
    with pytest.raises(ValueError, match="test: number 3 has 70 tokens, .*evaluate 70"):
        check(words, task, evaluate={"max-tokens": 69}, **longer)
    check(words, task, evaluate={"max-tokens": 70}, **longer)


def test_truncated_texts_are_not_too_long(words):
    lengthen(words, "test")
    check(words, "sentence_prediction", evaluate={"truncate": True})
    lengthen(words, "valid")
    check(words, "sentence_prediction", **{"shorten-method": "truncate"})
    check(words, "long_range_arena")


@pytest.mark.parametrize(
    "task, evaluate, message",
    [
        ("translation", {"beem": 5}, "evaluate is refused .*--beem 5"),
        ("language_modeling", {"max-tokens": "x"}, "evaluate is refused .*--max-tokens: .*'x'"),
        ("sentence_prediction", {"beam": 5}, "evaluate is refused .*--beam 5"),
    ],
)
def test_options_of_the_evaluation_are_read_before_the_training(task, evaluate, message, words):
    with pytest.raises(ValueError, match=message):
        check(words, task, evaluate=evaluate)


@pytest.mark.parametrize("task", TASKS)
def test_a_split_that_is_not_there_is_named(task, words):
    with pytest.raises((ValueError, OSError, AssertionError), match="test7"):
        check(words, task, splits=["test7"])


@pytest.mark.parametrize("split", ["train", "valid", "test"])
@pytest.mark.parametrize("task", ["sentence_prediction", "long_range_arena"])
def test_labels_of_two_words_are_found_whether_or_not_texts_are_truncated(task, split, words):
    """Of the test set too, which nothing else reads before the trainings."""
    size = {"train": 12, "valid": 6, "test": 8}[split]
    write_rows(words / "label" / split, [[4, 5, EOS]] * size)
    with pytest.raises(ValueError, match=rf"words/label/{split}"):
        check(words, task, **{"shorten-method": "truncate"} if "sentence" in task else {})
