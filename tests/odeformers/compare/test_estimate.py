"""Measurements before training; ``outside/test_estimates.py`` tests the refusals."""

import itertools
from types import SimpleNamespace

import pytest

from odeformers.compare.estimate import measure, time_updates
from odeformers.compare.variant import make_variants
from tests.odeformers.compare.test_experiment import read

SIZES = ["--layers", 1, "--width", 8, "--heads", 2, "--ffn", 8, "--epochs", 1, "--cpu"]


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
    times = time_updates(trainer, [[0.25], [0.5], [0.75], [1.5], [9.0]], least=2)
    assert times == [0.25, 0.5, 0.75, 1.5], "two seconds of four updates are enough"


def test_a_few_updates_are_timed_by_default(clock):
    trainer, _ = clock
    assert time_updates(trainer, [[0.1]] * 9) == pytest.approx([0.1] * 4)


@pytest.mark.parametrize("end, timed", [(50, 1), (150, 2), (250, 3), (1e9, 6)])
def test_timing_ends_at_its_time_limit(end, timed, clock):
    """At least one update is timed."""
    trainer, times = clock
    assert len(time_updates(trainer, [[0.1]] * 6, 9, end)) == timed


def variant(data, *words):
    """A classifier with some more options for fairseq-train."""
    (experiment,) = read(data, "--archs", "macaron_classifier", *SIZES, *words).values()
    (found,) = make_variants(experiment)
    return found


def test_a_measurement_counts_parameters_and_updates(training_data):
    """Batches whose gradients are accumulated count as one update."""
    data = training_data / "words"
    alone, together = (
        variant(data, "--batch-size", 4, "--update-freq", number) for number in (1, 2)
    )
    estimate = measure(alone)
    assert measure(together).epoch_updates == -(-estimate.epoch_updates // 2) > 1
    assert estimate.parameters == sum(each.numel() for each in alone.build()[1].parameters())
    assert estimate.update_seconds > 0 and estimate.validation_texts == 8
