"""What command lines of several parts have in common."""

from argparse import ArgumentParser


def positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError
    return value


def add_user_dir(parser: ArgumentParser) -> None:
    """Add the option whose folders :func:`~fairseq_odeformers.loading.import_plugins` imports."""
    parser.add_argument(
        "--user-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="folder of a plugin of one's own that has the model or task; may be given again",
    )
