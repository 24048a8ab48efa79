"""The command ``odeformers options``: prints an architecture's options and their defaults."""

from __future__ import annotations

import argparse
import os
from argparse import Namespace
from collections.abc import Container, Iterator, Sequence
from dataclasses import fields
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from omegaconf import OmegaConf

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.options import flag
from fairseq_odeformers.registry import find_architectures, registered_by

from . import PLUGIN
from .arguments import add_user_dir
from .parser import Parser
from .parsers import explain_unknown_architecture


def main(arguments: Sequence[str]) -> None:
    """Print the options of an architecture and their defaults.

    Raises:
        InputError: the architecture does not exist.
    """
    parser = listing_parser("options", "Print the options of an architecture and their defaults.")
    parser.add_argument("arch", help="name, as given to --arch")
    args = parser.parse_args(arguments)
    shown = architectures(packages_of(args))
    if args.arch in ARCH_MODEL_REGISTRY and args.arch not in shown:
        module = ARCH_MODEL_REGISTRY[args.arch].__module__
        raise InputError(f"{args.arch}: its options are in {module}, not in this package")
    if args.arch not in shown:
        names = filter(shown.__contains__, find_architectures())
        raise InputError(explain_unknown_architecture(args.arch, [*names]))
    rows = [("option", "default", ""), *option_rows(args.arch)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, default, text in rows:
        print(f"{name:{widths[0]}}  {default:{widths[1]}}  {text}".rstrip())


def listing_parser(name: str, text: str) -> argparse.ArgumentParser:
    """Make the parser of a command that also lists names from plugins."""
    parser = Parser(prog=f"odeformers {name}", description=text, allow_abbrev=False)
    add_user_dir(parser)
    return parser


def packages_of(args: Namespace) -> set[str]:
    """This package and the plugins named on the command line."""
    return {PLUGIN, *(os.path.basename(os.path.abspath(folder)) for folder in args.user_dir)}


def package_of(thing: Any) -> str:
    """Return the package that defines a class or a function."""
    return thing.__module__.partition(".")[0]


def architectures(packages: Container[str] = (PLUGIN,)) -> list[str]:
    """List the architectures of packages: models, then presets, maybe of other packages' models."""
    presets = {arch for arch in ARCH_CONFIG_REGISTRY if registered_by(arch) in packages}
    models = {arch for arch, cls in ARCH_MODEL_REGISTRY.items() if package_of(cls) in packages}
    return sorted(presets | models, key=lambda arch: (arch not in MODEL_REGISTRY, arch))


def model_name(arch: str) -> str:
    """Return the name of the registered model of an architecture, a model or a preset."""
    if arch in MODEL_REGISTRY:
        return arch
    return min(name for name, cls in MODEL_REGISTRY.items() if cls is ARCH_MODEL_REGISTRY[arch])


def option_rows(arch: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, default and help of each option of an architecture.

    The default of an option that follows another option is the name of that option.
    """
    model = model_name(arch)
    config = MODEL_DATACLASS_REGISTRY.get(model)
    if config is None:  # models from plugins may be registered without a dataclass
        return
    values = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(values, dict)  # a dataclass becomes a dictionary
    defaults: dict[Any, Any] = values
    if arch != model:
        preset = Namespace()
        ARCH_CONFIG_REGISTRY[arch](preset)
        defaults |= vars(preset)
    for item in fields(config):
        if (text := item.metadata.get("help")) is not None:
            alias = item.metadata.get("argparse_alias")
            default = defaults[item.name]
            if isinstance(default, str) and default.startswith("${model."):
                default = flag(default[len("${model.") : -1])
            names = ", ".join([flag(item.name), *([alias] if alias else [])])
            yield names, "" if default is None else str(default), text
