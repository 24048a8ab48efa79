"""Plans: the architectures of a recipe, tried before the first training, and kept beside the runs.

``entry.py`` makes the options of each architecture, ``trial.py`` builds and times it, ``width.py``
gives all of them one size, or ``budget.py`` one time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path

import torch
import yaml
from filelock import FileLock

from fairseq_odeformers.blame import blaming
from fairseq_odeformers.files import naming, replacing, sha256
from fairseq_odeformers.lab.benchmark.timing import describe_environment
from fairseq_odeformers.lab.check.command import require
from fairseq_odeformers.models.common.sizes import split_sizes

from .budget import fit_budget
from .entry import Entry, make_entry, plugin_digest
from .fairseq_commands import check_program
from .lengths import check_lengths
from .logs import report_progress
from .recipe import Options, Recipe, combinations, command_line, construct
from .splits import find_test_sets
from .trial import build, count_parameters, try_training
from .width import match_width

PLAN, LOCK = "plan.yaml", ".plan.lock"


@dataclass(frozen=True)
class Plan:
    """A recipe, and its architectures as they will be trained."""

    recipe: Recipe  # with the absolute path of its data
    entries: tuple[Entry, ...]
    digest: str = ""  # of the files of the data
    # The splits to evaluate on, each with the file of its references or texts as published, if
    # there is one. None where an earlier version has planned, which looked for them at each report.
    test_sets: dict[str, str | None] | None = None
    environment: dict[str, str] = field(default_factory=dict)  # date, machine, versions


def make_plan(
    recipe: Recipe,
    match: bool = True,
    budget: float | None = None,
    planned: Mapping[str, int] | None = None,
    plugins: Sequence[Path] = (),
    checked: bool = True,
) -> Plan:
    """Build and check all models of a recipe.

    The options of each architecture, and of each candidate if options are tuned, are parsed as
    fairseq-train parses them. Its model is built, and a few updates are made with the data.

    Args:
        match: choose widths so that each model has as many parameters as the first one.
        budget, planned: see :func:`~fairseq_odeformers.lab.compare.budget.fit_budget`.
        plugins: the user's folders. The plan keeps digests of their files.
        checked: whether their architectures must have the properties of ``lab/check``.
    """
    recipe = replace(recipe, data=os.path.abspath(recipe.data))
    test_sets = find_test_sets(recipe)
    check_scores(recipe, test_sets)
    candidates: list[Entry] = []
    for name, values in product(recipe.architectures, combinations(recipe.tune)):
        with naming(Entry(name, {}, tried=values).label, "cannot be trained"), blaming():
            entry = make_entry(recipe, name, {**recipe.architectures[name], **values})
            digest = plugin_digest(recipe, entry.options["arch"], plugins)
            candidates.append(replace(entry, tried=values, plugin=digest))
    entries: list[Entry] = []
    for number, entry in enumerate(candidates, start=1):
        report_progress(f"trying {entry.label} ({number} of {len(candidates)})")
        with naming(entry.label, "cannot be trained"), blaming():
            if entry.plugin and checked and entry.name not in {e.name for e in entries}:
                check_properties(recipe, entry)
            entry = replace(entry, parameters=count_parameters(recipe, entry))
            if match and entries:
                check_tuned_widths(entry.tried)
                entry = match_width(recipe, entry, entries[0].parameters)
            entries.append(try_candidate(recipe, entry, test_sets))
    if budget:
        entries = fit_budget(recipe, entries, budget, planned or {}, test_sets)
    recipe = replace(recipe, average=choose_average(recipe.average, entries))
    data = Path(recipe.data)
    digest = sha256(data) if data.is_dir() else ""
    environment = describe_environment("cuda" if torch.cuda.is_available() else "cpu")
    return Plan(recipe, tuple(entries), digest, test_sets, environment)


def check_scores(recipe: Recipe, splits: Collection[str]) -> None:
    """Check that the recipe's own scores are of test sets, and that their programs are there."""
    for split, line in recipe.score.items():
        if split not in splits:
            evaluated = ", ".join(splits) or "no split"
            raise ValueError(
                f"score {split}: models are evaluated on {evaluated}; add {split} to the key "
                "splits, or remove this score"
            )
        check_program(line, "score")


def check_properties(recipe: Recipe, entry: Entry) -> None:
    """Check that a user's architecture does what every one must do, in the small size of ``check``.

    So the options of the architecture count, but neither its sizes nor the recipe's.
    """
    _, options = split_sizes({**recipe.architectures[entry.name], "arch": None})
    require(entry.options["arch"], *command_line(options), task=recipe.task)


