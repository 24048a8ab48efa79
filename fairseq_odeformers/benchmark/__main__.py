"""Speed of architectures side by side.

    python -m fairseq_odeformers.benchmark train --models transformer_prenorm transevolve_fullff_2

In each round every model runs once, in turn, so that a ratio compares neighbours in time. Printed
are medians over the rounds, and median (minimum-maximum) over the rounds of the ratio to the first
model: above 1 is faster than it. Sequences are random, and all of the given length; those of ode
are all binary strings up to it.
"""

import argparse
import logging
import sys
from functools import partial
from pathlib import Path

import torch

import fairseq_odeformers  # noqa: F401  registers the architectures

from . import encoder, generate, infer, ode, orthogonal, subjects, timing, train

MEASUREMENTS = {
    "train": (train, "a training step, by fairseq's trainer"),
    "generate": (generate, "beam search, by fairseq's generator"),
    "encoder": (encoder, "a training step of the encoder alone"),
    "infer": (infer, "the encoder without gradients"),
    "ode": (ode, "a training step of the N-ODE Transformer on parity, and other ways to solve"),
    "orthogonal": (orthogonal, "TransJect's orthogonal matrices and their gradients"),
}
# Where they are not those of --help.
DEFAULTS = {
    "infer": {"models": ["transformer_classifier", "transject"]},
    "ode": {"models": ode.MODELS, "embed_dim": 8, "layers": 2, "lengths": [6], "rounds": 15},
    "orthogonal": {"models": orthogonal.MAPS[:2]},
}


def parse_args(argv=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_odeformers.benchmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = ", ".join(f"{name} ({text})" for name, (_, text) in MEASUREMENTS.items())
    parser.add_argument("what", choices=MEASUREMENTS, metavar="WHAT", help=what)
    parser.add_argument(
        "--models",
        nargs="+",
        default=["transformer_prenorm", "transevolve_fullff_2_prenorm"],
        help="architectures, the first of which is compared with; :direct, :factored, :fused or "
        ":naive after a TransEvolve is a form of its attention, :N after a TransJect a number of "
        "experts, :matrix after any model attention by a matrix of scores",
    )
    parser.add_argument("--embed-dim", type=int, default=256)
    parser.add_argument("--ffn-embed-dim", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=4, help="layers, or depths of all blocks")
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--attention-dropout", type=float, default=0.0)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--lengths", type=int, nargs="+", default=[16])
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--precision", choices=("float32", "bf16", "fp16"), default="float32")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="also write the table to a file")
    parser.set_defaults(**DEFAULTS.get(parser.parse_args(argv).what, {}))
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch finds no GPU")
    return args


def steps(args: argparse.Namespace, length: int) -> tuple[dict, dict]:
    """The step and the number of parameters of each model."""
    measurement, _ = MEASUREMENTS[args.what]
    build = getattr(measurement, "build", subjects.build)
    found, sizes = {}, {}
    for name in args.models:
        subject = build(name, args)
        found[name] = measurement.step(subject, args, length)
        sizes[name] = sum(parameter.numel() for parameter in subject.model.parameters())
    return found, sizes


def main(argv=None) -> None:
    args = parse_args(argv)
    torch.set_num_threads(args.threads)
    show = partial(print, flush=True)
    show(" ".join(f"{key}={value}" for key, value in vars(args).items() if key != "models"))
    show(", ".join(f"{key} {value}" for key, value in timing.environment(args.device).items()))
    show("\n" + timing.header(args.models[0]))
    rows = []
    try:
        for length in args.lengths:
            todo, sizes = steps(args, length)
            rows += timing.compare(timing.measure(todo, args.rounds, args.device), sizes, length)
            show(*rows[-len(args.models) :], sep="\n")
    except ValueError as error:
        sys.exit(f"benchmark: {error}")
    if args.json:
        timing.write_json(args.json, vars(args), args.device, rows)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
