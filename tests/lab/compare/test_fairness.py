"""Widths at which architectures have a wanted number of parameters, and schedules that end."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from lab.compare.test_experiment import read

from fairseq_odeformers.lab.compare.fairness import (
    TOLERANCE,
    fit_effort,
    match_parameters,
    search_width,
    width_options,
)
from fairseq_odeformers.lab.compare.trial import Trial
from fairseq_odeformers.lab.compare.variant import make_variants

TRIAL = Trial(
    1234, epoch_updates=10, seconds=0.5, timed=4, validation_seconds=2.0, prediction_seconds=3.0
)


@pytest.mark.parametrize("start, step, target", [(96, 24, 9000), (8, 8, 10**6), (256, 2, 20000)])
@pytest.mark.parametrize("square", [0, 0.01, 3])
@pytest.mark.parametrize("rest", [100, 10**6])
def test_no_other_width_is_nearer(start, step, target, square, rest):
    """Parameters grow with the width, or also with its square, beside a rest that does not."""
    target += rest

    def count(width):
        return round(square * width**2 + 50 * width + rest)

    width = search_width(count, {start: count(start)}, target, step)
    others = (abs(count(other) - target) for other in [start, *range(step, 10**5, step)])
    assert width == start or width % step == 0
    assert abs(count(width) - target) == min(others)


def test_a_size_that_is_out_of_reach_takes_few_models():
    counts = {1024: 1100}
    assert search_width(lambda width: width + 76, counts, 10, 2) == 2
    assert len(counts) < 5


def test_a_size_without_an_effect_is_no_width():
    assert search_width(lambda width: 100, {16: 100}, 200, 2) is None


def test_a_width_fits_the_heads():
    """Of both sides; the width of the whole model counts only where there is no inner one."""
    heads = SimpleNamespace(encoder_attention_heads=12)
    assert width_options("transject", heads) == (["encoder_embed_dim"], 24)
    names = ["encoder_ffn_embed_dim", "decoder_ffn_embed_dim"]
    assert width_options("transformer_prenorm", heads) == (names, 2)


def variant(data, arch, *words):
    (experiment,) = read(data, "--archs", arch, "--width", 32, "--heads", 2, *words).values()
    (found,) = make_variants(experiment)
    return found


@pytest.mark.parametrize(
    "arch, width, least",
    [
        ("node_transformer", "encoder-ffn-embed-dim", 2),  # by default that of the embedding
        ("transevolve_fullff_2", "encoder-ffn-embed-dim", 2),  # both sides have the width
        ("transject", "encoder-embed-dim", 8),
    ],
)
def test_the_width_of_a_known_size_is_found(arch, width, least, training_data):
    """At the least width, the difference from a smaller size is told; a large one is refused."""
    words = ["--layers", 2] if "fullff" in arch else []
    data = training_data / "words"
    if "fullff" in arch:
        words += ["--task", "translation"]
    small = variant(data, arch, *words)
    large = small.change(**dict.fromkeys(width_options(arch, small.cfg.model)[0], 72))

    def count(found):
        return found.build().parameters

    found = match_parameters(small, count(large), count)
    assert found.options == large.options and count(found) == count(large)
    assert re.fullmatch(rf"{width} \d+ -> 72", found.size)
    parameters = count(small)
    assert match_parameters(small, round(parameters * (1 + TOLERANCE)), count) is small
    smallest = count(small.change(**dict.fromkeys(width_options(arch, small.cfg.model)[0], least)))
    told = rf"{width} \d+ -> {least}, 10% more parameters than the baseline"
    assert re.fullmatch(told, match_parameters(small, round(smallest / 1.1), count).size)
    refused = rf"--match parameters: 30% more .*-> {least}\); give .* or"
    with pytest.raises(ValueError, match=refused):
        match_parameters(small, round(smallest / 1.3), count)


def test_a_schedule_ends_after_the_epochs_or_with_the_budget(training_data):
    """It rises in the same share of the updates, and the limit of the epochs goes."""
    words = ["--epochs", 3, "--warmup-updates", "20%"]
    found = fit_effort(variant(training_data / "words", "transject", *words), TRIAL)
    assert found.updates == 30 and found.training_seconds == 15
    assert found.variant.options["total-num-update"] == 30
    assert found.variant.options["warmup-updates"] == 6
    assert found.evaluation_seconds == (3 + 1) * 2.0 + 3.0, "validations, and one test set"
    words = ["--budget", "1m", "--warmup-updates", "20%"]
    found = fit_effort(variant(training_data / "words", "transject", *words), TRIAL)
    given = found.variant.options
    assert found.updates == given["max-update"] == given["total-num-update"] == 120
    assert given["warmup-updates"] == 24 and "max-epoch" not in given
    assert found.training_seconds == 60


@pytest.mark.parametrize(
    "words, trial, refused",
    [
        (["--budget", "1s"], replace(TRIAL, seconds=2.0), "an update takes 2.0 seconds; give more"),
        (
            ["--epochs", 2, "--average", 3],
            TRIAL,
            "--average 3: 20 updates of transject leave 2 checkpoints",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(words, trial, refused, training_data):
    with pytest.raises(ValueError, match=refused):
        fit_effort(variant(training_data / "words", "transject", *words), trial)
