"""The command ``odeformers options``: it prints an architecture's options and their defaults."""

from __future__ import annotations

import argparse
import os
import re
from argparse import Namespace
from collections.abc import Container, Iterator, Sequence
from dataclasses import Field, fields, replace
from typing import Any

from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from omegaconf import OmegaConf

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.options import Bounds, bounds_of, flag
from fairseq_odeformers.registry import (
    declared_family,
    explain_unknown_architecture,
    find_architectures,
    model_parser,
    option_names,
    paper_of,
    registered_by,
)
from odeformers.parser import add_user_dir

from . import PLUGIN
from .parser import Parser

TRANSFORMERS = ("transformer", "transformer_lm")  # fairseq's models
OptionRow = tuple[tuple[str, ...], str, str]  # names on the command line, default and help


def main(arguments: Sequence[str]) -> None:
    """Print the description of an architecture, its options and their defaults.

    Raises:
        InputError: the architecture does not exist.
    """
    parser = listing_parser("options", "Print the options of an architecture and their defaults.")
    parser.add_argument("arch", help="name of an architecture, as passed to --arch")
    args = parser.parse_args(arguments)
    archs = architectures(packages_of(args))
    if args.arch in ARCH_MODEL_REGISTRY and args.arch not in archs:
        module = ARCH_MODEL_REGISTRY[args.arch].__module__
        raise InputError(f"{args.arch}: its options are in {module}, not in this package")
    if args.arch not in archs:
        names = filter(archs.__contains__, find_architectures())
        raise InputError(explain_unknown_architecture(args.arch, [*names]))
    headings = dict(zip(("lacks", "has"), split_rows(args.arch)))
    tables = [
        table(
            [
                (f"options that fairseq's Transformer {verb}", "default", ""),
                *((", ".join(names), default, text) for names, default, text in rows),
            ]
        )
        for verb, rows in headings.items()
        if rows
    ]
    print("\n\n".join([describe(args.arch), *tables]))


def describe(arch: str) -> str:
    """Describe an architecture in lines: its model, the preset, the paper and its page."""
    model = model_name(arch)
    lines = {"description": summary(MODEL_REGISTRY[model])}
    if arch != model:
        lines["preset"] = model_summary(arch)
    lines["paper"] = paper_of(arch)
    if page := page_of(arch):
        lines["page"] = page
    return "\n".join(f"{name:13}{text}" for name, text in lines.items())


def page_of(arch: str) -> str:
    """Return the path of the page about an architecture of this project; "" for a plugin's."""
    package, *folders = ARCH_MODEL_REGISTRY[arch].__module__.split(".")
    family = declared_family(ARCH_MODEL_REGISTRY[arch])
    return f"docs/papers/{folders[1]}.md" if package == PLUGIN and family is not None else ""


def split_rows(arch: str) -> tuple[list[OptionRow], list[OptionRow]]:
    """Return the rows of the options that fairseq's Transformer lacks, and of those that it has."""
    common = {flag(name) for model in TRANSFORMERS for name in option_names(model)}
    lacks, has = [], []
    for row in option_rows(arch):
        (has if row[0][0] in common else lacks).append(row)
    return lacks, has


def table(rows: Sequence[tuple[str, str, str]]) -> str:
    """Format rows as lines with aligned columns."""
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    return "\n".join(f"{a:{first}}  {b:{second}}  {c}".rstrip() for a, b, c in rows)


def listing_parser(name: str, text: str) -> argparse.ArgumentParser:
    """Make the parser of a command that lists names, including those from plugins."""
    parser = Parser(prog=f"odeformers {name}", description=text, allow_abbrev=False)
    add_user_dir(parser)
    return parser


def packages_of(args: Namespace) -> set[str]:
    """Return the names of this package and of the plugins on the command line."""
    return {PLUGIN, *(os.path.basename(os.path.abspath(folder)) for folder in args.user_dir)}


def package_of(thing: Any) -> str:
    """Return the package that defines a class or a function."""
    return thing.__module__.partition(".")[0]


def architectures(packages: Container[str] = (PLUGIN,)) -> list[str]:
    """List the architectures of packages: models, then presets, even of other packages' models."""
    presets = {arch for arch in ARCH_CONFIG_REGISTRY if registered_by(arch) in packages}
    models = {arch for arch, cls in ARCH_MODEL_REGISTRY.items() if package_of(cls) in packages}
    return sorted(presets | models, key=lambda arch: (arch not in MODEL_REGISTRY, arch))


def model_name(arch: str) -> str:
    """Return the name of the registered model of an architecture, a model or a preset."""
    if arch in MODEL_REGISTRY:
        return arch
    return min(name for name, cls in MODEL_REGISTRY.items() if cls is ARCH_MODEL_REGISTRY[arch])


def option_rows(arch: str) -> Iterator[OptionRow]:
    """Yield the names on the command line, the default and the help of each option.

    For a switch, the name that switches it off comes after the name that switches it on. If an
    option takes its default from another, the default is the other option's name. The help names
    the values that the option may take.
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
    actions = model_parser(arch)._actions
    for item in fields(config):
        if "help" in item.metadata:
            matches = [action for action in actions if action.dest == item.name]
            names = tuple(name for action in matches for name in action.option_strings)
            default = defaults[item.name]
            if isinstance(default, str) and default.startswith("${model."):
                default = flag(default[len("${model.") : -1])
            bounds = replace(bounds_of(item), choices=tuple(matches[0].choices or ()))
            yield names, show_default(default), help_with_bounds(item, bounds, config)


def show_default(default: Any) -> str:
    """Return a default as listings show it; an option without one shows nothing."""
    return "" if default is None else str(default)


def help_with_bounds(item: Field, bounds: Bounds, config: type) -> str:
    """Return the help of an option; unless it names the allowed values, they are at its end."""
    text, allowed = item.metadata["help"], bounds.describe(config)
    named = bounds.choices and {*bounds.choices} <= {*re.findall(r"[\w-]+", text)}
    return text if named or allowed in text else f"{text.rstrip('.')}; {allowed}"


def model_summary(arch: str) -> str:
    """Describe a model; describe a preset by its model and the options that it changes."""
    model = model_name(arch)
    if arch == model:
        return summary(MODEL_REGISTRY[model])
    defaults = {names[0]: default for names, default, _ in option_rows(model)}
    changes = (
        typed(names, default)
        for names, default, _ in option_rows(arch)
        if default != defaults[names[0]]
    )
    return " ".join([model, *changes])


def typed(names: Sequence[str], value: str) -> str:
    """Return an option as typed on the command line, from a row of :func:`option_rows`."""
    switch = {"True": names[0], "False": names[-1]}
    return switch.get(value, f"{names[0]} {value}")


def summary(cls: type) -> str:
    """Return the first line of a docstring, as plain text."""
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].replace("``", "").rstrip(".")
