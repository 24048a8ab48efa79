"""Plans: a recipe and its architectures as they will be trained, kept beside the runs.

``make_plan.py`` makes them. A folder keeps one plan, which later commands extend.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import yaml
from filelock import FileLock

from fairseq_odeformers.files import find_free_name, naming_faults, replacing
from fairseq_odeformers.options import name_differences

from .entry import Entry
from .logs import clock
from .recipe import Recipe, construct, to_words

PLAN, LOCK = "plan.yaml", ".plan.lock"
# Keys that an entry has in plans of earlier versions.
RENAMED = {"seconds": "training_seconds", "evaluation": "evaluation_seconds"}
# Options of an evaluation that change no prediction, only the memory that it needs.
BATCHING = ("batch-size", "max-sentences", "max-tokens")
PLACE = "user-dir"  # of this package, or of plugins, which have digests
Differences = dict[str, tuple[str, ...]]  # by architecture, such as "lr 1e-3 → 2e-3"


@dataclass(frozen=True)
class Plan:
    """A recipe, and its architectures as they will be trained."""

    recipe: Recipe  # with the absolute path of its data
    entries: tuple[Entry, ...]
    data_digest: str = ""  # of the files; its key in YAML is digest
    # The splits to evaluate on, each with the file of its references or texts as published, if
    # there is one. None where an earlier version has planned, which looked for them at each report.
    test_sets: dict[str, str | None] | None = None
    environment: dict[str, str] = field(default_factory=dict)  # date, machine, versions
    request: str = ""  # a digest of what its last command has asked for
    command_seconds: float = 0.0  # that commands have taken, from their trials to their reports

    def keep(self, condition: Callable[[Entry], object]) -> Plan:
        """The plan with those entries alone that fulfil a condition."""
        return replace(self, entries=tuple(filter(condition, self.entries)))


def save_plan(plan: Plan, out: Path, redo: Collection[str] = ()) -> Plan:
    """Keep a plan beside its runs, with what earlier commands have planned; returns the whole.

    Architectures in *redo* are planned anew, and keep their place.

    Raises:
        ValueError: see :func:`extend`; nothing is written.
    """
    out.mkdir(parents=True, exist_ok=True)
    with FileLock(out / LOCK):  # two commands may begin at once
        if (out / PLAN).is_file():
            plan = extend(load_plan(out), plan, out, redo)
        write_plan(plan, out)
    return plan


def add_time(seconds: float, out: Path) -> None:
    """Add the time of a command to the time of earlier ones, in the plan that is kept."""
    with FileLock(out / LOCK):
        plan = load_plan(out)
        write_plan(replace(plan, command_seconds=plan.command_seconds + seconds), out)


def write_plan(plan: Plan, out: Path) -> None:
    """Write a plan as :func:`load_plan` reads it."""
    content = asdict(plan)
    content["digest"] = content.pop("data_digest")
    with replacing(out / PLAN) as path:
        path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def extend(earlier: Plan, plan: Plan, out: Path, redo: Collection[str] = ()) -> Plan:
    """A plan with the architectures and seeds of an earlier one for the same folder.

    The earlier architectures come first, so the baseline stays.

    Raises:
        ValueError: its runs have other data or settings.
    """
    order = [entry.name for entry in (*earlier.entries, *plan.entries)]
    earlier = earlier.keep(lambda entry: entry.name not in redo)
    check_experiment(earlier, plan, out)
    free = find_free_name(out)
    same = earlier.data_digest in ("", plan.data_digest)  # "" in plans of earlier versions
    if plan.recipe.data == earlier.recipe.data and not same:
        raise ValueError(
            f"{plan.recipe.data} has other files than when {out} was begun; give another folder, "
            f"such as --out {free}"
        )
    entries = {entry.label: entry for entry in (*earlier.entries, *plan.entries)}
    differing: Differences = {}
    for before in earlier.entries:
        entry = entries[before.label]
        if before.plugin not in ("", entry.plugin):
            raise ValueError(
                f"{entry.label}: the files of its plugin have changed since its runs in {out}; "
                f"give --redo {entry.name} to train it anew, or a folder such as --out {free}"
            )
        if differences := differing_settings(plan, entry, earlier, before):
            differing[entry.name] = differences
    refuse(differing, {entry.name for entry in plan.entries}, out)
    first, *others = earlier.recipe.seeds  # tuning runs have the first one
    seeds = [first, *sorted({*others, *plan.recipe.seeds} - {first})]
    return replace(
        plan,
        recipe=replace(plan.recipe, seeds=seeds),
        entries=tuple(sorted(entries.values(), key=lambda entry: order.index(entry.name))),
        environment=earlier.environment or plan.environment,
        command_seconds=earlier.command_seconds,
    )


def check_experiment(earlier: Plan, plan: Plan, out: Path) -> None:
    """Check what needs no trial: the data, the tuned options and the budget of earlier runs."""
    entries = {entry.name: entry for entry in plan.entries}
    differing: Differences = {}
    for before in earlier.entries:
        then = early_settings(earlier, before)
        now = early_settings(plan, entries.get(before.name, before))
        differing[before.name] = name_differences({k: (then[k], now[k]) for k in then})
    refuse(differing, entries.keys(), out)


def early_settings(plan: Plan, entry: Entry) -> dict[str, str]:
    """The settings of an architecture's runs that are known before its trial."""
    return {
        "data": plan.recipe.data,
        "tune": " ".join(sorted(entry.tried)),
        "budget": clock(60 * entry.budget) if entry.budget else "",
    }


