"""Configurations without data, for ``check``, ``benchmark`` and ``compare``."""

import copy
from argparse import Namespace
from dataclasses import fields, is_dataclass
from typing import Any

from fairseq import options
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_NAME_REGISTRY, MODEL_DATACLASS_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig

from fairseq_odeformers.inference.untrained import make_parts
from fairseq_odeformers.registry import Kind

from .parsers import training_parser

COMPOSED: dict[str, DictConfig] = {}  # keys: the options of all parts except the model


def parse(kind: Kind, arch: str, *words: str) -> Namespace:
    """Parse options as ``fairseq-train`` does, for the default task and criterion of a kind."""
    line = ["unused", "--task", kind.tasks[0], "--arch", arch, "--criterion", kind.criterion]
    return options.parse_args_and_arch(training_parser(), [*line, *words])


def make_config(args: Namespace) -> DictConfig:
    """Make the configuration that ``fairseq-train`` makes from a parsed command line.

    Hydra needs a third of a second to compose a configuration, so command lines that only differ in
    options of the model share one.
    """
    declared = find_dataclasses(args)
    if None in declared.values():  # a part without a dataclass is the whole of *args*
        return convert_namespace_to_omegaconf(args)
    of_model, *of_others = ({item.name for item in fields(part)} for part in declared.values())
    left_out = of_model.difference(*of_others) | {"arch"}
    shared = {name: value for name, value in vars(args).items() if name not in left_out}
    key = repr(sorted(shared.items()))
    if key not in COMPOSED:
        COMPOSED[key] = convert_namespace_to_omegaconf(Namespace(**shared))
    config = copy.deepcopy(COMPOSED[key])
    config.model = make_parts(args).model
    return config


def find_dataclasses(args: Namespace) -> dict[str, Any]:
    """Find the dataclasses of the parts of a configuration, with the model first."""
    parts: dict[str, Any] = {
        "model": MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY[args.arch]),
        "task": TASK_DATACLASS_REGISTRY.get(args.task),
    }
    for name in ("criterion", "optimizer", "lr_scheduler"):
        parts[name] = REGISTRIES[name]["dataclass_registry"].get(getattr(args, name))
    common = {item.name: item.type for item in fields(FairseqConfig) if is_dataclass(item.type)}
    return {**parts, **common}
