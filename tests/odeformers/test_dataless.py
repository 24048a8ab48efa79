"""Configurations without data are the ones that ``fairseq-train`` makes."""

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

from odeformers.dataless import make_config

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
