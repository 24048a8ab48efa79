"""The command ``odeformers export``."""

import argparse
import ast
from pathlib import Path

from fairseq_odeformers.checkpoints import check, read
from fairseq_odeformers.checkpoints.weights import CONFIG, WEIGHTS, write_export
from fairseq_odeformers.options import add_user_dir

PROGRAM = ".pt2"


def main(arguments=None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="odeformers export",
        description=f"Write a trained model: to a folder, its weights as {WEIGHTS} and its "
        f"configuration as {CONFIG}; or to a file {PROGRAM}, a classifier or an encoder as a "
        "program that torch runs without fairseq.",
    )
    parser.add_argument("checkpoint", help="file that fairseq-train has saved, or an export")
    parser.add_argument("out", type=Path, help=f"new folder, or file that ends with {PROGRAM}")
    parser.add_argument(
        "--data", help=f"for a {PROGRAM}: folder with the dictionaries (default: of the training)"
    )
    parser.add_argument(
        "--model-overrides",
        type=options,
        default={},
        metavar="DICT",
        help=f"for a {PROGRAM}: options to change, such as "
        "\"{'ode_method': 'rk4', 'ode_steps': 8}\"",
    )
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    if args.out.suffix == PROGRAM:
        from .program import load_for_program, write_program

        if not args.out.parent.is_dir():
            raise ValueError(f"{args.out}: there is no folder {args.out.parent}")
        model, task, _ = load_for_program(args.checkpoint, args.data, args.model_overrides)
        write_program(model, task, args.out)
    else:
        if args.out.exists():
            raise ValueError(f"{args.out} is in the way; move it, or choose another folder")
        state = read(args.checkpoint)
        check(args.checkpoint, state)
        write_export(state, args.out)
    print(f"wrote {args.out}")


def options(text: str) -> dict:
    """The dictionary of ``--model-overrides``."""
    try:
        return dict(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(
            f"{text} is not a dictionary, such as {{'ode_method': 'rk4', 'ode_steps': 8}}"
        ) from None
