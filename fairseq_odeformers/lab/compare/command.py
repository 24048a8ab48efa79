"""The commands ``odeformers compare`` and ``odeformers report``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from fairseq_odeformers.files import markdown_table
from fairseq_odeformers.options import add_user_dir, integer, positive_int

from .defaults import default_recipe
from .pages import csv_table, latex_table, markdown_page
from .plan import PLAN, Plan, load_plan, make_plan, save_plan
from .recipe import Options, Recipe, merged, parse_architecture, parse_words, read_recipe
from .report import DOCUMENT, PAGE, write_report
from .runs import make_runs, prepare
from .watch import clock, execute, make_executor

PACKAGE = Path(__file__).resolve().parents[2]
FORK = multiprocessing.get_context("fork")  # which has imported all that this process has


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers compare``."""
    parser = argparse.ArgumentParser(
        prog="odeformers compare",
        description="Train architectures on the same data with the same recipe, evaluate them, and "
        "write a report. Options of fairseq-train that follow are for all architectures; those of "
        "one stand in brackets behind its name: 'transject[--encoder-experts 1]'. The same command "
        "goes on from the last checkpoints.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("what", metavar="DATA|RECIPE", type=Path, help="folder of binarised data, or a YAML file")
    add(
        "--archs",
        metavar="ARCH",
        nargs="+",
        help="architectures, the first of which is the baseline; of a recipe, some of its own",
    )
    add("--part", help="of a recipe that has parts (default: all of them)")
    add("--data", metavar="DIR", help="binarised data, in place of the recipe's")
    add("--task", help="of fairseq, for DATA (default: found there)")
    add("--epochs", type=positive_int, metavar="N", help="for DATA (default: by its size)")
    add("--average", type=integer, metavar="N", help="evaluate the mean of N checkpoints; or 0")
    add("--seeds", type=int, nargs="+", metavar="N", help="a training each (default: 1)")
    add("--out", type=Path, default=Path("runs"), help="of runs and report (default: %(default)s)")
    add(
        "--match",
        choices=("parameters", "none"),
        help="choose widths for equal parameters, or take them as they are (default: parameters "
        "for DATA, none for a RECIPE)",
    )
    add(
        "--budget",
        type=minutes,
        metavar="TIME",
        help="train for equal time, such as 30m or 2h, in place of equal epochs",
    )
    add("--jobs", type=positive_int, default=1, metavar="N", help="runs at a time (default: 1)")
    add("--dry-run", action="store_true", help="print the plan and all commands, and end")
    add = parser.add_argument_group("on a cluster").add_argument
    add("--cluster", choices=("local", "slurm"), default="local")
    add("--slurm-partition", metavar="NAME")
    add("--gpus-per-run", type=integer, metavar="N", help="(default: 1 on this machine, if there)")
    add("--time", type=minutes, metavar="TIME", help="limit of a run, such as 24h")
    add_user_dir(parser)
    args, others = parser.parse_known_args(arguments)
    # Both end the jobs as well; a shell that starts this in the background ignores the one.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        for name, recipe in recipes(args, parse_words(others)).items():
            compare(args, recipe, args.out / name if name else args.out)
    except KeyboardInterrupt:
        sys.exit(
            "\nodeformers compare: interrupted; the same command goes on from the last checkpoints"
        )


def compare(args: argparse.Namespace, recipe: Recipe, out: Path) -> None:
    """Plan, run and report an experiment."""
    prepare(recipe, args.dry_run)
    match = args.match or ("parameters" if args.what.is_dir() else "none")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // args.jobs)))
    folder = out.resolve() / "odeformers_plugins" if args.user_dir else PACKAGE
    planned = planned_updates(out, args.budget)
    recipe.train["user-dir"] = str(folder)
    plan = in_child(make_plan, recipe, match == "parameters", args.budget, planned)
    runs = make_runs(plan, out)
    print(overview(plan, len(runs), args.jobs), flush=True)
    if args.dry_run:
        if args.user_dir and not folder.exists():  # that the commands name
            write_plugin(folder, args.user_dir)
        for run in runs:
            print(f"\n# {run.folder.name}")
            for step in run.steps:
                output = f" > {shlex.quote(str(run.folder / step.product))}" if step.printed else ""
                print(shlex.join(step.words) + output)
        return
    save_plan(plan, out)
    if args.user_dir:
        write_plugin(folder, args.user_dir)
    execute(runs, make_executor(args, out), args.jobs)
    write_report(out)
    print(f"The report: {out / PAGE} and {out / DOCUMENT}")
    failed = [run for run in runs if not run.finished]
    for run in failed:
        print(f"{run.folder}: {run.failure}")
    if failed:
        raise ValueError(f"{len(failed)} of {len(runs)} runs did not finish")


def in_child(function: Callable, *arguments: object):
    """Call a function in a fork of this process, whose memory is free again afterwards."""
    receiver, sender = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(sender, function, arguments))
    child.start()
    sender.close()
    try:
        result = receiver.recv()
    except EOFError:
        raise ValueError("the trial of the models was killed, perhaps for want of memory") from None
    finally:
        child.kill()
        child.join()
    if isinstance(result, Exception):
        raise result
    return result


