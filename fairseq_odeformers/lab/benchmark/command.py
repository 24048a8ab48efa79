"""Speed of architectures side by side.

    odeformers benchmark train --models transformer_prenorm transevolve_fullff_2
    odeformers benchmark --quick
    odeformers benchmark growth OUT.png TABLE.json ...

In each round every model runs once, in turn, so that a ratio compares neighbours in time. The table
has medians over the rounds, and median (minimum-maximum) over the rounds of the ratio to the first
model: above 1 is faster than it, or smaller. Sequences are random, and all of the given length;
those of ode are all binary strings up to it.
"""

import argparse
import itertools
import json
import logging
from pathlib import Path

import torch

import fairseq_odeformers  # noqa: F401  registers the architectures
from fairseq_odeformers.files import markdown_table, replacing
from fairseq_odeformers.options import add_user_dir, positive_int

from . import timing
from .measurements import MEASUREMENTS

TOLERANCE = 0.15  # of a ratio of --check
QUICK = (
    "train --models transformer_prenorm transevolve_fullff_2 macaron_transformer --batch 64 "
    "--rounds 9",
    "encoder --models transformer_prenorm transevolve_fullff_1 transevolve_randomff_1 --heads 8 "
    "--layers 6 --dropout 0.1 --batch 1 --lengths 1024 --vocabulary 1000",
    "infer --batch 2 --lengths 1024 --vocabulary 1000 --rounds 7",
    "classify --batch 2 --lengths 1024 --vocabulary 1000 --dropout 0.1",
    "generate --batch 8 --rounds 7",
    "ode --models torchdiffeq node_transformer --rounds 15",
)
MODELS = (
    "architectures, the first of which is compared with; :direct, :factored or :fused after a "
    "TransEvolve is a form of its attention, :N after a TransJect a number of experts, :matrix "
    "after any model attention by a matrix of scores"
)
OPTIONS = {
    "embed_dim": {"type": positive_int, "default": 256},
    "ffn_embed_dim": {"type": positive_int, "default": 1024},
    "heads": {"type": positive_int, "default": 4},
    "layers": {
        "type": positive_int,
        "nargs": "+",
        "default": [4],
        "help": "layers, or depths of all blocks",
    },
    "dropout": {"type": float, "default": 0.3},
    "attention_dropout": {"type": float, "default": 0.0},
    "vocabulary": {"type": positive_int, "default": 8000},
    "batch": {"type": positive_int, "default": 256},
    "lengths": {"type": positive_int, "nargs": "+", "default": [16]},
    "beam": {"type": positive_int, "default": 5},
    "precision": {"choices": ("float32", "bf16", "fp16"), "default": "float32"},
    "device": {"choices": ("cpu", "cuda"), "default": "cpu"},
}


def main(arguments: list[str] | None = None) -> None:
    """The command line."""
    args = parse_args(arguments)
    logging.disable(logging.WARNING)
    if args.what == "growth":
        from fairseq_odeformers.lab.plots import save

        from . import growth

        save(growth.draw, [timing.read_rows(path) for path in args.tables], args.out)
        return
    if args.json and not args.json.absolute().parent.is_dir():
        raise ValueError(f"--json {args.json}: there is no folder {args.json.parent}")
    earlier = timing.read_rows(args.check) if args.quick and args.check else []
    environment = timing.environment(vars(args).get("device", "cpu"))
    print(", ".join(f"{key} {value}" for key, value in environment.items()))
    settings = {"quick": QUICK} if args.quick else vars(args)
    runs = [parse_args(line.split()) for line in QUICK] if args.quick else [args]
    rows = list(itertools.chain.from_iterable(map(run, runs)))
    if args.json:
        content = {"environment": environment, "settings": settings, "rows": rows}
        with replacing(args.json) as new:
            new.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
    if earlier:
        check(rows, earlier, args.check)


def parse_args(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="odeformers benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--quick", action="store_true", help="a choice of small measurements, in two minutes"
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="JSON",
        help="with --quick: end in an error where a ratio is below that of an earlier table by "
        f"more than {TOLERANCE:.0%}%",
    )
    parser.add_argument("--json", type=Path, help="also write the table to a file")
    commands = parser.add_subparsers(dest="what", metavar="WHAT")
    formatter = argparse.ArgumentDefaultsHelpFormatter
    for name, measurement in MEASUREMENTS.items():
        command = commands.add_parser(name, help=measurement.help, formatter_class=formatter)
        models = ["transformer_prenorm", "transevolve_fullff_2_prenorm"]
        command.add_argument(
            "--models",
            metavar="MODEL",
            nargs="+",
            choices=measurement.names,
            default=models,
            help=", ".join(measurement.names or [MODELS]),
        )
        for option in measurement.options:
            command.add_argument(f"--{option.replace('_', '-')}", **OPTIONS[option])
        command.add_argument("--threads", type=positive_int, default=torch.get_num_threads())
        command.add_argument("--rounds", type=positive_int, default=5)
        command.add_argument("--json", type=Path, help="also write the table to a file")
        add_user_dir(command)
        command.set_defaults(**measurement.defaults)
    growth = commands.add_parser("growth", help="a figure of tables that --json wrote")
    growth.add_argument("out", type=Path)
    growth.add_argument("tables", type=Path, nargs="+")
    args = parser.parse_args(arguments)
    if bool(args.what) == args.quick:
        parser.error("give either WHAT to measure or --quick")
    if args.check and not args.quick:
        parser.error("--check compares the figures of --quick")
    if vars(args).get("device") == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU")
    return args


def run(args: argparse.Namespace) -> list[timing.Row]:
    """Print a table of one measurement, and return its rows."""
    torch.set_num_threads(args.threads)
    measurement = MEASUREMENTS[args.what]
    options = ("what", *measurement.options, "threads", "rounds")
    print(*(f"{option}={getattr(args, option)}" for option in options), end="\n\n", flush=True)
    rows, printed = [], 0
    given = vars(args)
    for layers, length in itertools.product(given.get("layers", [0]), given.get("lengths", [0])):
        one = argparse.Namespace(**{**given, "layers": layers})
        timed = measurement.unit == "ms" and "batch" in args
        tokens = args.batch * length if timed else 0
        columns = {"what": args.what, "length": length, "layers": layers, "unit": measurement.unit}
        rows += timing.compare(*measurement.figures(one, length), tokens, **columns)
        lines = markdown_table(timing.table(rows)).splitlines()
        print(*lines[printed:], sep="\n", flush=True)
        printed = len(lines)
    return rows


def check(rows: list[timing.Row], earlier: list[timing.Row], path: Path) -> None:
    """Compare ratios with the ratios of an earlier table, which *path* had."""
    before, now = (
        {(row["what"], row["length"], row["layers"], row["model"]): row["ratio"] for row in table}
        for table in (earlier, rows)
    )
    if before.keys() != now.keys():
        raise ValueError(f"{path} has other rows: write it anew with --quick --json {path}")
    slower = [
        f"{' '.join(map(str, key))}: {ratio:.2f} where {path} has {before[key]:.2f}"
        for key, ratio in now.items()
        if ratio < before[key] * (1 - TOLERANCE)
    ]
    if slower:
        raise ValueError("slower than before:\n" + "\n".join(slower))
    print(f"\nno ratio is below that of {path} by more than {TOLERANCE:.0%}")
