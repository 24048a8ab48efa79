"""The command ``odeformers export``: it writes a trained model to run elsewhere."""

import argparse
import ast
from pathlib import Path

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.checkpoints.weights import CONFIG, WEIGHTS
from fairseq_odeformers.errors import InputError
from odeformers.parser import Parser, add_user_dir

PROGRAM = ".pt2"
PROGRAMS = ("torch", "onnx")
FORMS = ("weights", *PROGRAMS)


def main(arguments=None) -> None:
    """Write a trained model as weights or as programs."""
    parser = Parser(
        prog="odeformers export",
        description="Export a trained model: its weights without pickle, or a folder of torch or "
        "ONNX programs that run without fairseq and this package.",
    )
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train, or exported weights")
    parser.add_argument(
        "out", type=Path, help=f"new folder, or {PROGRAM} file for a classifier or an encoder"
    )
    parser.add_argument(
        "--to",
        choices=FORMS,
        help=f"weights: {WEIGHTS} and {CONFIG} (default); torch or onnx: programs, and run.py to "
        "translate, generate, score or classify text with them",
    )
    parser.add_argument(
        "--data",
        help="folder with the dictionaries for programs (default: the data of the training run)",
    )
    parser.add_argument(
        "--model-overrides",
        type=options,
        default={},
        metavar="DICT",
        help="options to change in programs, such as \"{'ode_method': 'rk4', 'ode_steps': 8}\"",
    )
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    if args.out.exists():
        raise InputError(f"{args.out} is in the way; move it, or choose another name")
    if not args.out.absolute().parent.is_dir():
        raise InputError(f"{args.out}: there is no folder {args.out.parent}; make it first")
    if args.out.suffix == PROGRAM:
        if args.to not in (None, "torch"):
            raise InputError(f"--to {args.to}: {args.out} is a torch program; name a folder")
        from fairseq_odeformers.inference.program import load_for_program, write_program

        model, task, _ = load_for_program(args.checkpoint, args.data, args.model_overrides)
        write_program(model, task, args.out)
    elif args.to in PROGRAMS:
        from fairseq_odeformers.inference.deploy import write_deployment

        write_deployment(args.checkpoint, args.out, args.to, args.data, args.model_overrides)
    else:
        if args.data is not None or args.model_overrides:
            raise InputError(
                f"{args.out}: weights keep the options of the training run and need no data; leave "
                "--data and --model-overrides out, or give --to torch or onnx"
            )
        Checkpoint.read(args.checkpoint).export(args.out)
    print(f"wrote {args.out}")


def options(text: str) -> dict:
    """Parse the dictionary of ``--model-overrides``."""
    try:
        return dict(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(
            f"{text} is not a dictionary, such as {{'ode_method': 'rk4', 'ode_steps': 8}}"
        ) from None
