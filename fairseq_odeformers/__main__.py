"""What the plugin has, for a command line.

``python -m fairseq_odeformers`` prints the folder to give to ``--user-dir`` and, on a terminal,
the architectures, tasks and criterions; ``list`` prints these anywhere, and ``options ARCH`` the
options of an architecture, with its defaults.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fairseq_odeformers.registry import option_rows, registered


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m fairseq_odeformers",
        description="Print the folder to give to --user-dir, and what the plugin registers.",
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("list", help="architectures, tasks and criterions")
    options = commands.add_parser("options", help="the options of an architecture")
    options.add_argument("arch", help="name, as given to --arch")
    args = parser.parse_args()
    if args.command is None:
        print(Path(__file__).absolute().parent)
    if args.command == "list" or (args.command is None and sys.stdout.isatty()):
        for kind, names in registered().items():
            print(f"\n{kind}:\n" + "\n".join(f"  {name}" for name in names))
    if args.command == "options":
        try:
            rows = option_rows(args.arch)
        except ValueError as error:
            sys.exit(f"{parser.prog}: error: {error}")
        widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
        for name, default, text in rows:
            print(f"{name:{widths[0]}}  {default:{widths[1]}}  {text}".rstrip())


if __name__ == "__main__":
    main()
