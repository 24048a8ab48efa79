"""Widths that give architectures a target number of parameters, and schedules that end."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from odeformers.compare.estimate import Measured, count_checkpoints, count_updates, make_estimate
from odeformers.compare.fairness import search_width, warn_of_warmup, width_options
from odeformers.compare.plan import make_estimates
from odeformers.compare.variant import make_variants
from tests.odeformers.compare.test_experiment import read

MEASURED = Measured(parameters=1234, epoch_updates=10, update_seconds=0.5)


@pytest.mark.parametrize("start, step, target", [(96, 24, 9000), (8, 8, 10**6), (257, 2, 20000)])
@pytest.mark.parametrize("square", [0, 0.01, 3])
@pytest.mark.parametrize("rest", [100, 10**6])
def test_the_chosen_width_is_the_nearest(start, step, target, square, rest):
    """Parameters grow linearly or quadratically with the width, beside a constant."""
    target += rest
    asked = set()

    def count(width):
        asked.add(width)
        return round(square * width**2 + 50 * width + rest)

    width = search_width(count, start, target, step)
    built = len(asked)
    others = (abs(count(other) - target) for other in [start, *range(step, 10**5, step)])
    assert width == start or width % step == 0
    assert abs(count(width) - target) == min(others)
    assert built < 25


@pytest.mark.parametrize("count", [lambda width: width + 76, lambda width: 100])
def test_an_unreachable_size_builds_few_models(count):
    """The target is too small, or the width has no effect."""
    asked = set()
    search_width(lambda width: asked.add(width) or count(width), 1024, 10, 2)
    search_width(lambda width: asked.add(width) or 100, 1024, 200, 2)
    assert len(asked) < 5


def test_a_width_fits_the_heads():
    """Both sides' heads divide a width, which is the model's only if there is no inner width."""
    heads = SimpleNamespace(encoder_attention_heads=12)

    def options(arch):
        return width_options(SimpleNamespace(arch=arch, cfg=SimpleNamespace(model=heads)))

    assert options("transject") == (["encoder_embed_dim"], 24)
    names = ["encoder_ffn_embed_dim", "decoder_ffn_embed_dim"]
    assert options("transformer_prenorm") == (names, 2)


def variant(data, arch, *words):
    (experiment,) = read(data, "--archs", arch, "--width", 32, "--heads", 2, *words).values()
    (found,) = make_variants(experiment)
    return found


def test_models_have_the_baselines_size_and_are_built_once(training_data, capsys):
    """The baseline may be anywhere. Started runs keep their width and determine others'."""
    archs = ["macaron_classifier", "transformer_classifier"]
    words = ["--layers", 1, "--width", 8, "--heads", 2, "--ffn", 64, "--epochs", 1, "--cpu"]
    (experiment,) = read(training_data / "words", "--archs", *archs, *words).values()
    experiment = replace(experiment, baseline=archs[1])
    base, macaron = started = make_estimates(experiment, [])
    assert (base.variant.architecture, base.size) == (archs[1], "") and "->" in macaron.size
    assert abs(base.parameters - macaron.parameters) < 40, "of a width of 2"
    assert capsys.readouterr().err.count("trying") == 2
    again = make_estimates(experiment, started)
    assert [replace(each, environment="") for each in again] == [
        replace(each, environment="") for each in started
    ]
    assert "trying" not in capsys.readouterr().err
    (alone,) = make_estimates(replace(experiment, architectures={archs[0]: {}}), [base])
    assert alone.variant.options == macaron.variant.options
    wider = {**experiment.architectures, archs[1]: {"ffn": 96}}
    base, other = make_estimates(replace(experiment, architectures=wider), [macaron])
    assert abs(base.parameters - other.parameters) < 40, "another baseline sets the width anew"


