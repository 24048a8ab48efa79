"""The command ``odeformers export``."""

import argparse
import ast
from pathlib import Path

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.checkpoints.weights import CONFIG, WEIGHTS
from odeformers.arguments import add_user_dir
from odeformers.parser import Parser

PROGRAM = ".pt2"


def main(arguments=None) -> None:
    """The command line."""
    parser = Parser(
        prog="odeformers export",
        description=f"Export a trained model: to a folder, as {WEIGHTS} and {CONFIG}; or a "
        f"classifier or encoder to a {PROGRAM} file that torch runs without fairseq.",
    )
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train, or an exported folder")
    parser.add_argument("out", type=Path, help=f"new folder or {PROGRAM} file")
    parser.add_argument(
        "--data", help=f"folder with the dictionaries, for {PROGRAM} (default: the training's)"
    )
    parser.add_argument(
        "--model-overrides",
        type=options,
        default={},
        metavar="DICT",
        help=f"options to change, for {PROGRAM}, such as "
        "\"{'ode_method': 'rk4', 'ode_steps': 8}\"",
    )
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    if args.out.exists():
        raise ValueError(f"{args.out} is in the way; move it, or choose another name")
    if args.out.suffix == PROGRAM:
        from fairseq_odeformers.inference.program import load_for_program, write_program

        if not args.out.parent.is_dir():
            raise ValueError(f"{args.out}: there is no folder {args.out.parent}")
        model, task, _ = load_for_program(args.checkpoint, args.data, args.model_overrides)
        write_program(model, task, args.out)
    else:
        if args.data is not None or args.model_overrides:
            raise ValueError(
                f"{args.out}: a folder keeps the training's options and needs no data; leave "
                f"--data and --model-overrides out, or give a {PROGRAM} file"
            )
        Checkpoint.read(args.checkpoint).export(args.out)
    print(f"wrote {args.out}")


def options(text: str) -> dict:
    """The dictionary of ``--model-overrides``."""
    try:
        return dict(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError):
        raise argparse.ArgumentTypeError(
            f"{text} is not a dictionary, such as {{'ode_method': 'rk4', 'ode_steps': 8}}"
        ) from None
