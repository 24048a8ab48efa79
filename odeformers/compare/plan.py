"""Plans: what a command trains in a folder, given the runs that have started there.

``comparison.yaml`` contains what all runs of a comparison share; the command that starts the first
run writes it. A command that differs from it, or from the ``run.yaml`` of a started run, raises an
error.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from fairseq_odeformers.errors import InputError
from fairseq_odeformers.files import find_free_name, markdown_table
from fairseq_odeformers.registry import Kind, describe_limitations
from odeformers.prepare.common.checks import find_flaws
from odeformers.processes import Options, call_in_child, name_differences, to_words

from .estimate import Estimate
from .experiment import Experiment
from .fairness import make_fair
from .numbers import clock, count_decimals
from .results.intervals import minimal_detectable
from .results.rows import (
    RESULTS,
    TUNING_SEED,
    Row,
    choose_settings,
    find_runs,
    find_tuning_seed,
    read_comparison,
    read_runs,
)
from .results.statistics import compare_seeds
from .run import Run, make_runs, pick_fields, read_run, reading_yaml, write_yaml
from .variant import BEST_BY, COST_FREE, Variant, make_variants

COMPARISON = "comparison.yaml"
MAX_NAMED = 5  # maximum number of differences in a message


def make_plan(experiment: Experiment, out: Path, start: bool = True) -> Plan:
    """Plan the runs of an experiment, and make the folders of the first runs.

    If another command starts runs in the folder during planning, plan again with these runs.

    Args:
        start: whether to make folders.

    Raises:
        InputError: a variant cannot be trained or evaluated, or the runs in the folder have other
            settings.
    """
    while True:
        started = {folder: read_run(folder) for folder in find_runs(out)}
        joined = join(experiment, out, started)
        earlier = [run.estimate for run in started.values()]
        estimates = call_in_child(partial(make_estimates, joined, earlier))
        check_settings(started, [estimate.variant for estimate in estimates], out)
        # A dry run has no scores, so it needs no flaws.
        plan = Plan(joined, estimates, out, flaws_of(joined, started.values()) if start else {})
        if not start or plan.start(started):
            return plan


def make_estimates(experiment: Experiment, started: Sequence[Estimate]) -> list[Estimate]:
    """Estimate the costs of an experiment's variants; see :func:`.make_fair`."""
    return make_fair(make_variants(experiment), started, experiment.match)


def flaws_of(experiment: Experiment, started: Iterable[Run]) -> dict[str, dict[str, float]]:
    """Return the flaws of the test sets from a run that has started, or find them in all texts."""
    splits, train = experiment.test_sets.keys(), experiment.train
    for run in started:
        if splits <= run.flaws.keys():
            return run.flaws
    names = ("source-lang", "target-lang") if experiment.kind is Kind.TRANSLATION else ()
    return find_flaws(Path(experiment.data), [train[n] for n in names if n in train], splits)


# --- agreement with the folder -----------------------------------------------------------------


@dataclass(frozen=True)
class Shared:
    """The settings of all runs of a comparison."""

    data: str
    data_digest: str
    task: str
    tune: str  # names of tuned options
    effort: Options  # a budget, or the limits of epochs and updates
    baseline: str  # the architecture that others are compared with


def share(experiment: Experiment) -> Shared:
    limits = ("max-epoch", "max-update")
    effort = {name: str(value) for name, value in experiment.train.items() if name in limits}
    return Shared(
        data=experiment.data,
        data_digest=experiment.data_digest,
        task=experiment.task,
        tune=" ".join(sorted(experiment.tune)),
        effort={"budget": clock(60 * experiment.budget)} if experiment.budget else effort,
        baseline=experiment.baseline,
    )


def join(experiment: Experiment, out: Path, started: Mapping[Path, Run]) -> Experiment:
    """Adapt an experiment to the folder that it continues, before its costs are estimated.

    The first command in the folder determines the seed that tunes, and the baseline unless another
    one is requested.

    Raises:
        InputError: the folder contains something other than comparisons of this version, or its
            comparison has other data, another task, effort or baseline, or other tuned options.
    """
    ours = (COMPARISON, f"*/{COMPARISON}", f"*/*/{COMPARISON}")
    others = any(not path.name.startswith(".") for path in out.glob("*"))
    if others and not any(any(out.glob(pattern)) for pattern in ours):
        raise InputError(
            f"--out {out}: it has files, but no {COMPARISON}; give a new folder, such as "
            f"--out {find_free_name(out)}"
        )
    scored = any(row.metric and row.seed == TUNING_SEED for row in read_runs(out))
    if experiment.tune and TUNING_SEED in experiment.seeds and not scored:
        seeds = " ".join(map(str, experiment.seeds))
        raise InputError(f"--seeds {seeds}: seed {TUNING_SEED} is for tuning; choose other seeds")
    if not started:
        baseline = experiment.baseline or next(iter(experiment.architectures))
        return replace(experiment, baseline=baseline, tuning_seed=TUNING_SEED)
    with reading_yaml(out / COMPARISON) as content:
        kept = Shared(**pick_fields(content, Shared))
    seed = find_tuning_seed(started.values())
    train = experiment.train
    if all(BEST_BY not in run.variant.options for run in started.values()):
        train = {BEST_BY: "loss", **train}  # the default of earlier versions, of all its runs
    baseline = experiment.baseline or kept.baseline
    joined = replace(experiment, train=train, baseline=baseline, tuning_seed=seed)
    then, now = (
        {**dict(data=s.data, task=s.task, tune=s.tune, baseline=s.baseline), **s.effort}
        for s in (kept, share(joined))
    )
    changes = find_changes(then, now)
    if kept.data == joined.data and kept.data_digest != joined.data_digest:
        changes += (f"the files of {kept.data} have changed",)
    if changes:
        raise InputError(explain_changes(out, ", ".join(changes)))
    return joined


