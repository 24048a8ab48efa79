"""Models and configurations without data are the ones that ``fairseq-train`` makes."""

import re
from pathlib import Path

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from helpers import make_model, small

from odeformers.dataless import build_model
from odeformers.fairseq_options import make_config

PAGE = Path(__file__).parents[2] / "docs" / "using.md"

TRANSLATION = "data --optimizer adam --adam-betas (0.9,0.98) --lr 1e-3,5e-4 --max-update 10 --arch"
CLASSES = "data --task sentence_prediction --num-classes 3 --criterion sequence_classification"


@pytest.mark.parametrize(
    "line",
    [
        f"{TRANSLATION} transevolve_randomff_1 --encoder-embed-dim 32 --dropout 0.2",
        f"{TRANSLATION} macaron_transformer --tpu --max-source-positions 77",  # of other parts, too
        f"{TRANSLATION} fconv --clip-norm 0.5",  # which has no dataclass
        f"{CLASSES} --optimizer adam --arch node_transformer --ode-method rk4 --ode-steps 2",
    ],
)
def test_a_configuration_equals_hydras(line):
    """The greater part of the configuration has been composed before."""
    args = options.parse_args_and_arch(options.get_training_parser(), line.split())
    make_config(options.parse_args_and_arch(options.get_training_parser(), line.split()))
    config = make_config(args)
    assert config == convert_namespace_to_omegaconf(args)
    assert config.model._name == args.arch


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
        ("wav2vec2", {}, "wav2vec2: it is for no task that can be built without data"),
        ("transject", {"vocabulary": 4}, "vocabulary 4: give a whole number above 4"),
        ("transject", {"vocabulary": 9.5}, "vocabulary 9.5: give a whole number above 4"),
        ("transject", {"encoder_layrs": 2}, "no option encoder_layrs; did you mean encoder_layers"),
        ("transject", {"lr": 1}, "transject has no option lr; odeformers options transject lists"),
        ("transject", {"pre_normm": False}, "transject has no option pre_normm; odeformers"),
        ("transject", {"encoder_layers": 0}, "transject .*--encoder-layers 0: give at least 1"),
        ("transject", {"encoder_layers": 2.5}, "transject .*--encoder-layers: give a whole number"),
        ("transject", {"num_classes": None}, "transject .*--num-classes -1: give at least 1"),
        ("transject", {"task": "translation"}, "transject: it is for .*, not for --task transl"),
        ("yuriiformer_lm", {"rk_order": 2}, "yuriiformer_lm has no option rk_order; odeformers"),
    ],
)
def test_mistakes_are_named_in_one_line(arch, options, message):
    classes = {"num_classes": 2} if arch == "transject" else {}
    with pytest.raises(ValueError, match=message) as error:
        build_model(arch, **{"vocabulary": 50, **classes, **options})
    assert "\n" not in str(error.value)


def test_the_training_loop_of_the_page_learns():
    """The trained model is better than equal probabilities of all symbols."""
    section = PAGE.read_text("utf-8").split("## In your own training loop\n")[1]
    listing = re.search(r"```python\n(.*?)```", section, re.S)[1]
    variables = {}
    exec(listing, variables)
    vocabulary = variables["scores"].size(-1)
    assert variables["loss"].exp() < vocabulary / 2
