"""Trials of models, the updates of a training, and those that fit into a time."""

import itertools
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import pytest

from fairseq_odeformers.lab.compare import matching, trial
from fairseq_odeformers.lab.compare.defaults import default_recipe, read_lengths
from fairseq_odeformers.lab.compare.entry import Entry, parse_evaluation, resolve_shares
from fairseq_odeformers.lab.compare.make_plan import choose_average, make_plan
from fairseq_odeformers.lab.compare.matching import (
    stretch_schedule,
    time_in_rounds,
    time_round,
    updates_within,
)
from fairseq_odeformers.lab.compare.recipe import Recipe
from fairseq_odeformers.lab.compare.trial import Started, count_updates, spread_sizes, time_updates

SCHEDULE = {"lr-scheduler": "polynomial_decay", "warmup-updates": 25, "total-num-update": 100}


@pytest.fixture
def recipe(training_data):
    """Two small classifiers."""
    architectures = {"transformer_classifier": {}, "transject": {}}
    recipe = default_recipe(training_data / "words", architectures, epochs=3)
    recipe.sizes = {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1}
    return recipe


def test_a_training_ends_at_its_first_limit():
    """Of epochs or of updates, where 0 is none; without any it would not end."""
    for max_epoch, max_update, expected in ((3, 0, 30), (3, 20, 20), (3, 40, 30), (0, 40, 40)):
        limits = SimpleNamespace(max_epoch=max_epoch, max_update=max_update)
        assert count_updates(limits, 10) == expected
    with pytest.raises(ValueError, match="give --max-epoch or --max-update"):
        count_updates(SimpleNamespace(max_epoch=0, max_update=0), 10)


def test_an_update_is_timed_where_its_size_has_been_seen():
    """The first one of a size allocates memory; times are in proportion to sizes."""
    delays = iter([0.5, 0.01, 0.4, 0.02, 0.3, 0.02, 0.2, 0.01])
    trainer = SimpleNamespace(train_step=lambda samples: time.sleep(next(delays)), cuda=False)
    (seconds,) = time_updates([Started(trainer, [[]] * 9, [0.4, 0.8, 0.4, 0.4] + [1] * 5)])
    assert 0.03 <= seconds < 0.06
    assert next(delays, None) is None


@pytest.mark.parametrize("lengths", [range(1, 41), [10] * 30 + [100] * 10])
def test_a_few_updates_tell_the_mean_of_all(lengths):
    """Their times are what sizes predict; the median of the second batches is a third of it."""
    dataset = SimpleNamespace(num_tokens=lengths.__getitem__)
    batches, sizes = spread_sizes(dataset, [(n, n) for n in range(40)])
    assert len(batches) == len(sizes) == 40
    for first in range(27):
        few = slice(first, first + 13)
        mean = fmean(lengths[batch[0]] for batch in batches[few])
        assert mean == pytest.approx(fmean(lengths), rel=0.2), "small and large ones"
        assert mean / fmean(sizes[few]) == pytest.approx(fmean(lengths))


@pytest.mark.parametrize("least, expected", [(0.0, 4), (1.3, 6), (9.0, 8)])
def test_fast_updates_are_timed_for_longer(least, expected, monkeypatch):
    """Four at least, of a quarter of a second here, and at most those of an epoch."""
    made = []
    monkeypatch.setattr("time.perf_counter", itertools.count(0, 0.25).__next__)
    trainer = SimpleNamespace(train_step=made.append, cuda=False)
    assert time_updates([Started(trainer, [[]] * 8, [1] * 8)], least) == [0.25]
    assert len(made) == 2 * expected


def test_models_that_are_timed_together_take_turns(monkeypatch):
    """The ratio of their times is that of the work, however the speed of the machine drifts."""
    now, made = [1.0], []
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def started(name, work):
        def train_step(samples):
            made.append(name)
            now[0] *= 1 + work / 1000  # ever slower

        return Started(SimpleNamespace(train_step=train_step, cuda=False), [[]] * 9, [1] * 9)

    one, other = time_updates([started("a", 1), started("b", 3)])
    assert "".join(made) == "aabb" * 4
    assert other / one == pytest.approx(3, rel=0.01)