def check_settings(started: Mapping[Path, Run], variants: Iterable[Variant], out: Path) -> None:
    """Check that the started runs have the requested settings.

    Variants with one estimate differ only in the values of tuned options.

    Raises:
        InputError: settings differ; the message names them, and the folders to delete.
    """
    asked = {variant.cost_label: variant for variant in variants}
    changed: dict[str, dict[str, None]] = {}  # the architectures, by what has changed
    folders = []
    for folder, run in started.items():
        variant = run.variant
        now = asked.get(variant.cost_label, variant)
        changes = find_changes(variant.settings, now.settings)
        if variant.code != now.code:
            changes += ("the files of its plugin have changed",)
        if changes:
            folders.append(str(folder))
            changed.setdefault(", ".join(changes[:MAX_NAMED]), {})[variant.architecture] = None
    if changed:
        differences = "; ".join(f"{', '.join(names)}: {what}" for what, names in changed.items())
        named = out if len(folders) == len(started) > 1 else " ".join(folders)
        raise InputError(f"{explain_changes(out, differences)}, or delete {named} to train again")


def find_changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, ...]:
    """Describe the options that have changed; values are compared as they are typed."""

    def show(value: object) -> str:
        words = to_words({"option": value})
        return words[-1] if len(words) > 1 else "set" if words else ""

    return name_differences(
        {name: (show(then.get(name)), show(now.get(name))) for name in {**then, **now}}
    )


def explain_changes(out: Path, changes: str) -> str:
    return (
        f"{out} was started with other settings ({changes}); give another folder, such as "
        f"--out {find_free_name(out)}"
    )


