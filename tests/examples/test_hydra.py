"""The YAML of each paper trains what its command line trains."""

import re
import shlex

import pytest
from composing import AS_FAIRSEQ, compose, initialize_config_dir
from fairseq.dataclass.initialize import add_defaults, hydra_init
from make_checkpoints import parsed
from omegaconf import OmegaConf
from script_helpers import ROOT, training_options

SCRIPTS = {
    "transevolve/wmt14": ("data/wmt14-en-de/data-bin/dict.en.txt", "en-de transevolve_fullff_2"),
    "transject/ptb": ("data/ptb/data-bin", "transject_lm"),
    "macaron/pretrain": (
        "data/pretrain/data-bin/dict.txt",
        "train.txt valid.txt macaron_bert_base",
    ),
}
PARTS = "task model criterion optimizer lr_scheduler optimization checkpoint dataset".split()


def command_line(name, root):
    """What the script of this name trains, with the data that it asks for; or the README."""
    if name not in SCRIPTS:
        text = (ROOT / "examples" / f"{name}.md").with_name("README.md").read_text()
        line = re.search(r"fairseq-train ((?:.*\\\n)*.*)", text)[1]
        return [*shlex.split(line.replace("\\\n", " ")), "--no-progress-bar"]
    data, arguments = SCRIPTS[name]
    (root / data).mkdir(parents=True)
    return training_options(root, f"{name}.sh", *arguments.split())


@pytest.mark.parametrize("name", [*SCRIPTS, "parity/parity"])
def test_yaml_is_the_command_line(name, tmp_path):
    line = command_line(name, tmp_path)
    place = line.index("--user-dir")
    expected = OmegaConf.to_container(parsed(line[:place] + line[place + 2 :]), enum_to_str=True)
    folder, _, stem = name.partition("/")
    hydra_init(stem)
    with initialize_config_dir(str(ROOT / "examples" / folder), **AS_FAIRSEQ):
        config = compose(stem)
    add_defaults(config)
    parts = OmegaConf.masked_copy(config, [*PARTS, "common"])
    found = OmegaConf.to_container(parts, resolve=True, enum_to_str=True)
    for part in PARTS:
        assert found[part] == expected[part], part