def test_a_models_default_width_can_be_matched(training_data):
    """The width is unset until then, and stays unset in a baseline."""
    archs = ["transformer_classifier", "transformer_classifier_modern"]
    words = ["--layers", 2, "--width", 8, "--heads", 2, "--epochs", 1, "--cpu"]
    (experiment,) = read(training_data / "words", "--archs", *archs, *words).values()
    experiment = replace(experiment, sizes={}, baseline=archs[0])
    base, modern = make_estimates(experiment, [])
    assert modern.size.startswith("encoder-ffn-embed-dim default -> ")
    assert abs(base.parameters - modern.parameters) < 100, "of a width of 2"
    modern, base = make_estimates(replace(experiment, baseline=archs[1]), [])
    assert (modern.variant.architecture, modern.size) == (archs[1], "")
    assert base.size.startswith("encoder-ffn-embed-dim 1024 -> ")


def test_values_of_an_option_share_an_estimate(training_data, capsys):
    archs = ["transformer_classifier", "macaron_classifier"]
    words = ["--layers", 1, "--width", 8, "--heads", 2, "--ffn", 2, "--epochs", 1, "--cpu"]
    words += ["--tune", "lr=1e-3,2e-3"]
    (experiment,) = read(training_data / "words", "--archs", *archs, *words).values()
    fair = make_estimates(replace(experiment, baseline=archs[0]), [])
    assert [each.size for each in fair] == ["", "", fair[2].size, fair[2].size]
    assert "more parameters than the baseline" in fair[2].size
    assert capsys.readouterr().err.count("trying") == 2


def test_a_schedule_ends_after_the_epochs_or_with_the_budget(training_data):
    """Warm-up keeps its share of the updates, and a budget removes the limit of epochs."""
    data, warmup = training_data / "words", ["--warmup-updates", "20%"]
    estimate = make_estimate(variant(data, "transject", "--epochs", 3, *warmup), MEASURED)
    assert estimate.updates == estimate.variant.options["total-num-update"] == 30
    assert estimate.variant.options["warmup-updates"] == 6
    planned = variant(data, "transject", "--budget", "1m", *warmup)
    estimate = make_estimate(planned, MEASURED)
    given = estimate.variant.options
    assert estimate.updates == given["max-update"] == given["total-num-update"] == 120
    assert given["warmup-updates"] == 24 and "max-epoch" not in given
    totals = set()
    for total in ("10", "1e1"):  # fairseq reads both
        words = ["--budget", "1m", *warmup, "--total-num-update", total]
        estimate = make_estimate(variant(data, "transject", *words), MEASURED)
        totals.add(estimate.variant.options["total-num-update"])
    assert len(totals) == 1
    with pytest.raises(ValueError, match="an update takes 99 seconds; give more"):
        make_estimate(planned, MEASURED._replace(update_seconds=99.0))


@pytest.mark.parametrize("warmup, warned", [("31", True), ("30", False), ("10%", False)])
def test_a_warm_up_longer_than_the_training_is_warned_of(warmup, warned, training_data):
    """The training has 30 updates, and shares are never longer."""
    words = ["--epochs", 3, "--warmup-updates", warmup, "--lr-scheduler", "inverse_sqrt"]
    estimate = make_estimate(variant(training_data / "words", "transject", *words), MEASURED)
    lines = [*warn_of_warmup([estimate, estimate])]
    assert ["rises for 31 updates, and runs end after 30: transject" in x for x in lines] == [
        True
    ] * warned


def test_averaging_more_checkpoints_than_saved_is_refused(training_data):
    planned = variant(training_data / "words", "transject", "--epochs", 2, "--average", 3)
    refused = "--average 3: 20 updates of transject leave 2 checkpoints"
    with pytest.raises(ValueError, match=refused):
        make_estimate(planned, MEASURED)


def test_a_training_ends_at_its_first_limit():
    """Epochs or updates limit it, where 0 is no limit; a training without any is refused."""
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
def test_checkpoints_are_counted_as_fairseq_saves_them(options, updates, saved):
    """Epochs have 100 updates; checkpoints at their ends are not named by updates."""
    assert count_checkpoints(options, updates, 100) == saved
