"""The commands ``odeformers compare`` and ``odeformers report``."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from fairseq_odeformers.files import markdown_table
from fairseq_odeformers.models.common.sizes import NEUTRAL, SIZES
from fairseq_odeformers.options import add_user_dir, integer, positive_int

from .child import call_in_child
from .experiments import choose_experiments
from .jobs import Cluster, Machine, choose_machine
from .logs import clock
from .pages import csv_table, latex_table, markdown_page
from .plan import PLAN, Plan, load_plan, make_plan, save_plan
from .recipe import Recipe, parse_words
from .report import DOCUMENT, PAGE, write_report
from .runs import Run, make_runs, make_tuning_runs, prepare
from .tuning import choose_candidates, first_candidates
from .watch import execute

PACKAGE = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers compare``."""
    parser = argparse.ArgumentParser(
        prog="odeformers compare",
        description="Train architectures on the same data with the same recipe, evaluate them, and "
        "write a report. Further options are fairseq-train's and apply to all architectures; put "
        "those of one architecture in brackets behind its name: 'transject[--encoder-experts 1]'. "
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
    add("--data", metavar="DIR", help="binarised data, in place of the recipe's")
    add("--task", help="fairseq task (default: inferred from DATA)")
    add("--epochs", type=positive_int, metavar="N", help="epochs on DATA (default: by its size)")
    add("--average", type=integer, metavar="N", help="also evaluate the mean of N checkpoints")
    add("--seeds", type=int, nargs="+", metavar="N", help="one run per seed (default: 1)")
    add(
        "--tune",
        metavar="OPTION=VALUE,...",
        nargs="+",
        help="train each architecture with all values (of several options: all combinations) and "
        "the first seed, and keep its best by the validation metric",
    )
    add("--out", type=Path, default=Path("runs"), help="runs and report (default: %(default)s)")
    add(
        "--match",
        choices=("parameters", "none"),
        help="choose widths for equal numbers of parameters, or keep them (default: parameters for "
        "DATA, none for a RECIPE)",
    )
    add(
        "--budget",
        type=minutes,
        metavar="TIME",
        help="train for equal time, such as 30m or 2h, in place of equal epochs",
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
    args, others = parser.parse_known_args(arguments)
    # Both end the jobs as well; a shell that starts this in the background has SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        options = parse_words(others)
        options |= {name: getattr(args, name) for name in (*NEUTRAL, "size") if vars(args)[name]}
        for name, recipe in choose_experiments(args, options).items():
            compare(args, recipe, args.out / name if name else args.out)
    except KeyboardInterrupt:
        sys.exit(
            "\nodeformers compare: interrupted; the same command resumes from the last checkpoints"
        )


def compare(args: argparse.Namespace, recipe: Recipe, out: Path) -> None:
    """Plan, run and report an experiment."""
    prepare(recipe, args.dry_run)
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.jobs)))
    plugin = out.resolve() / "odeformers_plugins" if args.user_dir else PACKAGE
    recipe.train["user-dir"] = str(plugin)
    match = args.match or ("parameters" if args.what.is_dir() else "none")
    planned = planned_updates(out, args.budget) if args.budget else {}
    plan = call_in_child(make_plan, recipe, match == "parameters", args.budget, planned)
    print(overview(plan, args.jobs), flush=True)
    if args.dry_run:
        if args.user_dir and not plugin.exists():  # the commands name it
            write_plugin(plugin, args.user_dir)
        print_commands(make_tuning_runs(plan, out))
        if recipe.tune:
            print("\n# Then with the best candidate of each architecture, here the first:")
        print_commands(make_runs(replace(plan, entries=tuple(first_candidates(plan))), out))
        return
    kept = save_plan(plan, out)
    if args.user_dir:
        write_plugin(plugin, args.user_dir)
    runs = execute_plan(plan, kept, choose_machine(args, out), out)
    write_report(out)
    print(f"The report: {out / PAGE} and {out / DOCUMENT}")
    failed = [run for run in runs if not run.finished]
    for run in failed:
        print(f"{run.folder}: {run.failure}")
    if failed:
        raise ValueError(f"{len(failed)} of {len(runs)} runs did not finish")


