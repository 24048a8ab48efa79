"""The command line of ``odeformers``.

The module of a command is imported only when the command is chosen: importing fairseq and torch
takes seconds, and the help does not need them. Bad input and wrong options end the program here,
with a message of one line.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from odeformers import PLUGIN, user_dir
from odeformers.parser import Parser
from odeformers.prepare import CORPORA

# The module of each command in this package, and its description.
COMMANDS = {
    "list": ("list", "print the architectures, tasks and criterions"),
    "options": ("options", "print the options of an architecture"),
    "prepare": ("prepare", "prepare a corpus for fairseq-train"),
    "hydra-train": ("hydra_train", "run fairseq-hydra-train with the options of this package"),
    "translate": ("translate", "translate lines of raw text"),
    "predict": ("predict", "classify a split of a data set, or lines of text"),
    "compare": ("compare.command", "train architectures on the same data and write a report"),
    "report": ("report", "write the report of a comparison from its finished runs"),
    "export": ("export", "export a trained model as safetensors, torch or ONNX"),
    "benchmark": ("benchmark.command", "measure the speed of architectures side by side"),
    "analyse": ("analyse.command", "measure the internals of trained models"),
    "check": ("check.command", "test the code of an architecture before training"),
    "average": ("average", "average the parameters of several checkpoints"),
    "score-wmt14": ("score_wmt14", "compute BLEU on WMT14 as the papers do"),
}
# Optional modules, with the library of each and the extra that installs it.
EXTRAS = {
    "PIL": ("pillow", "corpora"),
    "matplotlib": ("matplotlib", "plots"),
    "onnxruntime": ("onnxruntime", "export"),
    "onnxscript": ("onnxscript", "export"),
    "rich": ("rich", "compare"),
    "sacremoses": ("sacremoses", "corpora"),
    "safetensors": ("safetensors", "export"),
    "sklearn": ("scikit-learn", "analysis"),
    "submitit": ("submitit", "compare"),
    "subword_nmt": ("subword-nmt", "corpora"),
    "tokenizers": ("tokenizers", "corpora"),
}


def share_cores() -> None:
    """Let waiting threads of GNU's OpenMP sleep sooner, unless the user has chosen how they wait.

    By default, a waiting thread spins 300,000 times. If other processes are busy, it occupies a
    core that another training thread needs, and an update takes about twice as long.
    On a quiet machine, both settings are equally fast. The setting applies to the children of this
    process, and to this process if it has not yet imported torch.
    """
    if "OMP_WAIT_POLICY" not in os.environ:  # the number of spins would override the policy
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")


def set_encodings() -> None:
    """Escape characters that the standard streams cannot print, for example in ASCII.

    Child processes print in UTF-8, since the output of training and evaluation is read as UTF-8.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    os.environ["PYTHONIOENCODING"] = "utf-8"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command named by the first argument; without arguments, print the help."""
    share_cores()
    set_encodings()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        run(*choose(arguments))
    except PackageNotFoundError as error:
        remedy = "in its folder, run make setup or pip install -e ."
        print(f"odeformers: error: {error.name} is not installed; {remedy}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nodeformers: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)


def choose(arguments: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return the command named by the first arguments, its module, and the other arguments."""
    parser = Parser(
        prog="odeformers",
        description="Train and compare Transformers derived from ODE solvers. The folder for "
        f"fairseq's --user-dir is {user_dir()}",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=version("fairseq-odeformers"),
        help="print the version",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, text) in COMMANDS.items():
        commands.add_parser(name, help=text, add_help=False)
    command = parser.parse_known_args(arguments[:1] or ["--help"])[0].command
    if command == "prepare":
        corpus = choose_corpus(arguments[1:])
        module = f"prepare.{corpus.replace('-', '_')}"
        return f"odeformers prepare {corpus}", module, arguments[2:]
    words = arguments[:2] if command == "analyse" else [command]  # analyse has subcommands
    return " ".join(["odeformers", *words]), COMMANDS[command][0], arguments[1:]


def choose_corpus(arguments: Sequence[str]) -> str:
    """Return the corpus named by the first argument of ``odeformers prepare``."""
    parser = Parser(
        prog="odeformers prepare",
        description="Prepare a corpus or your own text for fairseq-train. --help after a corpus "
        "lists its options.",
    )
    names = parser.add_subparsers(dest="corpus", required=True, metavar="CORPUS")
    for name, text in CORPORA.items():
        names.add_parser(name, help=text, add_help=False)
    path = next(iter(arguments), "")
    if path not in CORPORA and os.path.exists(path):
        parser.error(
            f"{path}: name the kind of data: parallel --from {path} -s SOURCE -t TARGET for "
            f"sentence pairs, text-classification tsv --from {path} for labelled text, or lm "
            f"--from {path} for plain text"
        )
    return parser.parse_args(arguments[:1]).corpus


def run(name: str, module: str, arguments: Sequence[str]) -> None:
    """Call a command; bad input ends the program with a message of one line.

    With ``ODEFORMERS_DEBUG=1`` in the environment, it ends with a traceback.

    Args:
        name: the command as typed.
        module: module with the command as its function ``main``.
    """
    try:
        import_module(PLUGIN)
        import_module(f"odeformers.{module}").main(arguments)
        sys.stdout.flush()
        return
    except BrokenPipeError:  # the reader has ended, as in odeformers list | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    except ModuleNotFoundError as error:
        library, extra = EXTRAS.get((error.name or "").split(".")[0], (None, None))
        if library is None:
            raise
        reason = f"{library} is missing; pip install it, or this package with its extra [{extra}]"
    except (ValueError, OSError) as error:
        if os.environ.get("ODEFORMERS_DEBUG") == "1":
            raise
        reason = error
    except MemoryError:
        reason = "there is not enough memory; use smaller sizes or batches"
    print(f"{name}: error: {reason}", file=sys.stderr)
    sys.exit(2)  # argparse's status for a wrong option


if __name__ == "__main__":
    main()
