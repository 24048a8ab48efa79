"""Compare the speed of architectures side by side.

    odeformers benchmark train --models transformer_prenorm transevolve_fullff_2
    odeformers benchmark --quick

In each round, every model runs once, one after the other, so that a ratio compares runs that are
close in time. The table shows the median over the rounds, and the median (minimum-maximum) of the
ratio of the first model to each model: above 1, a model is faster or smaller. Texts are random,
with --lengths tokens.
"""

import argparse
import itertools
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import fairseq_odeformers  # noqa: F401  registers the architectures
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import markdown_table, replacing
from odeformers.parser import Parser, add_user_dir, positive_int

from . import timing
from .arguments import SIZES
from .measurements import MEASUREMENTS, Measurement
from .models import ATTENTION, MATRIX

TOLERANCE = 0.15  # the largest fall of a ratio that --check accepts
QUICK = (
    "train --models transformer_prenorm transevolve_fullff_2 macaron_transformer --batch 64 "
    "--rounds 9",
    "encoder --models transformer_prenorm transevolve_fullff_1 transevolve_randomff_1 --heads 8 "
    "--layers 6 --dropout 0.1 --batch 1 --lengths 1024 --vocabulary 1000",
    "infer --batch 2 --lengths 1024 --vocabulary 1000 --rounds 7",
    "classify --batch 2 --lengths 1024 --vocabulary 1000 --dropout 0.1",
    "generate --batch 8 --rounds 7",
)
MODELS = (
    "architectures to measure, the baseline first; put options of one model in brackets after its "
    f"name: 'transject[--encoder-experts 1]'; with [--{ATTENTION} {MATRIX}], attention stores the "
    "matrix of scores"
)
STARTS = "what to start: only fairseq, or fairseq with the plugin"
MODELS_BY_DEFAULT = ["transformer_prenorm", "transevolve_fullff_2_prenorm"]
HIDDEN_OPTIONS = ("quick", "check", "json", "models", "user_dir")  # not repeated by a table


def main(arguments: Sequence[str] | None = None) -> None:
    args = parse_args(arguments)
    logging.disable(logging.WARNING)
    if args.json and not args.json.absolute().parent.is_dir():
        raise InputError(
            f"--json {args.json}: there is no folder {args.json.parent}; make it first"
        )
    earlier = timing.read_rows(args.check) if args.quick and args.check else []
    environment = timing.describe_environment(vars(args).get("device", "cpu"))
    print(", ".join(f"{key} {value}" for key, value in environment.items()))
    settings = {"quick": QUICK} if args.quick else vars(args)
    runs = [parse_args(line.split()) for line in QUICK] if args.quick else [args]
    rows = list(itertools.chain.from_iterable(map(run, runs)))
    if args.json:
        content = {"environment": environment, "settings": settings, "rows": rows}
        with replacing(args.json) as path:
            text = json.dumps(content, indent=2, default=str) + "\n"
            path.write_text(text, encoding="utf-8")
    if earlier:
        check(rows, earlier, args.check)


def parse_args(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = Parser(
        prog="odeformers benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="run a selection of small measurements, which takes two minutes",
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="JSON",
        help="with --quick: fail if a ratio is lower than in an earlier table by more than "
        f"{TOLERANCE:.0%}%",
    )
    add_json(parser)
    parser.set_defaults(json=None)
    commands = parser.add_subparsers(dest="what", metavar="WHAT")
    for name, measurement in MEASUREMENTS.items():
        what = f"Measure {measurement.help}."
        command = commands.add_parser(name, help=measurement.help, description=what)
        add_measurement(command, measurement)
    args = parser.parse_args(arguments)
    if bool(args.what) == args.quick:
        parser.error("name WHAT to measure, or pass --quick")
    if args.check and not args.quick:
        parser.error("--check compares the figures of --quick")
    if vars(args).get("device") == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU")
    return args


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that writes the table to a file."""
    parser.add_argument(
        "--json", type=Path, default=argparse.SUPPRESS, help="also write the table to this file"
    )


def add_measurement(parser: argparse.ArgumentParser, measurement: Measurement) -> None:
    """Add the options of a measurement; the help of each option ends with its default."""
    what = STARTS if measurement.names else MODELS
    models = {"metavar": "MODEL", "nargs": "+", "choices": measurement.names}
    options: dict[str, tuple[dict[str, Any], Any, str]]
    options = {"--models": (models, MODELS_BY_DEFAULT, what)}
    options |= {option: SIZES[option] for option in measurement.sizes}
    options["--rounds"] = (
        {"metavar": "N", "type": positive_int},
        5,
        "number of measured runs of each model",
    )
    for option, (settings, usual, text) in options.items():
        default = measurement.defaults.get(option, usual)
        shown = " ".join(map(str, default)) if isinstance(default, list) else default
        what = f"{text} (default: {shown})"
        parser.add_argument(option, **settings, default=default, help=what)
    parser.set_defaults(threads=torch.get_num_threads())
    parser.add_argument(
        "--threads",
        metavar="N",
        type=positive_int,
        default=argparse.SUPPRESS,  # so that the help does not depend on the machine
        help="number of threads that torch uses on a CPU (default: torch's choice)",
    )
    add_json(parser)
    add_user_dir(parser)


def run(args: argparse.Namespace) -> list[timing.Row]:
    """Print a table of one measurement, and return its rows."""
    torch.set_num_threads(args.threads)
    measurement = MEASUREMENTS[args.what]
    values = vars(args)
    shown = (f"{name}={value}" for name, value in values.items() if name not in HIDDEN_OPTIONS)
    print(*shown, end="\n\n", flush=True)
    rows, printed = [], 0
    for layers, length in itertools.product(values.get("layers", [0]), values.get("lengths", [0])):
        sizes = argparse.Namespace(**{**values, "layers": layers})
        timed = measurement.unit == "ms" and "batch" in args
        tokens = args.batch * length if timed else 0
        columns = {"what": args.what, "length": length, "layers": layers, "unit": measurement.unit}
        rows += timing.compare(*measurement.measure(sizes, length), tokens, **columns)
        lines = markdown_table(timing.format_table(rows)).splitlines()
        print(*lines[printed:], sep="\n", flush=True)
        printed = len(lines)
    return rows


def check(rows: list[timing.Row], earlier: list[timing.Row], path: Path) -> None:
    """Check that no ratio has fallen much below the ratio in the table that was in *path*."""
    before, now = (
        {(row["what"], row["length"], row["layers"], row["model"]): row["ratio"] for row in table}
        for table in (earlier, rows)
    )
    if before.keys() != now.keys():
        raise InputError(
            f"--check {path}: its rows differ from this run's; rewrite it with "
            f"--quick --json {path}"
        )
    slower = [
        f"{' '.join(map(str, key))}: {ratio:.2f} where {path} has {before[key]:.2f}"
        for key, ratio in now.items()
        if ratio < before[key] * (1 - TOLERANCE)
    ]
    if slower:
        raise ValueError("slower than before:\n" + "\n".join(slower))
    print(f"\nno ratio is more than {TOLERANCE:.0%} below the one in {path}")
