"""The commands ``odeformers compare`` and ``odeformers report``."""

import argparse
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
from sacrebleu.metrics.bleu import BLEU

from fairseq_odeformers.blame import blaming
from fairseq_odeformers.files import markdown_table, naming_faults, replacing, sha256
from fairseq_odeformers.lab.benchmark.timing import Stopwatch, describe_environment
from fairseq_odeformers.lab.parsers import find_owners, training_parser
from fairseq_odeformers.models.common.sizes import NEUTRAL, SIZES
from fairseq_odeformers.options import add_user_dir, integer, output_folder, positive_int
from fairseq_odeformers.parser import Parser

from .experiment import Experiment, parse_words, read_experiments
from .fairness import Planned, fit_effort, match_parameters
from .launch import Launcher, call_in_child, choose_launcher, launch
from .report import DOCUMENT, PAGE, write_report
from .results import RESULTS, clock, read_comparison
from .runs import (
    Run,
    Shared,
    check_begun,
    check_shared,
    choose_facts,
    make_facts,
    make_runs,
    write_shared,
)
from .scoreboard import write_scoreboard
from .scores import Facts
from .trial import STEPS, Trial, digest_trial, try_variant
from .variant import Variant, make_variants

MOST_SEED = 2**32 - 1  # of NumPy
TRIALS = "trials.json"  # what has been measured for the runs in a folder
PLANNING = 20  # a model's updates are timed for a budget divided by this, at most
IMPORTS = 6.0  # seconds until a command of a run has begun
GONE = {  # options of earlier versions, and of other programs: what to do instead
    "--redo": "delete the folders of its runs in --out; the same command trains them anew",
    "--gpus": "choose GPUs by CUDA_VISIBLE_DEVICES=0,1 before the command, and how many of them a "
    "run takes by --gpus-per-run",
    "--csv": f"{RESULTS} has all figures",
    "--latex": f"{RESULTS} has all figures",
}


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers compare``."""
    parser = make_parser()
    args, others = parser.parse_known_args(arguments)
    check_options(others, parser, bool(args.user_dir))
    check_plugin(args.user_dir)
    # A shell that starts this in the background has SIGINT ignored.
    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        options = parse_words(others)
        options |= {name: getattr(args, name) for name in (*NEUTRAL, "size") if vars(args)[name]}
        runs: list[Run] = []
        for name, experiment in read_experiments(args, options).items():
            runs += compare(args, experiment, args.out / name if name else args.out)
    except Interrupted as interrupted:
        again = "nothing was trained" if args.dry_run else "the same command resumes its runs"
        print(f"\nodeformers compare: interrupted; {again}", file=sys.stderr)
        sys.exit(128 + interrupted.number)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    failed = [run for run in runs if not run.finished]
    for run in failed:
        print(f"{run.folder}: {run.failure}")
    if failed:
        sys.exit(f"odeformers compare: {len(failed)} of {len(runs)} runs did not finish")


def make_parser() -> Parser:
    """The options of ``odeformers compare``, without those of fairseq-train."""
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
    add("--baseline", metavar="ARCH", help="compare the others with this (default: the first)")
    add("--part", help="part of the recipe (default: all parts)")
    add("--data", metavar="DIR", help="binarised data, instead of the recipe's")
    add("--task", help="fairseq task (default: inferred from DATA)")
    add("--epochs", type=positive_int, metavar="N", help="epochs on DATA (default: by its size)")
    add(
        "--average",
        type=integer,
        metavar="N",
        help="also evaluate the mean of the last N checkpoints (default: none, or the recipe's)",
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
    return parser


# --- a comparison ------------------------------------------------------------------------------


def compare(args: argparse.Namespace, experiment: Experiment, out: Path) -> list[Run]:
    """Plan, run and report an experiment; returns its runs, none of a dry run."""
    command = datetime.now().isoformat(timespec="seconds")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.jobs)))
    launcher = None if args.dry_run else choose_launcher(args, out)
    shared = check_shared(experiment, Shared.of(experiment, sha256(Path(experiment.data))), out)
    planned, measured, environment = call_in_child(
        partial(plan, experiment, shared, read_trials(out))
    )
    of_baseline = (p.trial.parameters for p in planned if p.variant.name == shared.baseline)
    shared = replace(shared, parameters=shared.parameters or next(of_baseline, 0))
    every = [make_facts(each, shared, command, environment) for each in planned]
    check_begun(every, out)
    tuning = make_runs([facts for facts in every if facts.tried], out, [shared.seed], planned)
    for run in tuning:
        run.tuning = True
    chosen = make_runs(choose_facts(every, out), out, experiment.seeds, planned)
    print(overview(experiment, planned, [*tuning, *chosen], args.jobs), flush=True)
    if launcher is None:
        print_commands(tuning)
        if tuning:
            print("\n# Then with the best candidate of each architecture, as far as it is known:")
        print_commands(chosen)
        return []
    write_shared(out, shared)
    write_trials(out, measured)
    runs = execute(experiment, every, planned, tuning, launcher, out)
    write_report(read_comparison(out), out)
    print(f"The report: {out / PAGE} and {out / DOCUMENT}")
    return runs


def plan(
    experiment: Experiment, shared: Shared, measured: Mapping[str, Any]
) -> tuple[list[Planned], dict[str, Any], str]:
    """Try all variants, and make them equal in size and effort.

    Args:
        measured: what has been measured for this folder, which is not measured again.

    Returns:
        The variants, all that is measured now, and the date, the machine and the versions.
    """
    measured, watch = dict(measured), Stopwatch()

    def digest(variant: Variant) -> str:
        return digest_trial(variant, shared.data_digest)

    def count(variant: Variant) -> int:
        key = f"parameters {digest(variant)}"
        if key not in measured:
            measured[key] = variant.build().parameters
        return measured[key]

    def measure(variant: Variant) -> Trial:
        key = f"trial {digest(variant)}"
        with naming_faults(variant.label, "cannot be trained"), blaming():
            if key not in measured:
                measured[key] = asdict(try_variant(variant, seconds))
            elif variant.tried:
                variant.build()  # a value that hardly costs time may still be wrong
        return Trial(**measured[key])

    seconds = 60 * experiment.budget / PLANNING if experiment.budget else None
    variants, target = make_variants(experiment), shared.parameters
    variants.sort(key=lambda variant: variant.name != shared.baseline)
    planned = []
    for number, variant in enumerate(variants, start=1):
        report_progress(f"trying {variant.label} ({number} of {len(variants)})")
        if experiment.match and target:
            variant = match_parameters(variant, target, count)
        trial = measure(variant)
        target = target or trial.parameters
        planned.append(fit_effort(variant, trial))
    order = list(experiment.architectures)
    planned.sort(key=lambda each: order.index(each.variant.name))
    if watch.disturbed:
        print(
            f"Other processes were busy on this machine's {os.cpu_count()} cores. If they go on, "
            "training may be faster with OMP_NUM_THREADS=1 before the command",
            flush=True,
        )
    environment = describe_environment("cuda" if torch.cuda.is_available() else "cpu")
    environment["planning time spent waiting for a core"] = f"{watch.waited:.0%}"
    told = ", ".join(f"{name} {value}" for name, value in environment.items())
    return planned, measured, told


def read_trials(out: Path) -> dict[str, Any]:
    """What has been measured for the runs in a folder."""
    path = out / TRIALS
    with naming_faults(path, "is damaged; remove it"):
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_trials(out: Path, measured: Mapping[str, Any]) -> None:
    with replacing(out / TRIALS) as path:
        path.write_text(json.dumps({**read_trials(out), **measured}, indent=1), encoding="utf-8")


def execute(
    experiment: Experiment,
    every: Sequence[Facts],
    planned: Sequence[Planned],
    tuning: Sequence[Run],
    launcher: Launcher,
    out: Path,
) -> list[Run]:
    """Tune, if options are tuned, then train and evaluate the best candidates.

    Returns:
        The runs that should have finished: runs of the best candidates, and all tuning runs of an
        architecture if none of them has finished.
    """
    launch(tuning, launcher)
    names = {run.facts.architecture for run in tuning}
    untrained = names - {run.facts.architecture for run in tuning if run.finished}
    chosen = choose_facts(every, out)
    chosen = [facts for facts in chosen if facts.architecture not in untrained]
    runs = make_runs(chosen, out, experiment.seeds, planned)
    launch(runs, launcher)
    evaluated = {run.folder: run for run in runs}
    for run in tuning:
        if evaluated.get(run.folder, run).finished:
            run.remove_checkpoints()
    return [*runs, *(run for run in tuning if run.facts.architecture in untrained)]


# --- what a command prints ---------------------------------------------------------------------


def overview(
    experiment: Experiment, planned: Sequence[Planned], runs: Sequence[Run], jobs: int
) -> str:
    """The models as a table, and the time that the unfinished runs of a command take.

    Args:
        runs: the candidates' trainings, then the runs of the best ones so far.
    """
    rows = [["architecture", "parameters", "updates", "time with evaluation", "size"]]
    few = []
    for each in planned:
        variant, trial = each.variant, each.trial
        seconds = clock(each.training_seconds + each.evaluation_seconds)
        numbers = [f"{trial.parameters:,}", f"{each.updates:,}", seconds]
        rows.append([variant.label, *numbers, variant.size])
        few += [variant.label] if experiment.budget and trial.timed < STEPS else []
    lines = [markdown_table(rows).rstrip("\n"), ""]
    if few:
        lines.append(f"Timed by fewer than {STEPS} updates, for lack of time: {', '.join(few)}.")
    by_folder = {run.folder: run for run in runs}  # a candidate that is chosen is evaluated, too
    left = [run for run in by_folder.values() if not run.finished]
    if not left:
        return "\n".join([*lines, f"All {len(by_folder)} runs have finished."])
    total = sum(len(run.steps) for run in left) * IMPORTS
    for run in left:
        total += (1 - run.trained_share) * run.training_seconds + run.evaluation_seconds
    lines.append(
        f"{len(left)} of {len(by_folder)} runs are left, {jobs} at a time: about "
        f"{clock(total / jobs)}, by timed updates, predictions and imports."
    )
    return "\n".join(lines)


def print_commands(runs: Sequence[Run]) -> None:
    """Print all commands of the runs, for a shell."""
    for run in runs:
        print(f"\n# {run.folder.name}")
        for step in run.steps:
            sign = {"": "", "stdout": " > ", "stderr": " 2> "}[step.printed]
            output = sign and sign + shlex.quote(str(run.folder / step.product))
            print(shlex.join(step.words) + output)


def report_progress(text: str) -> None:
    """Print what begins now, beside the output of a command."""
    print(f"{text} ...", file=sys.stderr, flush=True)


# --- options -----------------------------------------------------------------------------------


def check_options(words: Sequence[str], parser: Parser, plugin: bool) -> None:
    """Refuse what is no option any more, or a misspelt one, which fairseq-train would get."""
    own = [name for name in parser._option_string_actions if name[2:]]
    for word in words:
        option = word.partition("=")[0]
        if option in GONE:
            raise ValueError(f"{option}: {GONE[option]}")
        near = option[:2] == "--" and get_close_matches(option, own, 1, 0.8)
        if plugin or not near:  # a plugin's options are not known yet
            continue
        if option == "--arch" or option not in training_parser()._option_string_actions:
            if not find_owners(option):
                raise ValueError(f"{option}: there is no such option; did you mean {near[0]}?")


def check_plugin(folders: Sequence[str]) -> None:
    """Check that there is one plugin, and that fairseq's commands get this package by it."""
    if len(folders) > 1:
        raise ValueError(
            f"--user-dir {' '.join(folders)}: fairseq takes one folder; let it import the others"
        )
    for folder in folders:
        texts = (path.read_text(encoding="utf-8") for path in Path(folder).rglob("*.py"))
        if not any(re.search(r"^\s*(from|import) fairseq_odeformers", t, re.M) for t in texts):
            raise ValueError(
                f"--user-dir {folder}: it does not import fairseq_odeformers, whose tasks and "
                "criterions train it; add import fairseq_odeformers to its __init__.py"
            )