# --- stages ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """The runs of a command in a folder.

    Attributes:
        flaws: what makes the scores of each split misleading; added as columns to the split's rows.
    """

    experiment: Experiment
    estimates: list[Estimate]
    out: Path
    flaws: dict[str, dict[str, float]] = field(default_factory=dict)

    def stages(self) -> Iterator[list[Run]]:
        """Yield the runs in three stages, each planned by the results of earlier stages.

        Runs of all candidates come first, then runs with values beyond a grid, and then the
        runs of the best candidates. A stage is planned by the state of the folder when it is
        requested.
        """
        of_plan = {"out": self.out, "command": self.experiment.command, "flaws": self.flaws}
        tune = partial(make_runs, seeds=[self.experiment.tuning_seed], tuning=True, **of_plan)
        yield tune([each for each in self.estimates if each.variant.tried])
        rows = read_run_rows(self.out)
        yield (more := tune([*self.extend_grids(rows)]))
        best = [*self.choose_best(read_run_rows(self.out) if more else rows)]
        yield make_runs(best, seeds=self.experiment.seeds, **of_plan)

    def extend_grids(self, runs: Iterable[Row]) -> Iterator[Estimate]:
        """Yield one more value for each option whose best value is at its grid's edge.

        Yields nothing until all requested values have been trained or have diverged. The
        new value continues the grid by the factor of its last step. A grid is extended once, at the
        best of the requested values. Options that change the size of a model, or that have a value
        of 0, are not extended.
        """
        asked = {key_of(each): each for each in self.estimates if each.variant.tried}
        rows = {
            (row.architecture, row.tuned): row
            for row in runs
            if row.seed == self.experiment.tuning_seed and row.informative
        }
        rows = {key: row for key, row in rows.items() if key in asked and self.experiment.extend}
        for name, tuned in choose_settings(rows.values()).items():
            candidates = {key for key in asked if key[0] == name}
            if candidates <= rows.keys() and rows[name, tuned].trained:
                yield from extend(asked[name, tuned], self.experiment.tune)

    def choose_best(self, runs: Sequence[Row]) -> Iterator[Estimate]:
        """Yield one variant of each architecture: its best so far, or its first.

        The best variant is the one that reports choose, including candidates that another command
        has trained since this one was planned.
        """
        folders = {(row.architecture, row.tuned): row.folder for row in runs}
        settings = choose_settings(runs)
        of_architecture: dict[str, dict[str, Estimate]] = {}
        for estimate in self.estimates:
            name, tuned = key_of(estimate)
            of_architecture.setdefault(name, {})[tuned] = estimate
        for name, planned in of_architecture.items():
            first, *_ = planned
            tuned = settings.get(name, first)
            if tuned in planned:
                yield planned[tuned]
            else:  # the package or the plugin may have been in another place
                kept, here = read_run(folders[name, tuned]).estimate, planned[first].variant.options
                yield kept.of(kept.variant.change(user_dir=here.get("user-dir")))

    def start(self, started: Collection[Path]) -> bool:
        """Make the folders of the first runs, unless others have started since the planning."""
        self.out.mkdir(parents=True, exist_ok=True)
        with FileLock(self.out / f".{COMPARISON}.lock"):
            if find_runs(self.out) != sorted(started):  # their contents never change
                return False
            if not started:
                write_yaml(self.out / COMPARISON, asdict(share(self.experiment)))
            for run in next(filter(None, self.stages())):
                run.start()
        return True


def read_run_rows(out: Path) -> list[Row]:
    """Read the rows that the runs of a comparison have written about their training."""
    return [row for row in read_runs(out) if not row.metric]


def key_of(estimate: Estimate) -> tuple[str, str]:
    """Return architecture and tuned values in the form of rows."""
    return estimate.variant.architecture, estimate.variant.tuned


def extend(estimate: Estimate, grids: Mapping[str, Sequence[Any]]) -> Iterator[Estimate]:
    """Yield an estimate with a value beyond the grid, for each option whose value is at an edge."""
    for option, grid in grids.items():
        value = beyond(str(estimate.variant.tried[option]), [*map(str, grid)])
        if value and option.endswith(COST_FREE):
            longer = estimate.variant.at(option, value)
            with suppress(ValueError):  # a dropout of 1, and the like
                longer.check_options()
                yield estimate.of(longer)


def beyond(value: str, grid: Sequence[str]) -> str:
    """Return the number that continues a grid of positive numbers beyond *value*; "" inside it."""
    try:
        numbers = sorted(map(float, grid))
    except ValueError:
        return ""
    if numbers[0] <= 0 or len(numbers) == 1:
        return ""
    if float(value) == numbers[-1]:
        number = numbers[-1] ** 2 / numbers[-2]
    elif float(value) == numbers[0]:
        number = numbers[0] ** 2 / numbers[1]
    else:
        return ""
    text = f"{number:.3g}"
    return np.format_float_scientific(float(text), trim="-", exp_digits=1) if "e" in value else text


# --- the plan as it is printed before training -------------------------------------------------


def preview(plan: Plan, jobs: int, commands: bool) -> None:
    """Print the models of a plan, and how long its unfinished runs take.

    Args:
        jobs: number of runs at a time.
        commands: whether to print all commands as well, and what the seeds would detect.
    """
    tuning, more, best = plan.stages()  # the runs so far determine them
    print(overview(plan.estimates, [*tuning, *more, *best], jobs), flush=True)
    for sentence, _ in describe_limitations(
        (estimate.variant.architecture, {**estimate.defaults, **estimate.variant.options})
        for estimate in plan.estimates
    ):
        print(sentence, flush=True)
    if commands:
        for line in foresee(plan.out, plan.experiment):
            print(line)
        print_commands([*tuning, *more])
        if tuning:
            print("\n# Then with the best candidate of each architecture, as far as it is known:")
        print_commands(best)


def overview(estimates: Iterable[Estimate], runs: Iterable[Run], jobs: int) -> str:
    """Format the models as a table, and say how long the unfinished runs of a command take.

    Args:
        runs: the runs of candidates, then the runs of the best candidates so far.
    """
    rows = [["architecture", "parameters", "updates", "time", "size"]]
    for each in estimates:
        numbers = [f"{each.parameters:,}", f"{each.updates:,}", clock(each.seconds)]
        rows.append([each.variant.label, *numbers, each.size])
    by_folder = {run.folder: run for run in runs}  # earlier versions also scored a candidate
    left = [run for run in by_folder.values() if not run.finished]
    line = f"All {len(by_folder)} runs have finished."
    if left:
        shares = (1 - run.updates / run.estimate.updates for run in left)
        total = sum(share * run.estimate.seconds for share, run in zip(shares, left))
        line = (
            f"{len(left)} of {len(by_folder)} runs remain, {jobs} at a time. Training will take "
            f"about {clock(total / jobs)}, estimated from timed updates; starts, validations and "
            "evaluation take additional time."
        )
    return f"{markdown_table(rows)}\n{line}"


def foresee(out: Path, experiment: Experiment) -> Iterator[str]:
    """Yield which difference all seeds would detect, if the runs show the spread over seeds."""
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