def _answer(sender: Connection, function: Callable, arguments: tuple) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process ends this one
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    warnings.simplefilter("ignore")  # the trainings' logs have them
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:
        result = function(*arguments)
    except Exception as error:
        result = error
    sender.send(result)


def planned_updates(out: Path, budget: float | None) -> dict[str, int]:
    """The updates that an earlier command has found for a budget, so that its runs go on."""
    entries = load_plan(out).entries if (out / PLAN).is_file() else ()
    return {entry.name: entry.updates for entry in entries if entry.budget == budget}


def overview(plan: Plan, runs: int, jobs: int) -> str:
    """The models of a plan as a table, and the time that all runs will take."""
    rows = [["architecture", "parameters", "updates", "time", "size"]]
    for entry in plan.entries:
        numbers = [f"{entry.parameters:,}", f"{entry.updates:,}", clock(entry.seconds)]
        rows.append([entry.name, *numbers, entry.note])
    seconds = sum(entry.seconds for entry in plan.entries) * len(plan.recipe.seeds) / jobs
    return (
        f"{markdown_table(rows)}\n{runs} runs, {jobs} at a time: about {clock(seconds)}, by a few "
        "training steps; validation and evaluation come on top."
    )


def report(arguments: Sequence[str] | None = None) -> None:
    """The command line of ``odeformers report``."""
    parser = argparse.ArgumentParser(
        prog="odeformers report",
        description="Write the report of a comparison, of what there is so far.",
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


def recipes(args: argparse.Namespace, extra: Options) -> dict[str, Recipe]:
    """The experiments that the command line asks for, by the names of their parts.

    Of *extra* options those of a recipe give way, but not those in brackets.
    """
    chosen: dict[str, tuple[str, Options]] = {}
    for name, arch, own in map(parse_architecture, args.archs or []):
        if name in chosen:
            raise ValueError(f"--archs {name}: give each once")
        chosen[name] = arch, own
    if not args.what.exists():
        raise ValueError(
            f"{args.what}: no such folder or recipe; give the folder that fairseq-preprocess or "
            "odeformers prepare has written, or a YAML file"
        )
    folder = args.what.is_dir()
    for name in ("part", "data") if folder else ("task", "epochs"):
        if (value := getattr(args, name)) is not None:
            raise ValueError(f"--{name} {value}: for {'a RECIPE' if folder else 'DATA'} alone")
    if folder:
        if not chosen:
            raise ValueError(f"--archs: name the architectures to train on {args.what}")
        architectures = {name: {"arch": arch, **own} for name, (arch, own) in chosen.items()}
        found = {"": default_recipe(args.what, architectures, args.task, args.epochs)}
    else:
        found = read_recipe(args.what, args.part)
        for recipe in found.values():
            if args.data:
                recipe.data, recipe.prepare = args.data, ""
            known = recipe.architectures
            for own in known.values():
                own.update({name: value for name, value in extra.items() if name in own})
            if chosen:  # names of the recipe, whose option arch stays, or architectures
                recipe.architectures = {
                    name: {"arch": arch, **known.get(arch, {}), **own}
                    for name, (arch, own) in chosen.items()
                }
    for recipe in found.values():
        recipe.train = merged(recipe.train, extra)
        if args.average is not None:
            recipe.average = args.average
        recipe.seeds = args.seeds or recipe.seeds
        if len(set(recipe.seeds)) < len(recipe.seeds):
            raise ValueError(f"--seeds {' '.join(map(str, recipe.seeds))}: give each once")
    return found


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
