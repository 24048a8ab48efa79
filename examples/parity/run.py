"""Train the ensembles of a table or figure of the N-ODE Transformer's paper.

Each run is an ordinary fairseq-train in a process of one thread. Runs that are finished are not
repeated, so the same command goes on after an interruption, or adds runs when --runs is larger. A
finished run with more updates stands for one with fewer.
"""

import gzip
import os
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from experiments import LOG, Run, chosen, finished, make_parser
from tqdm import tqdm

from fairseq_odeformers.files import build
from fairseq_odeformers.lab.compare.commands import (
    CommandFailed,
    fairseq_command,
    log_stats,
    stream,
)
from fairseq_odeformers.options import positive_int

# In the output of a run that has diverged: of fairseq's trainer, and of the ODE's solver.
DIVERGED = re.compile("FloatingPointError|--ode-max-steps|slope is not finite")


def command(run: Run, folder: Path) -> list[str]:
    return fairseq_command("fairseq-train", *run.options(), "--save-dir", folder)


def train(run: Run, folder: Path) -> None:
    """Train in an empty folder, and leave the log there.

    The run ends early when all strings are correct, because nothing that is reported changes after
    that. A run that diverges after its first update counts with what it has reached.

    Raises:
        CommandFailed: it stopped by another error, or earlier.
    """
    accuracy = None
    with (
        gzip.open(folder / LOG, "wt", encoding="utf-8") as log,
        closing(stream(command(run, folder), log)) as lines,
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


def train_all(runs: Sequence[Run], out: Path, workers: int) -> None:
    """Train several runs at a time; after an error, or an interruption, start no more."""

    def train_one(run: Run) -> None:
        build(run.folder(out), {"options": run.options()}, lambda folder: train(run, folder))

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(train_one, run) for run in runs]
        try:
            for future in tqdm(as_completed(futures), total=len(runs), unit=" runs", disable=None):
                future.result()
        finally:
            pool.shutdown(cancel_futures=True)


def main() -> None:
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument(
        "--workers", type=positive_int, default=os.cpu_count(), help="runs at a time"
    )
    args = parser.parse_args()
    # The first run of each ensemble, then the second: ensembles grow evenly.
    runs = [run for number in zip(*chosen(parser, args).values()) for run in number]
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        done = finished(args.reports)
        runs = [run for run in runs if run.key not in done and not run.log(args.out)]
        train_all(runs, args.out, args.workers)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"run.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command goes on")


if __name__ == "__main__":
    main()