def execute_plan(plan: Plan, kept: Plan, machine: Machine | Cluster, out: Path) -> list[Run]:
    """Tune, then train and evaluate the best candidates.

    Args:
        plan: of this command.
        kept: the same with the candidates and seeds of earlier commands.

    Returns:
        The runs that should have finished: of the best candidates, and of all candidates of an
        architecture of which none has.
    """
    names = {entry.name for entry in plan.entries}
    kept = replace(kept, entries=tuple(entry for entry in kept.entries if entry.name in names))
    tuning = make_tuning_runs(kept, out)
    if tuning:
        execute(tuning, machine)
    tuned = choose_candidates(kept, out)
    runs = make_runs(replace(plan, entries=tuple(tuned)), out)
    execute(runs, machine)
    chosen = {run.folder: run for run in runs}
    for run in tuning:
        if chosen.get(run.folder, run).finished:
            run.remove_checkpoints()
    return [*runs, *(run for run in tuning if run.name not in {entry.name for entry in tuned})]


def planned_updates(out: Path, budget: float) -> dict[str, int]:
    """The updates that an earlier command chose for this budget, so that its runs go on."""
    entries = load_plan(out).entries if (out / PLAN).is_file() else ()
    return {entry.label: entry.updates for entry in entries if entry.budget == budget}


def print_commands(runs: Sequence[Run]) -> None:
    """Print all commands of the runs, for a shell."""
    for run in runs:
        print(f"\n# {run.folder.name}")
        for step in run.steps:
            output = f" > {shlex.quote(str(run.folder / step.product))}" if step.printed else ""
            print(shlex.join(step.words) + output)


def overview(plan: Plan, jobs: int) -> str:
    """The models of a plan as a table, and the time that all runs will take."""
    rows = [["architecture", "parameters", "updates", "time", "size"]]
    for entry in plan.entries:
        numbers = [f"{entry.parameters:,}", f"{entry.updates:,}", clock(entry.seconds)]
        rows.append([entry.label, *numbers, entry.note])
    times = [entry.seconds for entry in plan.entries]
    runs = len(times) + (len(plan.recipe.seeds) - 1) * len({entry.name for entry in plan.entries})
    seconds = fmean(times) * runs / jobs
    return (
        f"{markdown_table(rows)}\n{runs} runs, {jobs} at a time: about {clock(seconds)}, by a few "
        "training steps, without validation and evaluation."
    )


def report(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers report``."""
    parser = argparse.ArgumentParser(
        prog="odeformers report",
        description="Write the report of a comparison, from the runs that have finished so far.",
    )
    parser.add_argument("runs", type=Path, metavar="RUNS", help="--out of odeformers compare")
    parser.add_argument("--csv", type=Path, metavar="DIR", help="also write the tables as CSV")
    parser.add_argument("--latex", type=Path, metavar="DIR", help="also write them as LaTeX")
    args = parser.parse_args(arguments)
    sections = write_report(args.runs)
    for folder, suffix, make in ((args.csv, "csv", csv_table), (args.latex, "tex", latex_table)):
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            for section in sections:
                if section.table and section.title:
                    name = re.sub(r"\W+", "-", section.title).strip("-").lower()
                    (folder / f"{name}.{suffix}").write_text(make(section.table), encoding="utf-8")
    print(markdown_page(sections))


def minutes(text: str) -> float:
    """A time in minutes, of text such as ``45s``, ``30m`` or ``2h``."""
    factor = {"s": 1 / 60, "m": 1, "h": 60, "d": 1440}.get(text[-1:])
    if not factor or not re.fullmatch(r"\d*\.?\d+", text[:-1]) or not float(text[:-1]):
        raise argparse.ArgumentTypeError(f"{text}: give a time such as 45s, 30m or 2h")
    return float(text[:-1]) * factor


def write_plugin(folder: Path, plugins: Sequence[str]) -> None:
    """Write a folder for fairseq's ``--user-dir``, which takes one; it imports several."""
    paths = [str(Path(plugin).resolve()) for plugin in plugins]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text(
        f"from fairseq_odeformers.options import import_plugins\n\nimport_plugins({paths!r})\n",
        encoding="utf-8",
    )