class Interrupted(BaseException):
    """A signal has ended the command."""

    def __init__(self, number: int):
        self.number = number


def interrupt(number: int, frame: object) -> NoReturn:
    raise Interrupted(number)


def seeds(text: str) -> list[int]:
    """One seed, or several between commas."""
    return [integer(number, most=MOST_SEED) for number in text.split(",")]


def minutes(text: str) -> float:
    """A time in minutes, of text such as ``45s``, ``30m`` or ``2h``."""
    factor = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}.get(text[-1:])
    if not factor or not re.fullmatch(r"\d*\.?\d+", text[:-1]) or not float(text[:-1]):
        raise argparse.ArgumentTypeError(f"{text}: give a time above 0, such as 45s, 30m or 2h")
    return float(text[:-1]) * factor


# --- report ------------------------------------------------------------------------------------


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
        help=f"--out of odeformers compare; for a scoreboard NAME=RUNS, or a {RESULTS} of several",
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
        if (option := word.partition("=")[0]) in GONE:
            raise ValueError(f"{option}: {args.runs[0]}/{GONE[option]}")
    if others:
        parser.error(f"unrecognized arguments: {' '.join(others)}")
    if args.out:
        print(write_scoreboard(args.runs, args.out))
        return
    out = Path(args.runs[0])
    if len(args.runs) > 1 or "=" in args.runs[0] and not out.exists():
        raise ValueError(f"{' '.join(args.runs)}: for a scoreboard give --out DIR as well")
    print(write_report(read_comparison(out, args.baseline or ""), out))
