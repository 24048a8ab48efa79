"""Untrained models are those that ``fairseq-train`` builds, and learn in the loop of the page."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers import PAD, make_model, small
from torch.nn.functional import cross_entropy

from fairseq_odeformers import build_model
from fairseq_odeformers.criterions.label_smoothed_cross_entropy_with_regularizers import (
    RegularizedCrossEntropyConfig,
    RegularizedCrossEntropyCriterion,
)

PAGE = Path(__file__).parents[3] / "docs" / "training_loop.md"


@pytest.mark.parametrize(
    "arch, options, line",
    [
        ("yuriiformer_lm", {"tokens_per_sample": 64}, ""),
        ("macaron_transformer", {"share_all_embeddings": True}, "--share-all-embeddings"),
        ("ot_transformer", {"layer_norm": False}, "--no-layer-norm"),  # on by default
        ("transject", {"num_classes": 3, "max_positions": 64}, "--max-positions 64"),
        ("transformer", {"layernorm_embedding": True}, "--layernorm-embedding"),  # no dataclass
        ("rk2_transformer", {"rk2_alpha": 1}, "--rk2-alpha 1"),
    ],
)
def test_a_model_equals_the_one_that_fairseq_builds(arch, options, line, page_plugin):
    """Both have the options of the command line, and a classifier has a head as well."""
    sizes = small(arch)
    names = [word[2:].replace("-", "_") for word in sizes[::2]]
    options |= dict(zip(names, map(int, sizes[1::2])))
    theirs = make_model(arch, *line.split()).state_dict()
    torch.manual_seed(0)
    ours = build_model(arch, vocabulary=50, **options).state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in theirs.items())
    assert {name.split(".")[0] for name in ours.keys() - theirs} <= {"classification_heads"}


@pytest.mark.parametrize("words", [["plugin_of_a_script"], ["absent"], []])
def test_options_of_the_users_script_are_left_alone(words, tmp_path, monkeypatch):
    """A script may have an option --user-dir of its own, also one that takes no value."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugin_of_a_script").mkdir()
    (tmp_path / "plugin_of_a_script" / "__init__.py").write_text("raise OSError")
    line = ["script.py", "--user-dir", *words]
    monkeypatch.setattr(sys, "argv", line)
    build_model("transformer_lm", vocabulary=50, decoder_layers=1, decoder_embed_dim=16)
    assert sys.argv is line and line == ["script.py", "--user-dir", *words]


def test_a_switch_of_a_fairseq_preset_can_be_turned_off():
    """fairseq's command line cannot turn such a switch off."""
    options = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32}
    options |= {"decoder_embed_dim": 32, "vocabulary": 50}
    for learned in (True, False):
        model = build_model("bart_large", encoder_learned_pos=learned, **options)
        assert hasattr(model.encoder.embed_positions, "num_embeddings") is learned


@pytest.mark.parametrize(
    "arch, options, message",
    [
        ("transjekt", {}, "transjekt: no such architecture; did you mean transject"),
        ("macaron_transformer_classifier", {}, "did you mean macaron_.* or macaron_classifier"),
        ("wav2vec2", {}, "wav2vec2: it is for no task that can be built without data"),
        *(
            (name, {}, "^arch .*: give the name of an archi")
            for name in (None, 3, [], torch.nn.Module)
        ),
        ("transject", {"task": []}, r"^task \[\]: give the name of a task as a str$"),
        ("transject", {"vocabulary": None}, "vocabulary None: give a whole number above 4"),
        ("transject", {"vocabulary": 4}, "vocabulary 4: give a whole number above 4"),
        ("transject", {"vocabulary": 9.5}, "vocabulary 9.5: give a whole number above 4"),
        ("transject", {"encoder_layrs": 2}, "no option encoder_layrs; did you mean encoder_layers"),
        ("transject", {"lr": 1}, "transject has no option lr; odeformers options transject lists"),
        ("transject", {"pre_normm": False}, "transject has no option pre_normm; odeformers"),
        ("transject", {"encoder_layers": 0}, "transject .*--encoder-layers 0: give at least 1"),
        ("transject", {"encoder_layers": 2.5}, "transject .*--encoder-layers: give a whole number"),
        ("transject", {"num_classes": None}, "transject is a classifier: give num_classes"),
        ("transject", {"task": "translation"}, "transject: it is for .*, not for --task transl"),
        ("yuriiformer_lm", {"rk_order": 2}, "yuriiformer_lm has no option rk_order; odeformers"),
    ],
)
def test_mistakes_are_named_in_one_line(arch, options, message):
    classes = {"num_classes": 2} if arch == "transject" else {}
    with pytest.raises((TypeError, ValueError), match=message) as error:
        build_model(arch, **{"vocabulary": 50, **classes, **options})
    assert "\n" not in str(error.value)


def test_the_training_loops_of_the_page_learn():
    """The trained models are better than equal probabilities of all symbols."""
    language_model, _, _, translator, _ = listings_of_the_training_loop()
    for listing in (language_model, translator):
        variables = {}
        exec(listing, variables)
        vocabulary = variables["logits"].size(-1)
        assert variables["loss"].exp() < vocabulary / 2


def test_the_loss_of_a_classifier_of_the_page_reaches_its_parameters():
    language_model, classifier, *_ = listings_of_the_training_loop()
    variables = {}
    exec(language_model.split("sizes =")[0] + classifier, variables)  # the imports come first
    variables["loss"].backward()
    assert all(p.grad is not None for p in variables["model"].classification_heads.parameters())


def test_the_translator_of_the_page_translates():
    """The trained model knows the translations of its two sentences, and they end."""
    *_, train, translate = listings_of_the_training_loop()
    variables = {}
    exec(train, variables)
    exec(translate, variables)
    assert variables["translations"] == [target for _, target in variables["pairs"]]
    assert variables["output"].size(1) == 5  # both sentences and their ends


def listings_of_the_training_loop():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.S)


def test_the_loss_of_the_page_has_the_regularizer_of_the_criterion():
    """For texts of equal length, the loss of a loop equals the loss of fairseq-train."""
    regularized = listings_of_the_training_loop()[2]

    def build_with_weight(*args, **options):
        model = build_model(*args, **options)
        model.regularizer_weights = {"reconstruction": 0.5}  # larger than rounding
        return model

    texts = torch.randint(4, 50, (3, 7))
    variables = {"build_model": build_with_weight, "texts": texts, "cross_entropy": cross_entropy}
    variables["PADDING"] = PAD
    exec(regularized, variables)
    model = variables["model"]
    criterion = RegularizedCrossEntropyCriterion(
        RegularizedCrossEntropyConfig(sentence_avg=False),
        SimpleNamespace(target_dictionary=SimpleNamespace(pad=lambda: PAD)),
    )
    inputs = {
        "net_input": {"src_tokens": texts[:, :-1]},
        "target": texts[:, 1:].contiguous(),
        "ntokens": 18,
    }
    loss, tokens, _ = criterion(model, inputs)
    assert torch.allclose(variables["loss"], loss / tokens)
