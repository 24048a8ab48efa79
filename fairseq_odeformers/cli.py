"""The command ``odeformers``: one command for each thing that fairseq's own commands do not do.

A command is a module with ``main(arguments)``, imported when it is asked for. What a module raises
for bad input ends the program here, with one line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from importlib import import_module
from typing import NoReturn

PACKAGE = __package__

# The library that a command could not import, and the extra of this package that installs it.
EXTRAS = {
    "PIL": ("pillow", "corpora"),
    "matplotlib": ("matplotlib", "plots"),
    "rich": ("rich", "compare"),
    "sacremoses": ("sacremoses", "corpora"),
    "safetensors": ("safetensors", "export"),
    "sklearn": ("scikit-learn", "analysis"),
    "submitit": ("submitit", "compare"),
    "subword_nmt": ("subword-nmt", "corpora"),
    "tokenizers": ("tokenizers", "corpora"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; without arguments, the folder to give to ``--user-dir``."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments and not sys.stdout.isatty():
        print(user_dir())
        return
    parser = argparse.ArgumentParser(
        prog="odeformers", description=f"--user-dir of fairseq's commands: {user_dir()}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    command = parser.parse_known_args(arguments[:1] or ["--help"])[0].command
    run(f"odeformers {command}", COMMANDS[command][0], arguments[1:])


def run(name: str, target: str, arguments: Sequence[str]) -> None:
    """Call a command; bad input ends the program with a message of one line.

    Args:
        target: its module, relative to the package, and function: ``inference.predict:main``.
    """
    module, function = target.split(":")
    try:
        getattr(import_module(f"{PACKAGE}.{module}"), function)(arguments)
    except ModuleNotFoundError as error:
        library, extra = EXTRAS.get((error.name or "").split(".")[0], (None, None))
        if library is None:
            raise
        refuse(
            name, f"{library} is missing; pip install it, or this package with its extra [{extra}]"
        )
    except (ValueError, OSError) as error:
        refuse(name, error)
    except MemoryError:
        refuse(name, "there is not enough memory")


def refuse(name: str, reason: object) -> NoReturn:
    """End the program as argparse does for a wrong option, with a line and the status 2."""
    argparse.ArgumentParser(prog=name).exit(2, f"{name}: error: {reason}\n")


def user_dir() -> str:
    """The folder of this package."""
    return str(import_module(PACKAGE).__path__[0])


def list_names(arguments: Sequence[str]) -> None:
    """Print the architectures, tasks and criterions of the plugin."""
    argparse.ArgumentParser(prog="odeformers list").parse_args(arguments)
    for kind, names in registered().items():
        print(f"\n{kind}:\n" + "\n".join(f"  {name}" for name in names))


def list_options(arguments: Sequence[str]) -> None:
    """Print the options of an architecture, with its defaults."""
    parser = argparse.ArgumentParser(prog="odeformers options")
    parser.add_argument("arch", help="name, as given to --arch")
    rows = option_rows(parser.parse_args(arguments).arch)
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, default, text in rows:
        print(f"{name:{widths[0]}}  {default:{widths[1]}}  {text}".rstrip())


def prepare(arguments: Sequence[str]) -> None:
    """Prepare a corpus."""
    parser = argparse.ArgumentParser(prog="odeformers prepare")
    parser.add_argument("corpus", choices=CORPORA, help="what to prepare; --help after it helps")
    name = parser.parse_args(arguments[:1]).corpus
    run(f"odeformers prepare {name}", f"corpora.{CORPORA[name]}:main", arguments[1:])


# The module and function, and what the command does.
COMMANDS = {
    "list": ("cli:list_names", "print the architectures, tasks and criterions"),
    "options": ("cli:list_options", "print the options of an architecture"),
    "prepare": ("cli:prepare", "prepare a corpus for fairseq-train"),
    "predict": ("inference.predict:main", "classify a data set or lines of text"),
    "compare": ("compare.command:main", "train architectures side by side and report"),
    "report": ("compare.command:report", "report on what a comparison has so far"),
    "export": ("inference.export:main", "write a model as safetensors or as a torch program"),
    "benchmark": ("benchmark.command:main", "measure the speed of architectures side by side"),
    "analyse": ("analysis.command:main", "measure what trained models do inside"),
    "average": ("inference.average:main", "average the parameters of several checkpoints"),
    "score-wmt14": ("corpora.wmt14_score:main", "BLEU of WMT14 translations as the papers score"),
}
CORPORA = {
    "glue": "glue",
    "iwslt14": "iwslt14",
    "listops": "listops",
    "lra": "lra",
    "multi30k": "multi30k",
    "parallel": "parallel",
    "ptb": "ptb",
    "text-classification": "text_classification",
    "wmt14": "wmt14",
}


def registered() -> dict[str, list[str]]:
    """The names of the plugin's architectures, tasks and criterions."""
    from fairseq.criterions import CRITERION_REGISTRY
    from fairseq.models import ARCH_MODEL_REGISTRY
    from fairseq.tasks import TASK_REGISTRY

    registries = {
        "architectures": ARCH_MODEL_REGISTRY,
        "tasks": TASK_REGISTRY,
        "criterions": CRITERION_REGISTRY,
    }
    return {
        kind: sorted(name for name, owner in items.items() if owner.__module__.startswith(PACKAGE))
        for kind, items in registries.items()
    }


def option_rows(arch: str) -> list[tuple[str, str, str]]:
    """The options of an architecture: names on the command line, default, and help.

    A default that is another option's value is that option's name.

    Raises:
        ValueError: there is no such architecture.
    """
    from fairseq.models import MODEL_DATACLASS_REGISTRY
    from omegaconf import OmegaConf

    from fairseq_odeformers.options import flag

    known = registered()["architectures"]
    if arch not in known:
        near = get_close_matches(arch, known, n=3)
        remedy = f"did you mean {' or '.join(near)}?" if near else "see the list"
        raise ValueError(f"no architecture {arch!r}; {remedy}")
    config = MODEL_DATACLASS_REGISTRY[arch]
    defaults = OmegaConf.to_container(OmegaConf.structured(config), enum_to_str=True)
    rows = [("option", "default", "")]
    for item in fields(config):
        text = item.metadata.get("help")
        if text is not None:
            alias = item.metadata.get("argparse_alias")
            name = ", ".join([flag(item.name), *([alias] if alias else [])])
            default = defaults[item.name]
            if isinstance(default, str) and default.startswith("${model."):
                default = flag(default[len("${model.") : -1])
            rows.append((name, "" if default is None else str(default), text))
    return rows
