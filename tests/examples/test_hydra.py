"""The YAML of each paper gives the training of its command line."""

from pathlib import Path

import pytest
from composing import AS_FAIRSEQ, compose, initialize_config_dir
from examples.recipes import options_of, read_recipe
from fairseq.dataclass.initialize import add_defaults, hydra_init
from make_checkpoints import parsed
from omegaconf import OmegaConf
from script_helpers import ROOT

from odeformers.compare.run import make_steps
from odeformers.compare.variant import Variant

RECIPES = {  # recipe and part, and the architecture
    "transevolve/hydra": ("wmt14.yaml", "en-de", "transevolve_fullff_2"),
    "transject/hydra": ("ptb.yaml", "paper", "transject_lm"),
    "macaron/hydra": ("pretraining.yaml", "small", "macaron_bert_base"),
    "multi30k/hydra": ("recipe.yaml", None, "transevolve_fullff_2_prenorm"),
}
PARTS = "task model criterion optimizer lr_scheduler optimization checkpoint dataset".split()


def command_line(name):
    """The command line of the recipe beside the file."""
    folder = (ROOT / "examples" / name).parent
    file, part, arch = RECIPES[name]
    (recipe,) = read_recipe(folder / file, part).values()
    options = {**options_of(recipe, arch), "user-dir": "fairseq_odeformers"}
    variant = Variant(arch, recipe.task, recipe.data, options, average=recipe.average)
    training = next(make_steps(variant, 1, Path("runs")))
    return [*training.words[1:]]


@pytest.mark.parametrize("name", RECIPES)
def test_yaml_equals_the_command_line(name):
    line = command_line(name)
    place = line.index("--user-dir")
    expected = OmegaConf.to_container(parsed(line[:place] + line[place + 2 :]), enum_to_str=True)
    folder, _, stem = name.partition("/")
    hydra_init(stem)
    with initialize_config_dir(str(ROOT / "examples" / folder), **AS_FAIRSEQ):
        config = compose(stem)
    add_defaults(config)
    parts = OmegaConf.masked_copy(config, [*PARTS, "common"])
    actual = OmegaConf.to_container(parts, resolve=True, enum_to_str=True)
    for config in (actual, expected):
        del config["checkpoint"]["save_dir"]
        for name in ("update_epoch_batch_itr", "num_workers"):  # every run of compare sets them
            del config["dataset"][name]
    for part in PARTS:
        assert actual[part] == expected[part], part
