"""Speed of architectures side by side.

    odeformers benchmark train --models transformer_prenorm transevolve_fullff_2
    odeformers benchmark --quick

In each round every model runs once, in turn, so that a ratio compares neighbours in time. Printed
are medians over the rounds, and median (minimum-maximum) over the rounds of the ratio to the first
model: above 1 is faster than it, or smaller. Sequences are random, and all of the given length;
those of ode are all binary strings up to it.
"""

import argparse
import itertools
import logging
from functools import partial
from pathlib import Path

import torch

import fairseq_odeformers  # noqa: F401  registers the architectures
from fairseq_odeformers.inference.loading import import_plugins
from fairseq_odeformers.options import add_user_dir, positive_int

from . import (
    encoder,
    generate,
    infer,
    memory,
    ode,
    orthogonal,
    quick,
    startup,
    state,
    subjects,
    timing,
    train,
)

MEASUREMENTS = {
    "train": (train, "a training step, by fairseq's trainer"),
    "generate": (generate, "beam search, by fairseq's generator"),
    "encoder": (encoder, "a training step of the encoder alone"),
    "classify": (train, "a training step of a classifier"),
    "infer": (infer, "the encoder without gradients"),
    "memory": (memory, "peak memory of a training step of the encoder alone"),
    "state": (state, "memory that generation keeps of a sequence"),
    "startup": (startup, "fairseq-train --help, without and with this package"),
    "ode": (ode, "a training step of the N-ODE Transformer on parity, and other ways to solve"),
    "orthogonal": (orthogonal, "TransJect's orthogonal matrices and their gradients"),
}
# Where they are not those of --help.
DEFAULTS = {
    "classify": {"models": ["transformer_classifier_prenorm", "transject"], "batch": 8},
    "infer": {"models": ["transformer_classifier", "transject"]},
    "startup": {"models": [*startup.COMMANDS]},
    "ode": {"models": ode.MODELS, "embed_dim": 8, "layers": [2], "lengths": [6], "rounds": 15},
    "orthogonal": {"models": orthogonal.MAPS[:2]},
}

UNPRINTED = ("models", "quick", "check", "json", "user_dir")
WITH_QUICK = {"quick", "check", "json"}
OF_ALL = {*WITH_QUICK, "what", "models", "threads", "rounds", "user_dir"}


