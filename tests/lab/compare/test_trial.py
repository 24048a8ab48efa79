"""What a trial finds out before a training, and what it measures."""

import itertools
import re
import shutil
from types import SimpleNamespace

import pytest
from helpers import EOS
from lab.compare.test_experiment import read
from make_checkpoints import write_rows, write_splits

from fairseq_odeformers.lab.compare.trial import (
    check_best,
    check_data,
    count_checkpoints,
    count_updates,
    digest_trial,
    time_updates,
    try_variant,
)
from fairseq_odeformers.lab.compare.variant import make_variants

SIZES = ["--layers", 1, "--width", 8, "--heads", 2, "--ffn", 8, "--epochs", 1, "--cpu"]
BLOCKS = {"tokens-per-sample": 64, "sample-break-mode": "eos"}
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
    "language_modeling": ("macaron_transformer_lm", BLOCKS, {"tokens-per-sample": 99}),
    "long_range_arena": ("macaron_classifier", {"max-positions": 64}, {}),
}
TASKS = [task for task in MODELS if task != "long_range_arena"]  # which truncates all texts


# --- lengths ---------------------------------------------------------------------------


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


def variant(data, task, **options):
    """The variant of a task's model with options for fairseq-train."""
    arch, limits, _ = MODELS[task]
    options = {"batch-size": 4, **limits, **options}
    line = [word for name, value in options.items() for word in (f"--{name}", value)]
    line = [word for word in line if word is not True]
    (experiment,) = read(data, "--task", task, "--archs", arch, *SIZES, *line).values()
    if "max-tokens" not in options:
        experiment.train.pop("max-tokens", None)
    (found,) = make_variants(experiment)
    return found


def check(data, task, evaluate=None, splits=("test",), **options):
    found = variant(data, task, **options)
    found.experiment.evaluate.update(evaluate or {})
    found.experiment.test_sets.clear()
    found.experiment.test_sets.update(dict.fromkeys(splits))
    check_data(found, found.build())


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


# --- updates ---------------------------------------------------------------------------


def test_a_training_ends_at_its_first_limit():
    """Of epochs or of updates, where 0 is none; without any it would not end."""
    for max_epoch, max_update, expected in ((3, 0, 30), (3, 20, 20), (3, 40, 30), (0, 40, 40)):
        limits = SimpleNamespace(max_epoch=max_epoch, max_update=max_update)
        assert count_updates(limits, 10) == expected
    with pytest.raises(ValueError, match="give --max-epoch or --max-update"):
        count_updates(SimpleNamespace(max_epoch=0, max_update=0), 10)


@pytest.mark.parametrize(
    "options, updates, saved",
    [
        ({}, 1000, 10),
        ({"save-interval": "5"}, 1099, 2),
        ({"no-epoch-checkpoints": True}, 1000, 0),
        ({"save-interval-updates": "50"}, 1000, 10),
        ({"save-interval-updates": 30}, 1000, 30),  # 33 but for 300, 600 and 900
        ({"save-interval-updates": 500}, 2000, 0),
    ],
)
def test_checkpoints_are_those_that_fairseq_saves(options, updates, saved):
    """In epochs of 100 updates; what is saved at their ends is not named by its updates."""
    assert count_checkpoints(options, updates, 100) == saved


@pytest.fixture
def clock(monkeypatch):
    """A trainer and a clock: the first call of each update takes 100 seconds, the second fewer."""
    now = itertools.count()
    times = {"now": 0.0, "others": 0.0}
    monkeypatch.setattr("time.perf_counter", lambda: times["now"] + times["others"])
    monkeypatch.setattr("time.process_time", lambda: times["now"])

    def train_step(samples):
        warm = next(now) % 2
        times["now"] += samples[0] if warm else 100
        times["others"] += 5  # seconds of other processes

    return SimpleNamespace(train_step=train_step, cuda=False), times


def test_the_first_call_of_an_update_is_not_timed(clock):
    trainer, _ = clock
    found = time_updates(trainer, [[0.25], [0.5], [0.75], [1.5], [9.0]], 1e9)
    assert found == [0.25, 0.5, 0.75, 1.5], "two seconds of four updates are enough"


