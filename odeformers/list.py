"""Three commands of the console script ``odeformers``: ``list``, ``options`` and ``hydra-train``.

They read fairseq's registries, which hold what this package and plugins have registered. The script
itself is ``odeformers/__main__.py``, beside the package.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from argparse import Namespace
from collections.abc import Container, Iterator, Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

from fairseq import utils
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.dataclass.initialize import hydra_init
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf

from fairseq_odeformers.files import check_joined
from fairseq_odeformers.models.common.kinds import Kind, find_architectures, kinds_of
from fairseq_odeformers.models.common.papers import OWN, PAPERS, paper_of
from fairseq_odeformers.options import add_user_dir, flag, import_plugins
from fairseq_odeformers.parser import Parser
from odeformers import PLUGIN

from .parsers import explain_unknown_architecture


def list_names(arguments: Sequence[str]) -> None:
    """Print the architectures by task and paper, and the tasks and criterions."""
    parser = listing_parser("list", "Print the names of architectures, tasks and criterions.")
    packages = packages_of(parser.parse_args(arguments))
    archs = architectures(packages)
    groups: dict[str, dict[str, str]] = {}
    for arch in sorted(archs, key=lambda arch: (place(arch), archs.index(arch))):
        group = f"--arch, {paper_of(arch)}, for --task {trained_by(arch)}"
        groups.setdefault(group, {})[arch] = model_summary(arch)
    for kind, registry in (("task", TASK_REGISTRY), ("criterion", CRITERION_REGISTRY)):
        names = sorted(name for name, cls in registry.items() if package_of(cls) in packages)
        groups[f"--{kind}"] = {name: summary(registry[name]) for name in names}
    for group, lines in groups.items():
        print(f"\n{group}")
        for name, text in lines.items():
            print(f"  {name:41}  {text}")


def list_options(arguments: Sequence[str]) -> None:
    """Print the options of an architecture, with its defaults.

    Raises:
        ValueError: there is no such architecture.
    """
    parser = listing_parser("options", "Print the options of an architecture and their defaults.")
    parser.add_argument("arch", help="name, as given to --arch")
    args = parser.parse_args(arguments)
    shown = architectures(packages_of(args))
    if args.arch in ARCH_MODEL_REGISTRY and args.arch not in shown:
        module = ARCH_MODEL_REGISTRY[args.arch].__module__
        raise ValueError(f"{args.arch}: its options are in {module}, not of this package")
    if args.arch not in shown:
        names = filter(shown.__contains__, find_architectures())
        raise ValueError(explain_unknown_architecture(args.arch, [*names]))
    rows = [("option", "default", ""), *option_rows(args.arch)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, default, text in rows:
        print(f"{name:{widths[0]}}  {default:{widths[1]}}  {text}".rstrip())


def place(arch: str) -> tuple[int, int]:
    """The key that sorts architectures by kind, then by paper."""
    kinds, papers = [None, *Kind], [*PAPERS.values(), OWN]
    kind = next(iter(kinds_of(ARCH_MODEL_REGISTRY[arch])), None)
    return kinds.index(kind), papers.index(paper_of(arch))


def listing_parser(name: str, text: str) -> argparse.ArgumentParser:
    """The parser of a command that also shows what plugins register."""
    parser = Parser(prog=f"odeformers {name}", description=text, allow_abbrev=False)
    add_user_dir(parser)
    return parser


def packages_of(args: Namespace) -> set[str]:
    """This package, and the plugins that a command line names."""
    return {PLUGIN, *(os.path.basename(os.path.abspath(folder)) for folder in args.user_dir)}


def package_of(thing: Any) -> str:
    """The package that defines a class or a function."""
    return thing.__module__.partition(".")[0]


def architectures(packages: Container[str] = (PLUGIN,)) -> list[str]:
    """The architectures of packages: models first, then presets, which may be of others' models."""
    presets = {
        arch for arch, preset in ARCH_CONFIG_REGISTRY.items() if package_of(preset) in packages
    }
    models = {arch for arch, cls in ARCH_MODEL_REGISTRY.items() if package_of(cls) in packages}
    return sorted(presets | models, key=lambda arch: (arch not in MODEL_REGISTRY, arch))