def parse_args(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="odeformers benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = ", ".join(f"{name} ({text})" for name, (_, text) in MEASUREMENTS.items())
    parser.add_argument("what", choices=MEASUREMENTS, nargs="?", metavar="WHAT", help=what)
    parser.add_argument(
        "--quick", action="store_true", help="a choice of small measurements, in two minutes"
    )
    parser.add_argument(
        "--check",
        type=Path,
        metavar="JSON",
        help="with --quick: end in an error where a ratio is below that of an earlier table by "
        f"more than {quick.TOLERANCE:.0%}%",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=["transformer_prenorm", "transevolve_fullff_2_prenorm"],
        help="architectures, the first of which is compared with; :direct, :factored, :fused or "
        ":naive after a TransEvolve is a form of its attention, :N after a TransJect a number of "
        "experts, :matrix after any model attention by a matrix of scores",
    )
    parser.add_argument("--embed-dim", type=positive_int, default=256)
    parser.add_argument("--ffn-embed-dim", type=positive_int, default=1024)
    parser.add_argument("--heads", type=positive_int, default=4)
    parser.add_argument(
        "--layers",
        type=positive_int,
        nargs="+",
        default=[4],
        help="layers, or depths of all blocks",
    )
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--vocabulary", type=positive_int, default=8000)
    parser.add_argument("--batch", type=positive_int, default=256)
    parser.add_argument("--lengths", type=positive_int, nargs="+", default=[16])
    parser.add_argument("--beam", type=positive_int, default=5)
    parser.add_argument("--precision", choices=("float32", "bf16", "fp16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=positive_int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=positive_int, default=5)
    parser.add_argument("--json", type=Path, help="also write the table to a file")
    add_user_dir(parser)
    parser.set_defaults(**DEFAULTS.get(parser.parse_args(argv).what, {}))
    args = parser.parse_args(argv)
    if (args.what is None) != args.quick:
        parser.error("give either WHAT to measure or --quick")
    if args.check and not args.quick:
        parser.error("--check compares the figures of --quick")
    if args.json and not args.json.absolute().parent.is_dir():
        parser.error(f"--json {args.json}: there is no folder {args.json.parent}")
    if args.json and args.json.is_dir():
        parser.error(f"--json {args.json}: it is a folder; give a file")
    unset = argparse.Namespace(**dict.fromkeys(vars(args)))  # in the place of the defaults
    for name, value in vars(parser.parse_args(argv, unset)).items():
        if value is None:
            continue
        option = f"--{name.replace('_', '-')}"
        if args.quick and name not in WITH_QUICK:
            parser.error(f"{option}: --quick has settings of its own; give {option} with WHAT")
        if args.what and not takes(args.what, name):
            parser.error(f"{option}: it is no setting of {args.what}; leave the option out")
    if args.what and takes(args.what, "heads") and args.embed_dim % args.heads:
        parser.error(f"--heads {args.heads}: give a divisor of --embed-dim {args.embed_dim}")
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU")
    return args


def takes(what: str, name: str) -> bool:
    """Whether an option is a setting of a measurement; those of models and data are not of all."""
    settings = getattr(MEASUREMENTS[what][0], "SETTINGS", None)
    return settings is None or name in settings or name in OF_ALL


def figures(args: argparse.Namespace, length: int) -> tuple[dict, dict]:
    """The figures of each model, one a round, and its number of parameters."""
    measurement, _ = MEASUREMENTS[args.what]
    if hasattr(measurement, "figures"):
        return measurement.figures(args, length)
    build = getattr(measurement, "build", subjects.build)
    steps, sizes = {}, {}
    for name in args.models:
        subject = build(name, args)
        steps[name] = measurement.step(subject, args, length)
        sizes[name] = sum(parameter.numel() for parameter in subject.model.parameters())
    if hasattr(measurement, "check"):
        measurement.check(args.models)
    return timing.measure(steps, args.rounds, args.device), sizes


def run(args: argparse.Namespace) -> list[timing.Row]:
    """Print a table of one measurement, and return its rows.

    Raises:
        ValueError: a model or a size cannot be measured.
    """
    torch.set_num_threads(args.threads)
    show = partial(print, flush=True)
    measurement, _ = MEASUREMENTS[args.what]
    unit = getattr(measurement, "UNIT", "ms")
    used = {key: value for key, value in vars(args).items() if takes(args.what, key)}
    show(" ".join(f"{key}={value}" for key, value in used.items() if key not in UNPRINTED))
    show("\n" + timing.header(args.models[0], unit))
    rows = []
    for layers, length in itertools.product(args.layers, args.lengths):
        one = argparse.Namespace(**{**vars(args), "layers": layers})
        columns = {"what": args.what, "length": length, "layers": layers, "unit": unit}
        tokens = args.batch * length if unit == "ms" and not hasattr(measurement, "build") else 0
        rows += timing.compare(*figures(one, length), tokens, **columns)
        show(*rows[-len(args.models) :], sep="\n")
    return rows


def main(argv=None) -> None:
    args = parse_args(argv)
    logging.disable(logging.WARNING)
    print(", ".join(f"{key} {value}" for key, value in timing.environment(args.device).items()))
    rows = []
    import_plugins(args.user_dir)
    earlier = timing.read_rows(args.check) if args.check else []
    for line in quick.LINES if args.quick else [argv]:
        rows += run(parse_args(line.split()) if args.quick else args)
    if args.json:
        settings = {"quick": quick.LINES} if args.quick else vars(args)
        timing.write_json(args.json, settings, args.device, rows)
    if args.check:
        quick.check(rows, earlier, args.check)
