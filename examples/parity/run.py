"""Train the ensembles of a table or figure of the N-ODE Transformer's paper.

Each run is an ordinary fairseq-train in a process of one thread. Runs that are finished are not
repeated, so the same command goes on after an interruption, or adds runs when --runs is larger. A
finished run with more updates stands for one with fewer.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from experiments import LOG, Run, chosen, finished, make_parser
from tqdm import tqdm

from fairseq_odeformers.compare.runs import CommandFailed, fairseq_command, log_stats, stream
from fairseq_odeformers.files import build

# In the output of a run that has diverged: of fairseq's trainer, and of the ODE's solver.
DIVERGED = re.compile("FloatingPointError|--ode-max-steps|slope is not finite")


def command(run: Run, folder: Path) -> list[str]:
    return fairseq_command("fairseq-train", *run.options(), "--save-dir", folder)


def train(run: Run, folder: Path) -> None:
    """Train in an empty folder, and leave the log there.

    All strings correct ends a run early, as nothing that is reported changes after that. A run that
    diverges after its first update counts with what it has reached.

    Raises:
        CommandFailed: it stopped by another error, or earlier.
    """
    accuracy = None
    with (
        gzip.open(folder / LOG, "wt", encoding="utf-8") as log,
        closing(stream(command(run, folder), log, OMP_NUM_THREADS="1")) as lines,
    ):
        try:
            for line in lines:
                if stats := log_stats(line, "train"):
                    accuracy = float(stats["train_accuracy"])
                if accuracy == 100:
                    return
        except CommandFailed as error:
            if accuracy is None or not DIVERGED.search(str(error)):
                raise


def main() -> None:
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="runs at a time")
    args = parser.parse_args()
    if args.workers < 1:
        parser.error(f"--workers {args.workers}: give 1 or more")
    ensembles = chosen(parser, args)
    try:
        done = finished(args.reports)
        # The first run of each ensemble, then the second: ensembles grow evenly. Those that a
        # report has, or that a longer one stands for, whose log is in another folder, are left out.
        runs = [
            run
            for number in zip(*ensembles.values())
            for run in number
            if run.key not in done and run.log(args.out).parent == run.folder(args.out)
        ]
        train_all(runs, args)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"run.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command goes on")


def train_all(runs: list[Run], args: argparse.Namespace) -> None:
    """Train several runs at a time; after an error, or an interruption, start no more."""
    with ThreadPoolExecutor(args.workers) as pool:
        futures = [
            pool.submit(
                build,
                run.folder(args.out),
                {"options": run.options()},
                lambda folder, run=run: train(run, folder),
            )
            for run in runs
        ]
        try:
            for future in tqdm(as_completed(futures), args.experiment, len(runs), unit=" runs"):
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)


if __name__ == "__main__":
    main()