def test_no_more_checkpoints_are_averaged_than_saved():
    many, few = (Entry("a", {}, updates=n, epoch_updates=10) for n in (90, 29))
    assert choose_average(2, [many, few]) == 2
    with pytest.raises(ValueError, match="--average 3: 29 updates of a leave 2 checkpoints"):
        choose_average(3, [many, few])
    with pytest.raises(ValueError, match="--average 3, as the earlier runs .*; give another --out"):
        choose_average(3, [many, few], inherited=True)


@pytest.mark.parametrize("checkpoints, average", [(90, 3), (15, 3), (14, 2), (9, 0), (0, 0)])
def test_averages_are_of_the_end_of_a_training(checkpoints, average):
    """Of a fifth of the checkpoints, or of none if that is one."""
    least, more = (Entry("a", {}, updates=10 * n, epoch_updates=10) for n in (checkpoints, 99))
    assert choose_average(None, [more, least]) == average


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
    assert Entry("a", options, updates=updates, epoch_updates=100).checkpoints == saved


def test_shares_of_a_training_become_updates():
    """A share is rounded, to one update at least; anything else stays."""
    options = {"warmup-updates": "2.5%", "total-num-update": "100%", "lr": "1e-3", "seed": 5}
    expected = {**options, "warmup-updates": 5, "total-num-update": 200}
    assert resolve_shares(options, 200) == expected
    assert resolve_shares(options, 10)["warmup-updates"] == 1


def test_a_schedule_ends_with_the_training():
    """It rises in the same share of the updates, and the limit of the epochs goes."""
    entry = Entry("a", {"max-epoch": 3, **SCHEDULE}, updates=100)
    stretched = {**SCHEDULE, "warmup-updates": 30, "total-num-update": 120, "max-update": 120}
    assert stretch_schedule(entry, 120).options == stretched
    entry.options["lr-scheduler"] = "inverse_sqrt"
    with pytest.raises(ValueError, match="--budget: .* add --lr-scheduler polynomial_decay"):
        stretch_schedule(entry, 120)


def test_updates_within_a_time():
    assert (updates_within(60, 2.0), updates_within(60, 0.5)) == (30, 120)
    with pytest.raises(ValueError, match="--budget: an update takes 2.0 seconds; give more time"):
        updates_within(0.6, 2.0)


def test_a_plan_for_a_time(recipe, monkeypatch):
    """Its schedules end with its trainings; what an earlier command has begun goes on.

    What is new takes as long as that does: seven updates that now take half as long as its own.
    """
    times = {"transject": 0.5, "transformer_classifier": 1.0}
    monkeypatch.setattr(
        matching, "time_in_rounds", lambda _, e: {x.label: times[x.label] for x in e}
    )
    fitted, begun = make_plan(recipe, False, budget=0.1, planned={"transject": 7}).entries
    for entry in (fitted, begun):
        ends = entry.options["max-update"], entry.options["total-num-update"], entry.updates
        assert len({*ends}) == 1 and "max-epoch" not in entry.options
        assert entry.budget == 0.1
    assert (begun.updates, fitted.updates, fitted.training_seconds) == (7, 3, 3.5)
    recipe.architectures = {"transformer_classifier": {}}
    (alone,) = make_plan(recipe, False, begun, budget=0.1, planned={"transject": 7}).entries
    assert alone.updates == 3, "the baseline need not be trained again"
    begun = replace(begun, plugin="digest")
    (alone,) = make_plan(recipe, False, begun, budget=0.1, planned={"transject": 7}).entries
    assert alone.updates == 6, "a plugin may not be there"


def test_candidates_of_the_same_cost_have_the_same_updates(recipe):
    """Timed apart they would not, and the longer training could be chosen for its length."""
    recipe.architectures, recipe.tune = {"transject": {}}, {"lr": ["1e-3", "2e-3", "4e-3"]}
    entries = make_plan(recipe, False, budget=0.01).entries
    assert len({entry.updates for entry in entries}) == 1
    assert [entry.options["lr"] for entry in entries] == recipe.tune["lr"]


