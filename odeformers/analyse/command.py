"""Measure the internal states of trained models side by side; write tables, figures and a page."""

import argparse
import logging
import os
import shlex
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import torch

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.inference.texts import read_texts
from odeformers.compare.results.rows import RESULTS, read_comparison
from odeformers.parser import Parser, add_user_dir, positive_int

from . import attention, depth, sentence, spectra, states
from .maps import NotApplicable
from .result import PAGE, Tables, check_free, file_name, write


def main(arguments: Sequence[str]) -> None:
    """Run the command; nothing is written if an argument, a checkpoint or the data do not fit."""
    args = parse_args(arguments)
    # Importing fairseq has set the level to DEBUG.
    logging.basicConfig(format="%(levelname)s | %(message)s", level=logging.WARNING, force=True)
    command = shlex.join(["odeformers", "analyse", *arguments])
    check_free(args.out, command)
    args.checkpoints = order_runs(leave_out_rejected(args.checkpoints))
    args.device = "cuda" if torch.cuda.is_available() and not args.cpu else "cpu"
    analysis = {"states": states, "spectra": spectra, "attention": attention, "depth": depth}[
        args.what
    ]
    if args.what == "attention" and args.text:
        analysis = sentence
    tables: Tables = defaultdict(list)
    skipped = []
    for name, path in zip(model_names(args.checkpoints), args.checkpoints):
        try:
            measured = analysis.analyse(path, args)
        except NotApplicable as error:
            skipped.append(error)
            continue
        for table, rows in measured.items():
            tables[table] += [{"model": name, **row} for row in rows]
    if not tables:
        raise skipped[0]
    for error in skipped:
        logging.warning(f"skipped {error}")
    text, plots = analysis.page(tables, args)
    write(args.out, text, tables, plots, command)
    print(f"wrote {args.out / PAGE}")


def parse_args(arguments: Sequence[str]) -> argparse.Namespace:
    parser = Parser(prog="odeformers analyse", description=__doc__)
    commands = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    analyses = (
        ("states", states, "test"),
        ("attention", attention, "valid"),
        ("depth", depth, "valid"),
    )
    for name, module, split in (*analyses, ("spectra", spectra, None)):
        what = module.__doc__ or ""
        brief = what[:1].lower() + what[1:].rstrip(".")
        command = commands.add_parser(name, help=brief, description=what, allow_abbrev=False)
        command.add_argument(
            "checkpoints",
            metavar="CHECKPOINT",
            nargs="+",
            help="checkpoints of trained models, which are named after their folders; in figures, "
            "families replace architectures",
        )
        command.add_argument("--data", required=True, help="folder of binarised data")
        command.add_argument(
            "--out",
            metavar="DIR",
            type=Path,
            required=True,
            help="output folder: new, or written earlier by the same command",
        )
        if split:
            command.add_argument(
                "--split", default=split, help="split to read (default: %(default)s)"
            )
        command.add_argument(
            "--cpu", action="store_true", help="run on the CPU even if there is a GPU"
        )
        add_user_dir(command)
    states_parser, attention_parser = commands.choices["states"], commands.choices["attention"]
    states_parser.add_argument(
        "--texts",
        metavar="N",
        type=positive_int,
        default=100,
        help="number of texts in a fixed random sample (default: %(default)s)",
    )
    states_parser.add_argument(
        "--text",
        help="text to follow through the layers, or a file that contains it; needs --tokens",
    )
    states_parser.add_argument(
        "--tokens", nargs="+", metavar="TOKEN", help="tokens of --text whose distances are measured"
    )
    attention_parser.add_argument(
        "--text",
        help="draw the attention maps of this raw text, or of the text in this file, instead of "
        "measuring the data set",
    )
    attention_parser.add_argument(
        "--tokenized",
        action="store_true",
        help="read --text as tokens with spaces between them, instead of raw text",
    )
    attention_parser.add_argument(
        "--head",
        metavar="N",
        type=positive_int,
        help="number of the head to draw, from 1 (default: the mean over all heads); needs --text",
    )
    commands.choices["depth"].add_argument(
        "--steps",
        metavar="N",
        nargs="+",
        type=positive_int,
        help="numbers of steps to evaluate besides the number in training (default: 1/4 to 8 times "
        "the number in training)",
    )
    args = parser.parse_args(arguments)
    args.text = read_text(getattr(args, "text", None))
    if args.text is not None and not args.text.strip():
        commands.choices[args.what].error("--text: pass a text")
    if args.what == "states" and bool(args.text) != bool(args.tokens):
        states_parser.error("--text and --tokens: pass both or neither")
    if args.what == "attention" and not args.text:
        for name in ("head", "tokenized"):
            if getattr(args, name):
                attention_parser.error(f"--{name}: pass --text as well")
    return args


def read_text(text: str | None) -> str | None:
    """Return the text of ``--text``, or the only line with text of the file of that name."""
    if text is None or not os.path.isfile(text):
        return text
    lines = [line for line in read_texts(text)[1] if line.strip()]
    if len(lines) != 1:
        raise InputError(f"--text {text}: the file has {len(lines)} lines with text; keep one")
    return lines[0]


def leave_out_rejected(paths: list[str]) -> list[str]:
    """Leave out the checkpoints of rejected candidates of ``--tune``, unless all are rejected."""
    rejected = [path for path in paths if is_rejected(path)]
    if not rejected or len(rejected) == len(paths):
        return paths
    logging.warning(
        f"left out {', '.join(Path(path).parent.name for path in rejected)}: not the best values "
        "of --tune; to analyse them, name only them"
    )
    return [path for path in paths if path not in rejected]


def is_rejected(path: str) -> bool:
    """Return whether ``odeformers compare`` has trained the checkpoint but not chosen it."""
    folder = Path(path).absolute().parent
    runs = read_runs(folder.parent)
    return folder.name in runs and not runs[folder.name]


def read_runs(out: Path) -> dict[str, bool]:
    """Read the runs of a comparison in its report's order, and whether each has its settings."""
    if not (out / RESULTS).is_file():
        return {}
    comparison = read_comparison(out)
    chosen = [row.run for runs in comparison.runs.values() for row in runs]
    return {
        **dict.fromkeys(chosen, True),
        **{row.run: row.run in chosen for row in comparison.rows},
    }


def order_runs(paths: list[str]) -> list[str]:
    """If a glob has sorted the paths, put the runs of a comparison into the order of its report.

    In a report, the baseline comes first. Paths that are not sorted keep the user's order.
    """
    folders = [Path(path).absolute().parent for path in paths]
    runs = [
        out / run for out in {folder.parent: None for folder in folders} for run in read_runs(out)
    ]
    if paths != sorted(paths) or not {*folders} <= {*runs}:
        return paths
    return sorted(paths, key=lambda path: runs.index(Path(path).absolute().parent))


def model_names(paths: list[str]) -> list[str]:
    """Name checkpoints by their folders, or by their files if the file names differ."""
    folders = [Path(path.removesuffix(".pt")).absolute() for path in paths]
    if len({path.name for path in folders}) == 1:
        folders = [path.parent for path in folders]
    shared = os.path.commonpath([path.parent for path in folders])
    names = [path.relative_to(shared).as_posix() for path in folders]
    files = list(map(file_name, names))  # since each model may get its own picture
    for name, file in zip(names, files):
        if files.count(file) > 1:
            raise InputError(f"two checkpoints have the name {name}; rename one, or name it once")
    return names