def test_a_few_updates_tell_the_time_where_nothing_depends_on_it(clock):
    trainer, _ = clock
    assert time_updates(trainer, [[0.1]] * 9) == pytest.approx([0.1] * 4)


@pytest.mark.parametrize("seconds, timed", [(150, 2), (250, 3), (1e9, 6)])
def test_timing_ends_when_its_time_is_over(seconds, timed, clock):
    """After two updates at least."""
    trainer, times = clock
    assert len(time_updates(trainer, [[0.1]] * 6, seconds)) == timed


def config(validate=1, save=1, updates=0, max_update=0, epochs=3, **options):
    """The parts of fairseq's configuration that say when checkpoints are saved."""
    checkpoint = {"no_save": False, "checkpoint_suffix": "", "save_interval": save}
    dataset = {"disable_validation": False, "validate_interval": validate}
    for part in (checkpoint, dataset):
        part.update({name: value for name, value in options.items() if name in part})
    return SimpleNamespace(
        checkpoint=SimpleNamespace(**checkpoint, save_interval_updates=updates),
        dataset=SimpleNamespace(**dataset, validate_interval_updates=0),
        optimization=SimpleNamespace(max_update=max_update, max_epoch=epochs),
    )


@pytest.mark.parametrize(
    "cfg, named",
    [
        (config(validate=3, epochs=3), None),
        (config(validate=3, epochs=2), "--validate-interval 3 --save-interval 1: 2 epochs"),
        (config(validate=2, save=3, epochs=6), None),
        (config(validate=2, save=3, epochs=5), "--validate-interval 2 --save-interval 3: 5 epoch"),
        (config(validate=3, updates=50, epochs=1), None),
        (config(validate=3, max_update=50, epochs=1), None),  # fairseq validates at the last update
        (config(no_save=True), "--no-save True"),
        (config(disable_validation=True), "--disable-validation True"),
        (config(checkpoint_suffix="x"), "--checkpoint-suffix x"),
    ],
)
def test_a_training_saves_its_best_checkpoint(cfg, named):
    if named is None:
        check_best(cfg, 10)
    else:
        with pytest.raises(ValueError, match=f"^{named}"):
            check_best(cfg, 10)


# --- trials ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "task, metrics, others",
    [
        ("long_range_arena", ["accuracy", "f1_1"], ["f1_7", "bleu"]),
        ("language_modeling", ["ppl"], ["accuracy"]),
    ],
)
def test_the_best_checkpoint_has_a_metric(task, metrics, others, words):
    for metric in [*metrics, *others]:
        found = variant(words, task, **{"best-checkpoint-metric": metric})
        if metric in metrics:
            assert try_variant(found, 0.1).epoch_updates > 0
        else:
            with pytest.raises(ValueError, match=f"--best-checkpoint-metric {metric}: .*loss"):
                try_variant(found, 0.1)


def test_a_trial_measures_the_model_and_the_epoch(words):
    """Twelve texts in batches of four; gradients that are accumulated make one update."""
    alone, together = (
        try_variant(variant(words, "long_range_arena", **{"update-freq": n}), 0.1) for n in (1, 2)
    )
    assert together.epoch_updates == -(-alone.epoch_updates // 2) < alone.epoch_updates
    found = variant(words, "long_range_arena")
    assert alone.parameters == found.build().parameters == together.parameters
    assert alone.seconds > 0 and alone.validation_seconds == alone.prediction_seconds


def test_trials_hold_for_what_they_depend_on(words):
    """A rate, or where the package is, changes none; sizes, data and code do."""
    first = variant(words, "long_range_arena")
    same = first.change(lr="9e-4", dropout="0.5", user_dir="elsewhere")
    assert digest_trial(first, "data") == digest_trial(same, "data")
    others = [digest_trial(first, "other"), digest_trial(first.change(batch_size=2), "data")]
    others.append(digest_trial(variant(words, "long_range_arena", pooling="max"), "data"))
    assert len({*others, digest_trial(first, "data")}) == 4
