"""The command ``odeformers report``: a report on the finished runs of a comparison."""

from collections.abc import Sequence
from pathlib import Path

from fairseq_odeformers.errors import InputError
from odeformers.compare.report.sections import write_report
from odeformers.compare.results.rows import RESULTS
from odeformers.compare.run import restore_files
from odeformers.parser import Parser, add_margin, check_exists

FORMATS = dict.fromkeys(("--csv", "--latex"), f"{RESULTS} contains all figures")  # former options


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the report of a comparison's finished runs."""
    parser = Parser(
        prog="odeformers report",
        description="Write the report of a comparison from its finished runs.",
    )
    parser.add_argument(
        "runs",
        metavar="RUNS",
        type=Path,
        help="folder of the comparison, which was --out of odeformers compare",
    )
    parser.add_argument(
        "--baseline",
        metavar="ARCH",
        help="architecture that the others are compared with (default: as in odeformers compare)",
    )
    add_margin(parser)
    args, others = parser.parse_known_args(arguments)
    for option in (word.partition("=")[0] for word in others):
        if option in FORMATS:
            raise InputError(f"{option}: {args.runs}/{FORMATS[option]}")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    check_exists(args.runs, "--out of odeformers compare")
    restore_files(args.runs)
    print(write_report(args.runs, args.baseline or "", args.margin))
