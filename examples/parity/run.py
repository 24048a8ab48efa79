"""Train the ensembles of a table or figure of the N-ODE Transformer's paper.

Each run is an ordinary fairseq-train in a process of one thread. OUT/updates3000.csv gets a row for
each finished run, which is not repeated: the same command resumes after an interruption, or adds
runs when --runs is larger.
"""

import csv
import gzip
import os
import re
import sys
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path

from experiments import Ensemble, Result, choose, make_parser, read_results, results_file
from tqdm import tqdm

from odeformers.parser import positive_int
from odeformers.processes import CommandFailed, fairseq_command, log_stats, stream

# What fairseq's trainer or the ODE's solver prints when a run diverges.
DIVERGED = re.compile("FloatingPointError|--ode-max-steps|slope is not finite")


def train(ensemble: Ensemble, learning_rate: float, seed: int, args: Namespace) -> Result | None:
    """Train a run, and keep its log beside the results.

    The run ends early once all strings are right: the result cannot change any more. A run that
    diverges after its first update counts with what it has reached.

    Raises:
        CommandFailed: the run ended by another error, or before its first update.
    """
    logs = results_file(args).with_suffix("")
    logs.mkdir(parents=True, exist_ok=True)
    options = ensemble.command(learning_rate, seed, args.updates)
    words = fairseq_command("fairseq-train", *options, "--save-dir", logs)
    log = logs / f"{ensemble.name}-lr{learning_rate:g}-seed{seed}.log.gz"
    best = None
    with gzip.open(log, "wt", encoding="utf-8") as file, closing(stream(words, file)) as lines:
        try:
            for stats in filter(None, (log_stats(line, "train") for line in lines)):
                accuracy, wall = float(stats["train_accuracy"]), float(stats["train_wall"])
                if best is None:
                    start = wall
                if best is None or accuracy > best.accuracy:
                    reached = accuracy, wall - start, int(stats["train_num_updates"])
                    best = Result(ensemble.name, learning_rate, seed, *reached)
                if accuracy == 100:
                    break
        except CommandFailed as error:
            if best is None or not DIVERGED.search(str(error)):
                raise
    return best


def train_all(runs: list[tuple[Ensemble, float, int]], args: Namespace) -> None:
    """Train several runs at a time; after an error, or an interruption, start no more."""
    with ThreadPoolExecutor(args.workers) as pool:
        futures = [pool.submit(train, *run, args) for run in runs]
        try:
            for future in tqdm(as_completed(futures), total=len(runs), unit=" runs", disable=None):
                add_row(future.result(), results_file(args))
        finally:
            pool.shutdown(cancel_futures=True)


def add_row(result: Result, path: Path) -> None:
    """Add a finished run to a CSV file."""
    new = not path.exists()
    with open(path, "a", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([Result._fields] * new + [result])


def main() -> None:
    parser = make_parser(__doc__.splitlines()[0])
    parser.add_argument(
        "--workers", type=positive_int, default=os.cpu_count(), help="runs at a time"
    )
    args = parser.parse_args()
    ensembles = choose(parser, args)
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        finished = read_results(args)
        # The first run of each ensemble, then the second: ensembles grow evenly.
        runs = [(e, *e.run(number)) for number in range(args.runs) for e in ensembles]
        train_all([run for run in runs if (run[0].name, *run[1:]) not in finished], args)
    except (RuntimeError, ValueError, OSError) as error:
        sys.exit(f"run.py: error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted; the same command resumes")


if __name__ == "__main__":
    main()
