"""fairseq's options: parsers that raise their errors with remedies, and configurations."""

import argparse
import copy
from argparse import Namespace
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
)
from fairseq.options import get_training_parser, parse_args_and_arch
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig

from fairseq_odeformers.errors import InputError, did_you_mean
from fairseq_odeformers.inference.untrained import explain_types, make_parts
from fairseq_odeformers.options import flag
from fairseq_odeformers.registry import Kind, option_names
from odeformers.parser import NO_VALUE

OTHER_NAMES = {  # options of fairseq-train, by names such as those in odeformers compare
    "--ffn": "--encoder-ffn-embed-dim or --decoder-ffn-embed-dim",
    "--heads": "--encoder-attention-heads or --decoder-attention-heads",
    "--layers": "--encoder-layers or --decoder-layers",
    "--width": "--encoder-embed-dim or --decoder-embed-dim",
    "--learning-rate": "--lr",
    "--max-steps": "--max-update",
    "--warmup-steps": "--warmup-updates",
}
COMPOSED: dict[str, DictConfig] = {}  # keys: the options of all parts except the model


def training_parser() -> argparse.ArgumentParser:
    """Make the parser of fairseq-train, with errors raised as exceptions."""
    return raise_errors(get_training_parser())


def raise_errors(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Make a parser raise its errors as exceptions."""

    def refuse(message):
        _, unknown, words = message.partition("unrecognized arguments: ")
        if unknown:
            option = words.split()[0].partition("=")[0]
            remedy = remedy_for_option(option, parser._option_string_actions)
            if option.startswith("-") and not find_owners(option):
                raise InputError(f"there is no option {words}; {remedy}")
            message += f"; {remedy}"
        raise ValueError(explain_types(message).replace(*NO_VALUE))

    parser.error = refuse
    return parser


def model_options() -> dict[str, list[str]]:
    """Map the names of all models to their options."""
    models = {ARCH_MODEL_NAME_REGISTRY[arch]: arch for arch in ARCH_MODEL_REGISTRY}
    return {model: [*map(flag, option_names(arch))] for model, arch in models.items()}


def find_owners(option: str) -> list[str]:
    """Find the models that have an option."""
    return [model for model, options in model_options().items() if option in options]


def remedy_for_option(option: str, options: Iterable[str]) -> str:
    """Return the remedy for an unknown option: the models that have it, or a similar one.

    Args:
        options: all options of the command.
    """
    if option in ARCH_MODEL_REGISTRY:
        return "name architectures before options"
    if not option.startswith("-"):
        return "an option that is on or off has no value (true in a recipe)"
    if owners := find_owners(option):
        models = ", ".join(owners[:3]) + (" and others" if len(owners) > 3 else "")
        return (
            f"options of this name belong to {models}: leave it out, or set it for only one of "
            f"them (in odeformers compare as '{owners[0]}[{option} ...]')"
        )
    if matches := get_close_matches(option.replace("_", "-"), OTHER_NAMES, 1, 0.9):
        return f"fairseq calls it {OTHER_NAMES[matches[0]]}"
    of_models = dict.fromkeys(chain.from_iterable(model_options().values()))
    otherwise = "fairseq-train --help and odeformers options list all"
    return did_you_mean(option, options, did_you_mean(option, of_models, otherwise))


# --- configurations ----------------------------------------------------------------------------


def parse(kind: Kind, arch: str, *words: str) -> Namespace:
    """Parse options as ``fairseq-train`` does, for the default task and criterion of a kind."""
    line = ["unused", "--task", kind.tasks[0], "--arch", arch, "--criterion", kind.criterion]
    return parse_args_and_arch(training_parser(), [*line, *words])


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