def refuse(differing: Differences, names: Set[str], out: Path) -> None:
    """Raise an error if architectures differ from their runs, with what was and what is given now.

    It tells of ``--redo`` if the command names all of them.
    """
    by_difference: dict[tuple[str, ...], list[str]] = {}
    for name, differences in differing.items():
        if differences:
            by_difference.setdefault(differences, []).append(name)
    if by_difference:
        changed = [name for of_difference in by_difference.values() for name in of_difference]
        told = (f"{', '.join(of)}: {', '.join(what)}" for what, of in by_difference.items())
        redo = f"--redo {' '.join(changed)} to train anew, or " * (names >= {*changed})
        raise ValueError(
            f"{out} was begun with other settings ({'; '.join(told)}); give {redo}another folder, "
            f"such as --out {find_free_name(out)}"
        )


def differing_settings(plan: Plan, entry: Entry, earlier: Plan, before: Entry) -> tuple[str, ...]:
    """The settings of an architecture's runs that differ between two plans."""
    then, now = (
        {"average": a_plan.recipe.average, **an_entry.options}
        | {f"evaluate {k}": v for k, v in a_plan.recipe.evaluate.items() if k not in BATCHING}
        for a_plan, an_entry in ((earlier, before), (plan, entry))
    )
    return name_differences(
        {
            name: (show(then.get(name)), show(now.get(name)))
            for name in {**now, **then}
            if name != PLACE
        }
    )


def show(value: object) -> str:
    """The value of an option as it is typed; "" if the option is left out."""
    words = to_words({"option": value})
    return words[-1] if len(words) > 1 else "set" * len(words)


def load_plan(out: Path) -> Plan:
    """The plan that :func:`save_plan` has kept, or that an earlier version has."""
    path = out / PLAN
    if not path.is_file():
        raise ValueError(f"{out}: it has no {PLAN}; give a folder that was --out of compare")
    with naming_faults(path, f"is not a {PLAN} of odeformers compare"):
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        content["data_digest"] = content.pop("digest", "")
        renamed = ({RENAMED.get(k, k): v for k, v in e.items()} for e in content["entries"])
        entries = tuple(construct(Entry, entry, str(path)) for entry in renamed)
        recipe = construct(Recipe, content["recipe"], str(path))
        recipe.data = os.path.abspath(recipe.data)  # earlier versions kept it as it was typed
        return construct(Plan, {**content, "recipe": recipe, "entries": entries}, str(path))
