"""The command ``odeformers``: one command for each thing that fairseq's own commands do not do.

A command is a module with ``main(arguments)``, imported when it is asked for. An error of its for
bad input ends the program here, with one line.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from . import listing

PACKAGE = listing.PACKAGE
USER_DIR = Path(__file__).parents[1]

# By the module that a command could not import: its library, and the extra that installs it.
EXTRAS = {
    "PIL": ("pillow", "corpora"),
    "markdown": ("markdown", "compare"),
    "matplotlib": ("matplotlib", "plots"),
    "rich": ("rich", "compare"),
    "sacremoses": ("sacremoses", "corpora"),
    "safetensors": ("safetensors", "export"),
    "sklearn": ("scikit-learn", "analysis"),
    "submitit": ("submitit", "compare"),
    "subword_nmt": ("subword-nmt", "corpora"),
    "tabulate": ("tabulate", "compare"),
    "tokenizers": ("tokenizers", "corpora"),
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; without arguments, the folder to give to ``--user-dir``."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments and not sys.stdout.isatty():
        print(USER_DIR)
        return
    parser = argparse.ArgumentParser(
        prog="odeformers", description=f"--user-dir of fairseq's commands: {USER_DIR}"
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
        return
    except ModuleNotFoundError as error:
        library, extra = EXTRAS.get((error.name or "").split(".")[0], (None, None))
        if library is None:
            raise
        reason = f"{library} is missing; pip install it, or this package with its extra [{extra}]"
    except (ValueError, OSError) as error:
        reason = error
    except MemoryError:
        reason = "there is not enough memory"
    print(f"{name}: error: {reason}", file=sys.stderr)
    sys.exit(2)  # argparse's status for a wrong option


def needs_fairseq(process: Sequence[str], arguments: Sequence[str]) -> bool:
    """Whether a process is another one than this command that prints its own list or help.

    Args:
        process: how it was started, as :data:`sys.orig_argv`.
        arguments: the program's own words of it.
    """
    # A process that another one spawns has the arguments of that one, and few words of its own.
    program = ["", *process[: len(process) - len(arguments)]]
    this = program[-2:] == ["-m", PACKAGE] or Path(program[-1]).name == "odeformers"
    if not this or any(word.startswith("--user-dir") for word in arguments):
        return True
    return bool(arguments) and arguments[0] in COMMANDS.keys() - {"list", "options"}


def list_names(arguments: Sequence[str]) -> None:
    """Print the architectures by task and paper, and the tasks and criterions."""
    args = listing_parser("list").parse_args(arguments)
    for group, lines in listing.groups(listing.read(args.user_dir)).items():
        print(f"\n{group}")
        for name, about in lines.items():
            print(f"  {name:41}  {about}")


def list_options(arguments: Sequence[str]) -> None:
    """Print the options of an architecture, with its defaults.

    Raises:
        ValueError: there is no such architecture.
    """
    parser = listing_parser("options")
    parser.add_argument("arch", help="name, as given to --arch")
    args = parser.parse_args(arguments)
    arch, found = args.arch, listing.read(args.user_dir)
    known = listing.architectures(found)
    if arch not in known:
        from fairseq_odeformers.options import did_you_mean

        remedy = did_you_mean(arch, known) or "odeformers list names them"
        raise ValueError(f"no architecture {arch!r}; {remedy}")
    rows = [("option", "default", ""), *listing.option_rows(found, arch)]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, default, text in rows:
        print(f"{name:{widths[0]}}  {default:{widths[1]}}  {text}".rstrip())


def listing_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a command that also shows what plugins register."""
    parser = argparse.ArgumentParser(prog=f"odeformers {name}", allow_abbrev=False)
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of a plugin of your own; may be given again",
    )
    return parser


def prepare(arguments: Sequence[str]) -> None:
    """Prepare a corpus."""
    parser = argparse.ArgumentParser(prog="odeformers prepare")
    parser.add_argument("corpus", choices=CORPORA, help="what to prepare; --help after it helps")
    name = parser.parse_args(arguments[:1]).corpus
    run(f"odeformers prepare {name}", f"corpora.{name.replace('-', '_')}:main", arguments[1:])


def hydra_train(arguments: Sequence[str]) -> None:
    """``fairseq-hydra-train``, where this package is imported before Hydra composes.

    An option of a model, task or criterion need not be in the YAML, and takes no ``+`` before it.
    """
    import hydra
    from fairseq.dataclass.configs import FairseqConfig
    from fairseq_cli.hydra_train import cli_main

    groups = [name for name, part in FairseqConfig.__dataclass_fields__.items() if part.type is Any]
    option = re.compile(rf"^(?=({'|'.join(groups)})\.\w+=)")
    if hasattr(hydra, "compose"):  # hydra 1.0, of fairseq 0.12.2, does not know ++
        arguments = [option.sub("++", word) for word in arguments]
    sys.argv[1:] = arguments
    cli_main()


# The module and function, and what the command does.
COMMANDS = {
    "list": ("cli:list_names", "print the architectures, tasks and criterions"),
    "options": ("cli:list_options", "print the options of an architecture"),
    "prepare": ("cli:prepare", "prepare a corpus for fairseq-train"),
    "hydra-train": ("cli:hydra_train", "fairseq-hydra-train, with the options of this package"),
    "predict": ("inference.predict:main", "classify a data set or lines of text"),
    "compare": ("compare.command:main", "train architectures side by side and report"),
    "report": ("compare.command:report", "report on what a comparison has so far"),
    "export": ("inference.export:main", "write a model as safetensors or as a torch program"),
    "benchmark": ("benchmark.command:main", "measure the speed of architectures side by side"),
    "analyse": ("analysis.command:main", "measure what trained models do inside"),
    "average": ("inference.average:main", "average the parameters of several checkpoints"),
    "score-wmt14": ("corpora.wmt14_score:main", "BLEU of WMT14 translations as the papers score"),
}
CORPORA = (
    *("glue", "iwslt14", "listops", "lra", "multi30k", "parallel", "ptb", "text-classification"),
    "wmt14",
)
