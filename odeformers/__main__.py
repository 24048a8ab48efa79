"""The console script ``odeformers``, which imports a command's module only once it is chosen.

Importing the package takes seconds, for fairseq and torch; so this module lies beside it. Each
command is a function of the package. Bad input and wrong options end the program here, with one
line.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from odeformers import PLUGIN, user_dir

# The module and function of each command, and what it does.
COMMANDS = {
    "list": ("list:list_names", "print the architectures, tasks and criterions"),
    "options": ("list:list_options", "print the options of an architecture"),
    "prepare": ("", "prepare a corpus for fairseq-train"),
    "hydra-train": ("list:hydra_train", "fairseq-hydra-train, with the options of this package"),
    "translate": ("translate:main", "translate lines of raw text"),
    "predict": ("predict:main", "classify a data set or lines of text"),
    "compare": ("compare.command:main", "train architectures side by side and report"),
    "report": ("compare.command:report", "report on what a comparison has so far"),
    "export": ("export:main", "write a model as safetensors or as a torch program"),
    "benchmark": ("benchmark.command:main", "measure the speed of architectures side by side"),
    "analyse": ("analyse.command:main", "measure what trained models do inside"),
    "check": ("check.command:main", "check what an architecture must do before training"),
    "average": ("average:main", "average the parameters of several checkpoints"),
    "score-wmt14": ("score_wmt14:main", "BLEU of WMT14 as the papers compute it"),
}
# By the module that a command could not import: its library, and the extra that installs it.
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


def share_cores() -> None:
    """Let threads of GNU's OpenMP sleep sooner while they wait, unless the user has set how long.

    With the default, 300,000 turns, a waiting thread keeps the core from the one that it waits for
    when a third process is busy: a training step then takes about twice as long. On a quiet machine
    both are as fast. It holds for this process, if torch is not imported yet, and for its children.
    """
    if "OMP_WAIT_POLICY" not in os.environ:  # which a number overrides
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line; without arguments, it prints the help."""
    try:
        choose(arguments)
    except KeyboardInterrupt as error:
        show_error(type(error), error)
        sys.exit(128 + signal.SIGINT)


def show_error(kind: type[BaseException], error: BaseException, trace: Any = None) -> None:
    """What Python shows of an error that ends a program (``sys.excepthook``): Ctrl-C is a line."""
    if issubclass(kind, KeyboardInterrupt):
        print("\nodeformers: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def choose(arguments: Sequence[str] | None) -> None:
    """Run the command that the first of the arguments names."""
    share_cores()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if arguments == ["--version"]:
        print(version("fairseq-odeformers"))
        return
    parser = load_parsing().Parser(
        prog="odeformers",
        description="Train and compare ODE-derived Transformers. The folder for fairseq's "
        f"--user-dir: {user_dir()}",
    )
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    command = parser.parse_known_args(arguments[:1] or ["--help"])[0].command
    if command == "prepare":
        prepare(arguments[1:])
    else:
        if not {"-h", "--help"} & {*arguments}:
            check_first(command, *arguments[1:2])
        run(f"odeformers {command}", COMMANDS[command][0], arguments[1:])


def check_first(command: str, path: str = "-") -> None:
    """Refuse a first argument that is not there at once, not after the seconds of the imports.

    Options, NAME=RUNS, and several paths between colons are left to the command.
    """
    parsing = load_parsing()
    if command in parsing.FIRST and not re.search("^-|=|:", path) and not os.path.lexists(path):
        fault = parsing.explain_missing(command, path)
        print(f"odeformers {command}: error: {fault}", file=sys.stderr)
        sys.exit(2)


def prepare(arguments: Sequence[str]) -> None:
    """The command that prepares a corpus."""
    parser = load_parsing().Parser(
        prog="odeformers prepare",
        description="Prepare a corpus or your own text for fairseq-train. --help after a corpus "
        "lists its options.",
    )
    corpora = list_corpora()
    names = parser.add_subparsers(dest="corpus", required=True, metavar="CORPUS")
    for name, text in corpora.items():
        names.add_parser(name, help=text, add_help=False)
    path = next(iter(arguments), "")
    if path not in corpora and os.path.exists(path):
        parser.error(
            f"{path}: say what it is: parallel --from {path} -s SOURCE -t TARGET for pairs of "
            f"sentences, text-classification tsv --from {path} for labelled text, or lm --from "
            f"{path} for text alone"
        )
    name = parser.parse_args(arguments[:1]).corpus
    run(f"odeformers prepare {name}", f"prepare.{name.replace('-', '_')}:main", arguments[1:])


@cache
def load_parsing() -> ModuleType:
    """The module ``parser`` of the package, by its file: importing the package takes seconds."""
    spec = spec_from_file_location("odeformers_parser", user_dir() / "parser.py")
    assert spec is not None and spec.loader is not None  # it is a file of Python
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def list_corpora() -> dict[str, str]:
    """What each corpus is, by its name: each has a file, and begins it so."""
    corpora = {}
    for path in sorted(Path(__file__).with_name("prepare").glob("[!_]*.py")):
        with open(path, encoding="utf-8") as file:
            corpora[path.stem.replace("_", "-")] = file.readline().strip('".\n')
    return corpora


def run(name: str, target: str, arguments: Sequence[str]) -> None:
    """Call a command; bad input ends the program with a message of one line.

    Args:
        target: its module, relative to the package, and function: ``predict:main``.
    """
    module, function = target.split(":")
    try:
        import_module(PLUGIN)
        getattr(import_module(f"odeformers.{module}"), function)(arguments)
        sys.stdout.flush()
        return
    except BrokenPipeError:  # the reader has enough, as in odeformers list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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


if __name__ == "__main__":
    main()
