"""The command ``odeformers report``."""

from collections.abc import Sequence
from pathlib import Path

from odeformers.arguments import add_margin, output_folder
from odeformers.compare.report import write_report
from odeformers.compare.results import RESULTS
from odeformers.compare.scoreboard import write_scoreboard
from odeformers.parser import Parser, check_exists

FORMATS = dict.fromkeys(("--csv", "--latex"), f"{RESULTS} has all figures")  # former options


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers report``."""
    parser = Parser(
        prog="odeformers report",
        description="Write the report of a comparison from its finished runs; or, with --out, a "
        "scoreboard of several comparisons.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUNS",
        help=f"--out of odeformers compare; for a scoreboard, NAME=RUNS or a {RESULTS} of several",
    )
    parser.add_argument(
        "--out",
        type=output_folder,
        metavar="DIR",
        help="write a scoreboard of all RUNS: page, CSV, picture",
    )
    parser.add_argument(
        "--baseline", metavar="ARCH", help="architecture to compare with (default: as in compare)"
    )
    add_margin(parser)
    args, others = parser.parse_known_args(arguments)
    for option in (word.partition("=")[0] for word in others):
        if option in FORMATS:
            raise ValueError(f"{option}: {args.runs[0]}/{FORMATS[option]}")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if args.out:
        print(write_scoreboard(args.runs, args.out, args.margin))
        return
    out = Path(args.runs[0])
    if len(args.runs) > 1 or "=" in args.runs[0] and not out.exists():
        raise ValueError(f"{' '.join(args.runs)}: for a scoreboard, give --out DIR as well")
    check_exists(out, "--out of odeformers compare")
    print(write_report(out, args.baseline or "", args.margin))