def model_name(arch: str) -> str:
    """The name of the registered model that an architecture is, or is a preset of."""
    if arch in MODEL_REGISTRY:
        return arch
    return min(name for name, cls in MODEL_REGISTRY.items() if cls is ARCH_MODEL_REGISTRY[arch])


def model_summary(arch: str) -> str:
    """A model's description; for a preset, its model and the options that it changes."""
    model = model_name(arch)
    if arch == model:
        return summary(MODEL_REGISTRY[model])
    defaults = {name: default for name, default, _ in option_rows(model)}
    changes = (
        (name, default) for name, default, _ in option_rows(arch) if default != defaults[name]
    )
    return " ".join([model, *(n if value == "True" else f"{n} {value}" for n, value in changes)])


def option_rows(arch: str) -> Iterator[tuple[str, str, str]]:
    """The options of an architecture: names on the command line, default, and help.

    A default that is another option's value is that option's name.
    """
    model = model_name(arch)
    config = MODEL_DATACLASS_REGISTRY.get(model)
    if config is None:  # a plugin's model may be registered without
        return
    values = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    assert isinstance(values, dict)  # of a dataclass
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


def summary(cls: type) -> str:
    """The first line of a docstring, as plain text."""
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].replace("``", "").rstrip(".")


def trained_by(arch: str) -> str:
    """The tasks that train an architecture."""
    tasks = [task for kind in kinds_of(ARCH_MODEL_REGISTRY[arch]) for task in kind.tasks]
    return " or ".join(filter(None, [", ".join(tasks[:-1]), *tasks[-1:]]))


def hydra_train(arguments: Sequence[str]) -> None:
    """``fairseq-hydra-train``, where this package is imported before Hydra composes.

    An option of a model, task or criterion need not be in the YAML, and takes no ``+`` before it.
    Files that a training reads are relative to the current folder, not to the one that Hydra makes.
    """
    import fairseq_cli.hydra_train as fairseq_hydra
    import hydra
    from fairseq.dataclass.configs import FairseqConfig
    from hydra._internal.utils import get_args

    groups = [name for name, part in FairseqConfig.__dataclass_fields__.items() if part.type is Any]
    option = re.compile(rf"^(?=({'|'.join(groups)})\.\w+=)")
    if hasattr(hydra, "compose"):  # hydra 1.0, of fairseq 0.12.2, does not know ++
        arguments = [option.sub("++", word) for word in arguments]
    sys.argv[1:] = arguments

    def train(cfg):
        try:
            make_absolute(cfg)
        except ValueError as error:  # Hydra would print a traceback
            sys.exit(f"odeformers hydra-train: error: {error}")
        return fairseq_hydra._hydra_main(cfg)

    train.__module__ = fairseq_hydra.__name__  # beside which Hydra looks for fairseq's defaults
    hydra_init(get_args().config_name or "config")
    settings = {"config_path": os.path.join("..", "fairseq", "config"), "config_name": "config"}
    if "version_base" in signature(hydra.main).parameters:  # not of hydra 1.0 and 1.1
        settings["version_base"] = "1.1"
    hydra.main(**settings)(train)()


def make_absolute(cfg: DictConfig) -> None:
    """Have the paths of a training's inputs lead from the folder where Hydra was started.

    Raises:
        ValueError: ``common.user_dir`` cannot be imported, or a path has a colon.
    """
    from hydra.utils import to_absolute_path

    def resolve(group: str, name: str, default: str | None = None) -> None:
        path = OmegaConf.select(cfg, f"{group}.{name}")
        if path not in (None, default):
            check_joined(to_absolute_path(path))
            paths = map(to_absolute_path, utils.split_paths(path))
            OmegaConf.update(cfg, f"{group}.{name}", os.pathsep.join(paths))

    resolve("task", "data")
    resolve("common", "user_dir")
    resolve("checkpoint", "finetune_from_model")
    resolve("checkpoint", "restore_file", "checkpoint_last.pt")  # in the folder of the training
    if folder := cfg.common.user_dir:
        import_plugins([folder])
