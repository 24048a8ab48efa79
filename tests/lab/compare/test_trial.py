"""What a trial finds out before a training."""

from types import SimpleNamespace

import pytest

from fairseq_odeformers.lab.compare.defaults import default_recipe
from fairseq_odeformers.lab.compare.make_plan import make_plan
from fairseq_odeformers.lab.compare.trial import check_best


def config(validate=1, save=1, updates=0, max_update=0, **options):
    """The parts of fairseq's configuration that say when checkpoints are saved."""
    checkpoint = {"no_save": False, "checkpoint_suffix": "", "save_interval": save}
    dataset = {"disable_validation": False, "validate_interval": validate}
    for part in (checkpoint, dataset):
        part.update({name: value for name, value in options.items() if name in part})
    return SimpleNamespace(
        checkpoint=SimpleNamespace(**checkpoint, save_interval_updates=updates),
        dataset=SimpleNamespace(**dataset, validate_interval_updates=0),
        optimization=SimpleNamespace(max_update=max_update),
    )


@pytest.mark.parametrize(
    "cfg, epochs, named",
    [
        (config(validate=3), 3, None),
        (config(validate=3), 2, "--validate-interval 3 --save-interval 1: 2 epochs"),
        (config(validate=2, save=3), 6, None),
        (config(validate=2, save=3), 5, "--validate-interval 2 --save-interval 3: 5 epochs"),
        (config(validate=3, updates=50), 1, None),
        (config(validate=3, max_update=50), 1, None),  # fairseq validates at the last update
        (config(no_save=True), 9, "--no-save True"),
        (config(disable_validation=True), 9, "--disable-validation True"),
        (config(checkpoint_suffix="x"), 9, "--checkpoint-suffix x"),
    ],
)
def test_a_training_saves_its_best_checkpoint(cfg, epochs, named):
    if named is None:
        check_best(cfg, epochs)
    else:
        with pytest.raises(ValueError, match=f"^{named}"):
            check_best(cfg, epochs)


@pytest.mark.parametrize(
    "task, arch, metrics, others",
    [
        ("long_range_arena", "transformer_classifier", ["accuracy", "f1_1"], ["f1_7", "bleu"]),
        ("language_modeling", "transformer_lm", ["ppl"], ["accuracy"]),
    ],
)
def test_the_best_checkpoint_has_a_metric(task, arch, metrics, others, training_data):
    for metric in [*metrics, *others]:
        recipe = default_recipe(training_data / "words", {arch: {}}, task, epochs=1)
        recipe.sizes = {"embed-dim": 16, "ffn-embed-dim": 16, "attention-heads": 2, "layers": 1}
        recipe.train |= {"best-checkpoint-metric": metric, "cpu": True}
        recipe.train["required-batch-size-multiple"] = 1  # or the few blocks are no batch
        recipe.average = 0
        if metric in metrics:
            assert make_plan(recipe).entries
        else:
            with pytest.raises(ValueError, match=f"--best-checkpoint-metric {metric}: .*loss"):
                make_plan(recipe)
