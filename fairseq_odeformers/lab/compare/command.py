"""The commands ``odeformers compare`` and ``odeformers report``."""

import argparse
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path

from filelock import Timeout
from sacrebleu.metrics.bleu import BLEU

from fairseq_odeformers.files import check_path, replacing
from fairseq_odeformers.lab.parsers import find_owners, training_parser
from fairseq_odeformers.models.common.sizes import NEUTRAL, SIZES
from fairseq_odeformers.options import add_user_dir, integer, output_folder, positive_int
from fairseq_odeformers.parser import Parser

from .continue_plan import plan_experiment
from .experiments import choose_experiments, parse_architecture
from .jobs import choose_machine
from .overview import overview, print_plan
from .plan import PLAN, add_time, load_plan, save_plan
from .recipe import Recipe, parse_words
from .report import DOCUMENT, PAGE, write_report
from .results import RESULTS, read_comparison
from .runs import Run, make_runs
from .scoreboard import write_scoreboard
from .watch import execute_plan

MOST_SEED = 2**32 - 1  # of NumPy
USER_DIR = Path(__file__).resolve().parents[2]  # this package, which fairseq's commands import


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers compare``."""
    parser = Parser(
        prog="odeformers compare",
        description="Train architectures on the same data with the same recipe, evaluate them, and "
        "write a report. Further options are fairseq-train's and apply to all architectures; put "
        "options of one architecture in brackets after its name: 'transject[--encoder-experts 1]'. "
        "After an interruption the same command resumes from the last checkpoints.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("what", metavar="DATA|RECIPE", type=Path, help="folder of binarised data, or a YAML file")
    add(
        "--archs",
        metavar="ARCH",
        nargs="+",
        help="architectures, the baseline first; with a recipe, a selection from it",
    )
    add("--part", help="part of the recipe (default: all parts)")
    add("--data", metavar="DIR", help="binarised data, instead of the recipe's")
    add("--task", help="fairseq task (default: inferred from DATA)")
    add("--epochs", type=positive_int, metavar="N", help="epochs on DATA (default: by its size)")
    add(
        "--average",
        type=integer,
        metavar="N",
        help="also evaluate the mean of N checkpoints (default on DATA: a fifth, up to three)",
    )
    add("--seeds", type=seeds, nargs="+", metavar="N", help="one run per seed (default: 1)")
    add(
        "--tune",
        metavar="OPTION=VALUE,...",
        nargs="+",
        help="train each architecture with all values (of several options: all combinations) and "
        "the first seed, and keep its best by the validation metric",
    )
    add(
        "--bleu-tokenize",
        choices=sorted(BLEU.TOKENIZERS),
        help="sacrebleu's tokenizer for BLEU (default: by the target language)",
    )
    add(
        "--out",
        type=output_folder,
        default=Path("runs"),
        help="runs and report (default: %(default)s)",
    )
    add(
        "--match",
        choices=("parameters", "none"),
        help="choose widths for equal parameter counts, or keep them (default: parameters for "
        "DATA, none for a RECIPE)",
    )
    add(
        "--budget",
        type=minutes,
        metavar="TIME",
        help="as many updates of each model as take this time, such as 30m or 2h, without "
        "validations; a faster model gets more (default: equal epochs)",
    )
    add("--jobs", type=positive_int, default=1, metavar="N", help="runs at a time (default: 1)")
    add(
        "--redo",
        metavar="ARCH",
        nargs="+",
        default=[],
        help="delete these architectures' runs in --out and retrain them",
    )
    add("--dry-run", action="store_true", help="print the plan and all commands, then stop")
    add = parser.add_argument_group("sizes of all architectures").add_argument
    add("--layers", type=positive_int, metavar="N", help="layers of encoder and decoder, each")
    add("--width", type=positive_int, metavar="N", help="width of embeddings and states")
    add("--heads", type=positive_int, metavar="N", help="attention heads")
    add("--ffn", type=positive_int, metavar="N", help="inner width of a Transformer's FFN")
    sizes = (f"{name} ({' '.join(map(str, size.values()))})" for name, size in SIZES.items())
    add("--size", choices=SIZES, help=f"all four in this order: {', '.join(sizes)}")
    add = parser.add_argument_group("on a cluster").add_argument
    add("--cluster", choices=("local", "slurm"), default="local", help="(default: this machine)")
    add("--slurm-partition", metavar="NAME", help="partition for the jobs")
    add("--gpus-per-run", type=integer, metavar="N", help="(default: 1 on this machine, if there)")
    add("--time", type=minutes, metavar="TIME", help="time limit of a run, such as 24h")
    add_user_dir(parser)
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="train architectures from --user-dir that fail odeformers check",
    )
    args, others = parser.parse_known_args(arguments)
    if not args.user_dir:  # whose options are not known yet
        check_options(others, [name for name in parser._option_string_actions if name[2:]])
    # Both end the jobs as well; a shell that starts this in the background has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        options = parse_words(others)
        options |= {name: getattr(args, name) for name in (*NEUTRAL, "size") if vars(args)[name]}
        recipes, runs = choose_experiments(args, options), []
        redo = parse_redo(args.redo, recipes.values())
        for name, recipe in recipes.items():
            out = args.out / name if name else args.out
            runs += compare(args, recipe, out, redo & recipe.architectures.keys())
    except KeyboardInterrupt:
        sys.exit(
            "\nodeformers compare: interrupted; the same command resumes from the last checkpoints"
        )
    failed = [run for run in runs if not run.finished]
    for run in failed:
        print(f"{run.folder}: {run.failure}")
    if failed:
        sys.exit(f"odeformers compare: {len(failed)} of {len(runs)} runs did not finish")


def check_options(words: Sequence[str], own: Sequence[str]) -> None:
    """Refuse a misspelt option of this command, which fairseq-train would get otherwise."""
    for word in words:
        option = word.partition("=")[0]
        near = option[:2] == "--" and get_close_matches(option, own, 1, 0.8)
        if near and (option == "--arch" or option not in training_parser()._option_string_actions):
            if not find_owners(option):
                raise ValueError(f"{option}: there is no such option; did you mean {near[0]}?")


def parse_redo(texts: Iterable[str], recipes: Iterable[Recipe]) -> set[str]:
    """The architectures of ``--redo``; one that no experiment has is refused."""
    redo = {parse_architecture(text)[0] for text in texts}
    names = dict.fromkeys(name for recipe in recipes for name in recipe.architectures)
    if unknown := redo - names.keys():
        raise ValueError(f"--redo {' '.join(unknown)}: not among {', '.join(names)}")
    return redo


def compare(
    args: argparse.Namespace, recipe: Recipe, out: Path, redo: Collection[str]
) -> list[Run]:
    """Plan, run and report an experiment; returns its runs, none of a dry run."""
    start = time.monotonic()
    recipe.data = os.path.abspath(recipe.data)  # its runs have other working folders
    for path in (recipe.data, *(out / name for name in recipe.architectures)):
        check_path(path)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.jobs)))
    user_dir = out.resolve() / "odeformers_plugins" if args.user_dir else USER_DIR
    recipe.train["user-dir"] = str(user_dir)
    machine = None if args.dry_run else choose_machine(args, out)
    plan = plan_experiment(args, recipe, out, redo)
    if args.user_dir and not (args.dry_run and user_dir.exists()):  # the commands name it
        write_plugin(user_dir, args.user_dir, () if args.dry_run else make_runs(plan, out))
    if machine:
        if redo and (out / PLAN).is_file():
            forget(redo, out)
        plan = save_plan(plan, out, redo)
    plan = plan.keep(lambda entry: entry.name in recipe.architectures)
    if not machine:
        print_plan(plan, recipe.seeds, out, args.jobs, redo)
        return []
    print(overview(plan, recipe.seeds, out, args.jobs), flush=True)
    try:
        runs = execute_plan(plan, recipe.seeds, machine, out)
    finally:
        add_time(time.monotonic() - start, out)
    for run in runs:
        run.note_unfinished()
    write_report(read_comparison(out), out)
    print(f"The report: {out / PAGE} and {out / DOCUMENT}")
    return runs


def forget(names: Collection[str], out: Path) -> None:
    """Remove the runs of architectures."""
    runs = make_runs(load_plan(out).keep(lambda entry: entry.name in names), out)
    runs = [run for run in runs if run.folder.exists()]
    with ExitStack() as locks:
        for run in runs:
            try:
                locks.enter_context(run.lock())
            except Timeout:
                raise ValueError(f"--redo {run.name}: another command is at {run.folder}") from None
        for run in runs:
            shutil.rmtree(run.folder)


def report(arguments: Sequence[str] | None = None) -> None:
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
        help="--out of odeformers compare; for a scoreboard NAME=RUNS, or a CSV file of runs",
    )
    parser.add_argument(
        "--out",
        type=output_folder,
        metavar="DIR",
        help="write a scoreboard of all RUNS: page, CSV, picture",
    )
    parser.add_argument(
        "--baseline", metavar="ARCH", help="compare the others with this (default: as compare did)"
    )
    args, others = parser.parse_known_args(arguments)
    for word in others:
        if word.partition("=")[0] in ("--csv", "--latex"):
            raise ValueError(f"{word}: {args.runs[0]}/{RESULTS} has all figures, for any program")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if args.out:
        print(write_scoreboard(args.runs, args.out))
        return
    out = Path(args.runs[0])
    if len(args.runs) > 1 or "=" in args.runs[0] and not out.exists():
        raise ValueError(f"{' '.join(args.runs)}: for a scoreboard give --out DIR as well")
    print(write_report(read_comparison(out, args.baseline or ""), out))


def seeds(text: str) -> list[int]:
    """One seed, or several between commas."""
    return [integer(number, most=MOST_SEED) for number in text.split(",")]


def minutes(text: str) -> float:
    """A time in minutes, of text such as ``45s``, ``30m`` or ``2h``."""
    factor = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}.get(text[-1:])
    if not factor or not re.fullmatch(r"\d*\.?\d+", text[:-1]) or not float(text[:-1]):
        raise argparse.ArgumentTypeError(f"{text}: give a time above 0, such as 45s, 30m or 2h")
    return float(text[:-1]) * factor


def write_plugin(folder: Path, plugins: Sequence[str], runs: Iterable[Run]) -> None:
    """Write a folder for fairseq's ``--user-dir``, which takes one; it imports several.

    Other plugins there are replaced, unless another command is at one of *runs*, which import them.
    """
    paths = [str(Path(plugin).resolve()) for plugin in plugins]
    code = f"from fairseq_odeformers.options import import_plugins\n\nimport_plugins({paths!r})\n"
    file = folder / "__init__.py"
    if file.exists() and file.read_text(encoding="utf-8") != code:
        for run in runs:
            if run.folder.exists() and run.busy:
                raise ValueError(
                    f"--user-dir {' '.join(plugins)}: another command is at {run.folder} with "
                    "another plugin; wait for it, or give another --out"
                )
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(file) as temporary:
        temporary.write_text(code, encoding="utf-8")