def test_an_error_while_updates_are_timed_names_the_architecture(recipe):
    entry = Entry("mine", {"arch": "absent"}, updates=1)
    with pytest.raises(ValueError, match="^mine cannot be trained .*absent"):
        time_in_rounds(recipe, [entry])


@pytest.mark.parametrize(
    "rounds, median",
    [
        ([(2, False), (3, False), (9, False)], 3),
        ([(8, True), (2, False), (9, True), (3, False), (4, False)], 3),
        ([(8, True)] * 8 + [(7, True)], 8),
        ([(2, False), *[(8, True)] * 8], 8),
    ],
)
def test_rounds_beside_busy_processes_are_repeated(rounds, median, monkeypatch):
    """They count only if the others do not end."""
    times, disturbed = map(iter, zip(*rounds))
    monkeypatch.setattr(matching, "Stopwatch", lambda: SimpleNamespace(disturbed=next(disturbed)))
    monkeypatch.setattr(matching, "time_round", lambda *_: {"a": next(times)})
    assert time_in_rounds(Recipe("data", {}, {}), [Entry("a", {})]) == {"a": median}
    assert next(times, None) is None, "a round too few"


@pytest.mark.parametrize("gpu, names", [(False, ["ab", "ac"]), (True, ["a", "b", "c"])])
def test_a_round_compares_neighbours_in_time(gpu, names, monkeypatch):
    """Of pairs, in which the first takes 1 and 2 seconds, the ratios are 2 and 3."""
    times, timed = {"ab": [1, 2], "ac": [2, 6], "a": [1.5], "b": [3], "c": [4.5]}, []

    def time_side_by_side(recipe, entries, number):
        timed.append("".join(entry.name for entry in entries))
        return times[timed[-1]]

    monkeypatch.setattr("torch.cuda.is_available", lambda: gpu)
    monkeypatch.setattr(matching, "time_side_by_side", time_side_by_side)
    entries = [Entry(name, {}) for name in "abc"]
    assert time_round(Recipe("data", {}, {}), entries, "1") == {"a": 1.5, "b": 3, "c": 4.5}
    assert timed == names
    if not gpu:
        assert time_round(Recipe("data", {}, {}), entries[:1], "1") == {"a": 1.5}


@pytest.mark.parametrize("seconds, threads, told", [(1e6, 2, True), (1e6, 1, False), (0, 2, False)])
def test_busy_cores_are_told(seconds, threads, told, recipe, monkeypatch, capsys):
    """Unless the trials have one thread already; the report has the share of their time."""
    waited = itertools.count(0, seconds)
    path = "fairseq_odeformers.lab.benchmark.timing.seconds_without_core"
    monkeypatch.setattr(path, lambda: next(waited))
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    recipe.architectures = {"transject": {}}
    environment = make_plan(recipe).environment
    assert (environment["planning time spent waiting for a core"] == "0%") == (not seconds)
    assert ("Other processes were busy" in capsys.readouterr().out) == told


def test_the_time_of_an_evaluation(recipe, monkeypatch):
    """Of 3 + 1 validations of two seconds for all of its examples, and of a prediction each."""
    monkeypatch.setattr(trial, "seconds_of", lambda function: (function(), 2.0)[1])
    recipe.splits = ["train", "valid"]
    entry, _ = make_plan(recipe, False).entries
    examples = len(read_lengths(Path(recipe.data) / "label" / "valid"))
    batches = examples / min(examples, trial.EXAMPLES)
    assert entry.evaluation_seconds == pytest.approx(2 * batches * (3 + 1 + 2))


def test_translations_are_timed_as_they_are_generated():
    recipe = Recipe("data", {}, {}, evaluate={"beam": 5, "remove-bpe": True, "max-len-a": 2})
    config = parse_evaluation(recipe, Entry("a", {}), "test").generation
    assert (config.beam, config.max_len_a, config.max_len_b) == (5, 2, 200)


def test_gradients_that_are_accumulated_make_one_update(recipe):
    del recipe.architectures["transject"]
    (alone,) = make_plan(recipe).entries
    recipe.train["update-freq"] = 3
    (together,) = make_plan(recipe).entries
    per_epoch = alone.updates // 3
    assert together.updates == 3 * -(-per_epoch // 3) < alone.updates
