"""What a command will train, as it is printed before the trainings."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from fairseq_odeformers.files import markdown_table
from fairseq_odeformers.registry import describe_limitations

from .experiment import Experiment
from .numbers import clock, count_decimals
from .plan import Plan
from .results.intervals import minimal_detectable
from .results.rows import RESULTS, read_comparison
from .results.statistics import compare_seeds
from .run import Run
from .trial import Trial


def preview(plan: Plan, jobs: int, commands: bool) -> None:
    """Print the models of a plan, and how long its unfinished trainings take.

    Args:
        jobs: number of runs at a time.
        commands: whether to print all commands as well, and what the seeds would detect.
    """
    tuning, more, best = plan.stages()  # the runs so far determine them
    print(overview(plan.trials, [*tuning, *more, *best], jobs), flush=True)
    for sentence, _ in describe_limitations(
        (trial.variant.architecture, {**trial.defaults, **trial.variant.options})
        for trial in plan.trials
    ):
        print(sentence, flush=True)
    if commands:
        for line in foresee(plan.out, plan.experiment):
            print(line)
        print_commands([*tuning, *more])
        if tuning:
            print("\n# Then with the best candidate of each architecture, as far as it is known:")
        print_commands(best)


def overview(trials: Iterable[Trial], runs: Iterable[Run], jobs: int) -> str:
    """Format the models as a table, and say how long the unfinished trainings of a command take.

    Args:
        runs: the trainings of candidates, then the runs of the best candidates so far.
    """
    rows = [["architecture", "parameters", "updates", "time", "size"]]
    for each in trials:
        numbers = [f"{each.parameters:,}", f"{each.updates:,}", clock(each.seconds)]
        rows.append([each.variant.label, *numbers, each.size])
    by_folder = {run.folder: run for run in runs}  # a chosen candidate is evaluated too
    left = [run for run in by_folder.values() if not run.finished]
    line = f"All {len(by_folder)} runs have finished."
    if left:
        shares = (1 - run.updates / run.trial.updates for run in left)
        total = sum(share * run.trial.seconds for share, run in zip(shares, left))
        line = (
            f"{len(left)} of {len(by_folder)} runs remain, {jobs} at a time. Training will take "
            f"about {clock(total / jobs)}, estimated from timed updates; evaluation takes "
            "additional time."
        )
    return f"{markdown_table(rows)}\n{line}"


def foresee(out: Path, experiment: Experiment) -> Iterator[str]:
    """Yield what all seeds would detect, if a folder's runs show the spread over seeds."""
    if not (out / RESULTS).is_file():
        return
    for table in read_comparison(out).tables:
        if table.baseline not in table.main:
            continue
        spread = compare_seeds(table.main, table.baseline).spread
        seeds = {row.seed for runs in table.main.values() for row in runs} | {*experiment.seeds}
        models = {*table.main, *experiment.architectures} - {table.baseline}
        if spread is not None:
            least = spread * minimal_detectable(len(models), len(seeds))
            digits = max(2, count_decimals(table.metric, table.first.texts))
            yield (
                f"On {table.split} at the {table.checkpoint}, {len(seeds)} seeds would detect a "
                f"difference of {least:.{digits}f} in {table.metric} with 80% power. The standard "
                f"deviation over the seeds that have finished is {spread:.{digits}f}."
            )


def print_commands(runs: Iterable[Run]) -> None:
    """Print all commands of runs, for a shell."""
    for run in runs:
        print(f"\n# {run.folder.name}")
        for step in run.steps:
            sign = {"": "", "stdout": " > ", "all": " &> "}[step.printed]
            output = sign and sign + shlex.quote(str(run.folder / step.product))
            print(shlex.join(step.words) + output)
