"""The options of ``odeformers benchmark`` for sizes of models and batches."""

from argparse import ArgumentParser

from fairseq_odeformers.options import positive_int


def add_stack_sizes(parser: ArgumentParser) -> None:
    """Add the width, the depth and the device of a stack of layers."""
    parser.add_argument(
        "--embed-dim", metavar="N", type=positive_int, default=256, help="width of the states"
    )
    parser.add_argument(
        "--layers",
        metavar="N",
        type=positive_int,
        nargs="+",
        default=[4],
        help="numbers of layers; a block counts as many layers as its depth",
    )
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="where the models run"
    )


def add_ode_sizes(parser: ArgumentParser) -> None:
    """Add the sizes of a model of binary strings, and the lengths of these."""
    add_stack_sizes(parser)
    parser.add_argument(
        "--lengths",
        metavar="N",
        type=positive_int,
        nargs="+",
        default=[16],
        help="lengths of the sequences in tokens, measured one after the other",
    )


def add_sizes(parser: ArgumentParser) -> None:
    """Add all sizes of a model and of its batches."""
    add_ode_sizes(parser)
    parser.add_argument(
        "--ffn-embed-dim",
        metavar="N",
        type=positive_int,
        default=1024,
        help="inner width of a Transformer's FFN",
    )
    parser.add_argument(
        "--heads", metavar="N", type=positive_int, default=4, help="attention heads per layer"
    )
    parser.add_argument(
        "--dropout", metavar="P", type=float, default=0.3, help="dropout probability"
    )
    parser.add_argument(
        "--attention-dropout",
        metavar="P",
        type=float,
        default=0.0,
        help="dropout probability of attention weights",
    )
    parser.add_argument(
        "--vocabulary", metavar="N", type=positive_int, default=8000, help="words of the dictionary"
    )
    parser.add_argument(
        "--batch", metavar="N", type=positive_int, default=256, help="sequences per batch"
    )
    parser.add_argument(
        "--beam", metavar="N", type=positive_int, default=5, help="beam size of the generator"
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "bf16", "fp16"),
        default="float32",
        help="number format of parameters and states",
    )
