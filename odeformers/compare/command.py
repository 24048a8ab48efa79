"""The command ``odeformers compare``."""

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NoReturn

import submitit
from sacrebleu.metrics.bleu import BLEU

from fairseq_odeformers.errors import InputError
from odeformers.fairseq_options import find_owners, training_parser
from odeformers.parser import Parser, add_margin, add_user_dir, integer, output_folder, positive_int
from odeformers.processes import THREADS, parse_words
from odeformers.sizes import SIZES

from .experiment import REFUSED, Experiment, find_data, read_experiments
from .launch import choose_launcher, execute
from .outcome import TRAIN_LOG
from .plan import make_plan, preview
from .report.sections import DOCUMENT, PAGE, write_report
from .run import Run, restore_files
from .variant import make_variants

MAX_SEED = 2**32 - 1  # the largest seed that NumPy accepts
REMOVED_OPTIONS = {  # options of earlier versions and of other programs, and what to do instead
    "--arch": "there is no such option here; did you mean --archs?",
    "--redo": "delete the folders of its runs in --out; the same command trains them again",
    "--seed": REFUSED["seed"],
    "--gpus": "choose GPUs by CUDA_VISIBLE_DEVICES=0,1 before the command, and how many of them a "
    "run takes by --gpus-per-run",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Plan, train, evaluate and report on a comparison, or resume it."""
    parser = make_parser()
    args, others = parser.parse_known_args(arguments)
    check_options(others, parser)
    check_plugin(args.user_dir)
    check_place(args)
    # A shell that starts this command in the background makes it ignore SIGINT.
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        experiments = read_experiments(args, parse_words(others))
        for experiment in experiments.values():
            if not Path(experiment.data).exists():
                make_variants(experiment)  # names wrong options before hours of preparation
        found = {name: find_data(each, args.dry_run) for name, each in experiments.items()}
        runs, failed = [], False
        for name, experiment in found.items():
            of_part, any_failed = compare(args, experiment, args.out / name if name else args.out)
            runs, failed = runs + of_part, failed or any_failed
    except KeyboardInterrupt as interrupted:
        again = "nothing was trained" if args.dry_run else "the same command resumes its runs"
        print(f"\nodeformers compare: interrupted; {again}", file=sys.stderr)
        sys.exit(128 + interrupted.args[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if failed:
        left = [str(run.folder) for run in runs if not run.finished]
        message = (
            f"{len(left)} of {len(runs)} runs did not finish: {', '.join(left)}; each folder's "
            f"{TRAIN_LOG} says why; the same command resumes"
        )
        sys.exit(f"odeformers compare: {message}")


def make_parser() -> Parser:
    """Make the parser of ``odeformers compare``, without the options of fairseq-train."""
    parser = Parser(
        prog="odeformers compare",
        description="Train architectures on the same data with the same recipe, evaluate them, and "
        "write a report. Further options are fairseq-train's and apply to all architectures; put "
        "options of one architecture in brackets after its name: 'transject[--encoder-experts 1]'. "
        "After an interruption the same command resumes from the last checkpoints.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "what",
        metavar="DATA|RECIPE",
        type=Path,
        help="folder of binarised data, or a recipe (a YAML file)",
    )
    add(
        "--archs",
        metavar="ARCH",
        nargs="+",
        help="architectures to train, the baseline first (default: all in the recipe)",
    )
    add(
        "--baseline",
        metavar="ARCH",
        help="architecture that the others are compared with (default: the first)",
    )
    add("--part", help="run only this part of the recipe (default: all parts)")
    add("--data", metavar="DIR", help="folder of binarised data to use instead of the recipe's")
    add("--task", help="fairseq's task (default: inferred from DATA)")
    add(
        "--epochs",
        type=positive_int,
        metavar="N",
        help="number of epochs on DATA (default: 3 to 50, for about 1,000 updates)",
    )
    add(
        "--average",
        type=integer,
        metavar="N",
        help="also evaluate the average of the last N checkpoints (default: 0, or the recipe's)",
    )
    add(
        "--seeds",
        type=seeds,
        nargs="+",
        metavar="N",
        help="random seeds: each architecture is trained once per seed (default: 1, or the "
        "recipe's)",
    )
    add(
        "--tune",
        metavar="OPTION=VALUE,...",
        action="extend",
        nargs="+",
        help="values to try, such as lr=5e-4,1e-3: train each architecture with seed 0 at each "
        "value (at all combinations for several options), and keep the value that validates best; "
        "if it is the smallest or largest, try one value beyond it",
    )
    add("--no-extend", action="store_true", help="do not try values beyond the grid of --tune")
    add(
        "--bleu-tokenize",
        choices=sorted(BLEU.TOKENIZERS),
        help="sacrebleu's tokeniser for BLEU (default: chosen by the target language)",
    )
    add(
        "--out",
        type=output_folder,
        default=Path("runs"),
        help="output folder for the runs and the report (default: %(default)s)",
    )
    add(
        "--match",
        choices=("parameters", "none"),
        help="parameters: choose widths so that all models have about as many parameters as the "
        "baseline; none: keep the given widths (default: parameters for DATA, none for a RECIPE)",
    )
    add(
        "--budget",
        type=minutes,
        metavar="TIME",
        help="train each model for this long, such as 30m or 2h, not counting validation; faster "
        "models make more updates (default: equal numbers of epochs)",
    )
    add_margin(parser)
    add(
        "--jobs",
        type=positive_int,
        default=1,
        metavar="N",
        help="number of runs that train at the same time (default: 1)",
    )
    add(
        "--dry-run",
        action="store_true",
        help="print the plan and all commands without training; this times a few updates of each "
        "model and takes minutes",
    )
    add = parser.add_argument_group("sizes of all architectures").add_argument
    add(
        "--layers",
        type=positive_int,
        metavar="N",
        help="number of layers of the encoder, and of the decoder",
    )
    add("--width", type=positive_int, metavar="N", help="width of embeddings and states")
    add("--heads", type=positive_int, metavar="N", help="number of attention heads per layer")
    add("--ffn", type=positive_int, metavar="N", help="inner width of a Transformer's FFN")
    sizes = (f"{name} ({', '.join(map(str, size.values()))})" for name, size in SIZES.items())
    what = f"layers, width, heads and FFN at once: {' or '.join(sizes)}"
    add("--size", choices=SIZES, help=what)
    add = parser.add_argument_group("on a cluster").add_argument
    add(
        "--cluster",
        choices=("local", "slurm"),
        default="local",
        help="train on this machine (local, the default), or submit each run to Slurm (slurm)",
    )
    add("--slurm-partition", metavar="NAME", help="Slurm partition of the jobs")
    add(
        "--gpus-per-run",
        type=integer,
        metavar="N",
        help="number of GPUs per run (default: 1 on this machine if it has a GPU; on a cluster, "
        "what the partition allocates)",
    )
    add("--time", type=minutes, metavar="TIME", help="time limit of a job, such as 24h")
    add_user_dir(parser)
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="train architectures from --user-dir even if they fail odeformers check",
    )
    return parser


# --- a comparison ------------------------------------------------------------------------------


def compare(args: argparse.Namespace, experiment: Experiment, out: Path) -> tuple[list[Run], bool]:
    """Plan and run an experiment, and report on it.

    Returns:
        All runs, and whether any run failed to finish; see :func:`.execute`.
    """
    if args.cluster == "local":  # jobs of a cluster run on other cores
        threads = max(1, (os.cpu_count() or 1) // args.jobs)
        os.environ.setdefault(THREADS, str(threads))
    plan = make_plan(experiment, out, start=not args.dry_run)
    preview(plan, args.jobs, commands=args.dry_run)
    if args.dry_run:
        return [], False
    runs, failed = execute(plan.stages(), choose_launcher(args, out))
    # A killed command may have written rows only in the folder of a run, and a run may be repeated.
    restore_files(out, experiment.architectures)
    write_report(out, margin=args.margin)
    print(f"The report: {out / PAGE} and {out / DOCUMENT}")
    return runs, failed


# --- options -----------------------------------------------------------------------------------


def check_options(words: Sequence[str], parser: Parser) -> None:
    """Check that no option is obsolete or misspelled; all others are passed to fairseq-train."""
    own = [name for name in parser._option_string_actions if name[2:]]
    for option in (word.partition("=")[0] for word in words):
        if advice := REMOVED_OPTIONS.get(option):
            raise InputError(f"{option}: {advice}")
        near = get_close_matches(option, own, 1, 0.8) if option.startswith("--") else []
        known = near and option in training_parser()._option_string_actions
        if near and not known and not find_owners(option):
            raise InputError(f"{option}: there is no such option; did you mean {near[0]}?")


def check_place(args: argparse.Namespace) -> None:
    """Check that the options apply to the place of the runs: this machine or a cluster."""
    slurm = args.cluster == "slurm"
    if args.budget and slurm:
        raise InputError(
            "--budget: its updates would be timed on this machine, and --cluster slurm trains on "
            "others; give --epochs or --max-update, or start the command in a job without --cluster"
        )
    if slurm and not args.dry_run and submitit.SlurmExecutor.affinity() < 0:
        raise InputError(
            "--cluster slurm: Slurm's command srun is not here; give --cluster local, or use a "
            "machine of the cluster"
        )
    if args.slurm_partition and not slurm:
        raise InputError(f"--slurm-partition {args.slurm_partition}: give --cluster slurm as well")
    if args.time and not slurm:
        raise InputError("--time needs --cluster slurm; here, write: timeout 24h odeformers ...")


def check_plugin(folders: Sequence[str]) -> None:
    """Check that there is only one plugin, and that it imports this package."""
    if len(folders) > 1:
        raise InputError(
            f"--user-dir {' '.join(folders)}: fairseq takes one folder; let it import the others"
        )
    for folder in folders:
        texts = (path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.py"))
        if not any(re.search(r"^\s*(from|import) fairseq_odeformers", t, re.M) for t in texts):
            raise InputError(
                f"--user-dir {folder}: it does not import fairseq_odeformers, which registers the "
                "tasks and criterions; add import fairseq_odeformers to its __init__.py"
            )


def interrupt(number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt(number)


def seeds(text: str) -> list[int]:
    """Parse one seed, or several seeds with commas between them."""
    return [integer(number, maximum=MAX_SEED) for number in text.split(",")]


def minutes(text: str) -> float:
    """Parse a time such as ``45s``, ``30m`` or ``2h``, in minutes."""
    factor = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}.get(text[-1:])
    if re.fullmatch(r"\d*\.?\d+", text):
        raise argparse.ArgumentTypeError(
            f"{text}: give the unit as well, such as {text}m or {text}h"
        )
    if not factor or not re.fullmatch(r"\d*\.?\d+", text[:-1]) or not float(text[:-1]):
        raise argparse.ArgumentTypeError(f"{text}: give a time above 0, such as 45s, 30m or 2h")
    return float(text[:-1]) * factor
