"""The options that a variant makes from an experiment's, and the words of its commands."""

from dataclasses import replace

import pytest

from odeformers.compare.variant import (
    Variant,
    choose_best_by,
    evaluation_words,
    make_variants,
    resolve_shares,
    training_words,
)
from odeformers.processes import call_in_child
from tests.odeformers.compare.test_experiment import folders, read, recipe  # noqa: F401  fixtures

SIZES = ["--layers", 1, "--width", 16, "--heads", 2, "--ffn", 16]


def variants(*words):
    (experiment,) = read(*words).values()
    return make_variants(experiment)


def test_a_variant_resolves_the_options_of_a_recipe(recipe):  # noqa: F811
    """Values name its architecture, a size sets both sides, and removed options are left out.

    A shared option is left out if the model lacks it, and the variant's own options win.
    """
    path = recipe(
        train={
            **{"task": "translation", "source-lang": "de", "target-lang": "en"},
            **{"finetune-from-model": "runs/{arch}-seed1/best.pt", "clip-norm": 1},
            **{"attention-dropout": 0.3, "optimizer": "adam", "lr": 1e-3},
        },
        sizes={"embed-dim": 256, "layers": 4},
        shared={"dropout": 0.1, "attention-dropout": 0.2, "encoder-experts": 4},
        architectures={
            "small": {"arch": "transformer", "encoder-embed-dim": 32, "clip-norm": None}
        },
    )
    (found,) = variants(path)
    given = found.options
    assert given["finetune-from-model"] == "runs/transformer-seed1/best.pt"
    assert given["encoder-embed-dim"] == given["decoder-embed-dim"] == 32
    assert given["encoder-layers"] == given["decoder-layers"] == 4
    assert "clip-norm" not in given and "encoder-experts" not in given
    assert (given["dropout"], given["attention-dropout"]) == (0.1, 0.3)
    assert found.cfg.model.encoder_embed_dim == 32
    defaults = found.find_defaults()
    assert defaults["encoder-normalize-before"] == "False" and "dropout" not in defaults


def test_a_shared_option_may_turn_a_default_off(recipe):  # noqa: F811
    archs, off = (
        {"transformer": {}, "transformer_prenorm": {}},
        {"no-encoder-normalize-before": True},
    )
    one, other = variants(recipe(shared=off, architectures=archs))
    assert off.keys().isdisjoint(one.options) and not other.cfg.model.encoder_normalize_before


PRESET = """
from fairseq.models import register_model_architecture
import fairseq_odeformers

@register_model_architecture("transject", "wide_transject")
def wide(args):
    args.encoder_embed_dim = getattr(args, "encoder_embed_dim", 48)
"""
OURS = """
from fairseq_odeformers.registry import register_preset
register_preset("transject", "wide_transject", encoder_embed_dim=48)
"""


@pytest.mark.parametrize("text", [PRESET, OURS])
def test_only_a_preset_depends_on_a_plugins_code(text, training_data, tmp_path):
    """The package's model does not depend on the plugin that adds a preset to it."""
    (plugin := tmp_path / tmp_path.name).mkdir()
    file = plugin / "__init__.py"
    line = [training_data / "words", "--user-dir", plugin, "--no-check"]
    line += ["--archs", "wide_transject", "transject"]

    file.write_text(text)

    def codes():
        before = [each.code for each in variants(*line)]
        file.write_text(f"{text}#")
        return before, [each.code for each in variants(*line)]

    (wide, own), (changed, _) = call_in_child(codes)
    assert own == "" and wide and changed and wide != changed


LAYERS = """
from fairseq_odeformers.models.transject.models import TransJectConfig, TransJect
from fairseq.models import register_model

@register_model("layered_transject", dataclass=TransJectConfig)
class LayeredTransJect(TransJect):
    pass
"""


def test_a_change_anywhere_in_a_plugin_changes_its_code(training_data, tmp_path):
    """A file in a subfolder or of another name counts, but other kinds of files do not."""
    (plugin := tmp_path / tmp_path.name).mkdir()
    file = plugin / "parts" / "deeper" / "layers.py"
    file.parent.mkdir(parents=True)
    (plugin / "__init__.py").write_text("from .parts.deeper import layers\n")
    file.write_text(LAYERS)
    line = [training_data / "words", "--user-dir", plugin, "--no-check"]
    line += ["--archs", "layered_transject"]

    def changes():
        def code():
            (variant,) = variants(*line)
            return variant.code

        yield code()
        (file.parent / "notes.txt").touch()
        yield code()
        file.write_text(f"{LAYERS}#")
        yield code()
        file.rename(file.with_name("other.py"))
        yield code()

    first, noted, changed, renamed = call_in_child(lambda: [*changes()])
    assert first and first == noted
    assert len({first, changed, renamed}) == 3


def test_shares_of_a_training_become_updates():
    """A share is rounded to at least one update, and other values stay."""
    options = {"warmup-updates": "2.5%", "total-num-update": "100%", "lr": "1e-3", "seed": 5}
    expected = {**options, "warmup-updates": 5, "total-num-update": 200}
    assert resolve_shares(options, 200) == expected
    assert resolve_shares(options, 10)["warmup-updates"] == 1


def test_a_training_validates_on_all_examples():
    """No worker processes remain, and options may replace both settings."""
    line = " ".join(training_words("data", {"arch": "a"}, seed=3))
    assert line == "data --required-batch-size-multiple 1 --num-workers 0 --arch a --seed 3"
    assert "--num-workers 2" in " ".join(training_words("data", {"num-workers": 2}))


@pytest.mark.parametrize("metric", ["f1_error", "f1_loss", "f1_positive"])
def test_the_best_checkpoint_has_the_highest_f1_of_a_class(metric):
    """A class may have any name, also one of a metric that falls."""
    best = {"best-checkpoint-metric": metric, "maximize-best-checkpoint-metric": True}
    assert choose_best_by({"best-checkpoint-metric": metric}) == choose_best_by(best) == best


def test_an_evaluation_repeats_options_of_its_training():
    """fairseq does not save languages, positions and blocks; the evaluation's options win."""
    options = {"source-lang": "en", "target-lang": "pt-br", "max-source-positions": 2000, "lr": 1}
    options |= {"tokens-per-sample": 64, "sample-break-mode": "none", "user-dir": "plugin"}
    variant = Variant("a", "translation", "data", options, evaluate={"beam": 5})
    line = " ".join(evaluation_words(variant, "test.2016", path="x.pt"))
    assert line == (
        "fairseq-generate data --user-dir plugin --source-lang en --target-lang pt-br "
        "--max-source-positions 2000 --gen-subset test.2016 --required-batch-size-multiple 1 "
        "--beam 5 --path x.pt"
    )
    language = replace(variant, task="language_modeling", evaluate={"tokens-per-sample": 8})
    words = evaluation_words(language, "test")
    assert "--tokens-per-sample 8 --sample-break-mode none" in " ".join(words)
    assert "--output-word-probs" in words and "--output-word-probs" not in line
    words = evaluation_words(replace(variant, task="sentence_prediction"), "test", path="x.pt")
    assert words[:3] == ["odeformers", "predict", "data"] and "--lr" not in words