def check_tuned_widths(values: Options) -> None:
    """Check that no width is tuned that matching the number of parameters would change."""
    for option in values:
        if option.endswith(("embed-dim", "width", "ffn", "size")):
            raise ValueError(f"--tune {option}: equal parameters set widths; add --match none")


def try_candidate(recipe: Recipe, entry: Entry, splits: Collection[str]) -> Entry:
    """Check the data with the model of a candidate, then try to train it.

    The model is built once for both, and is gone when the next one is built.
    """
    untrained = build(recipe, entry)
    check_lengths(recipe, entry, untrained, splits)
    return try_training(recipe, entry, untrained, splits)


def choose_average(average: int | None, entries: Sequence[Entry]) -> int:
    """The number of checkpoints to average. Every training saves at least as many.

    Raises:
        ValueError: a training saves fewer than the number that was given.
    """
    entry = min(entries, key=lambda entry: entry.checkpoints)
    if average is None:
        return min(entry.checkpoints, 3) if entry.checkpoints > 1 else 0
    if not 0 <= average <= entry.checkpoints:
        raise ValueError(
            f"--average {average}: {entry.updates} updates of {entry.label} leave "
            f"{entry.checkpoints} checkpoints; give from 0 to as many, or more updates"
        )
    return average


def save_plan(plan: Plan, out: Path) -> Plan:
    """Keep a plan beside its runs, with the architectures and seeds of earlier commands.

    Returns:
        The plan that is kept.

    Raises:
        ValueError: these were begun with other data or settings; nothing is written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / LOCK):  # two commands may begin at once
        if (out / PLAN).is_file():
            plan = extend(load_plan(out), plan, out)
        write_plan(plan, out)
    return plan


def write_plan(plan: Plan, out: Path) -> None:
    """Write a plan as :func:`load_plan` reads it."""
    with replacing(out / PLAN) as path:
        path.write_text(yaml.safe_dump(asdict(plan), sort_keys=False), encoding="utf-8")


def extend(earlier: Plan, plan: Plan, out: Path) -> Plan:
    """A plan with the architectures and seeds of an earlier one for the same folder."""
    if plan.recipe.data == earlier.recipe.data and earlier.digest not in ("", plan.digest):
        raise ValueError(
            f"{plan.recipe.data} has other files than when {out} was begun; give another --out"
        )
    entries = {entry.label: entry for entry in plan.entries}
    tuned = {entry.name: sorted(entry.tried) for entry in plan.entries}
    for before in earlier.entries:
        entry = entries.setdefault(before.label, before)
        if before.plugin not in ("", entry.plugin):
            raise ValueError(
                f"{entry.label}: the files of its plugin have changed since its runs in {out}; "
                f"give --redo {entry.name} to train it anew, or another --out"
            )
        differences = differing_settings(plan, entry, earlier, before)
        if tuned.get(before.name, sorted(before.tried)) != sorted(before.tried):
            differences.append("tune")
        if differences:
            raise ValueError(
                f"{out} was begun with other settings ({entry.name}: {', '.join(differences)}); "
                "give these another --out"
            )
    first, *others = earlier.recipe.seeds  # tuning runs have the first one
    seeds = [first, *sorted({*others, *plan.recipe.seeds} - {first})]
    recipe = replace(plan.recipe, seeds=seeds)
    environment = earlier.environment or plan.environment
    return replace(plan, recipe=recipe, entries=tuple(entries.values()), environment=environment)


def differing_settings(plan: Plan, entry: Entry, earlier: Plan, before: Entry) -> list[str]:
    """The settings in which the trainings of an architecture differ between two plans."""
    now, then = (
        {"data": a_plan.recipe.data, "average": a_plan.recipe.average, **an_entry.options}
        for a_plan, an_entry in ((plan, entry), (earlier, before))
    )
    return [
        name
        for name in {**now, **then}
        if command_line({name: now.get(name)}) != command_line({name: then.get(name)})
    ]


def load_plan(out: Path) -> Plan:
    """The plan that :func:`save_plan` has kept, or that an earlier version has."""
    path = out / PLAN
    if not path.is_file():
        raise ValueError(f"{out} is not a folder of odeformers compare: it has no {PLAN}")
    with naming(path, f"is not a {PLAN} of odeformers compare"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        entries = tuple(construct(Entry, entry, str(path)) for entry in content["entries"])
        recipe = construct(Recipe, content["recipe"], str(path))
        recipe.data = os.path.abspath(recipe.data)  # earlier versions kept it as it was typed
        return construct(Plan, {**content, "recipe": recipe, "entries": entries}, str(path))
