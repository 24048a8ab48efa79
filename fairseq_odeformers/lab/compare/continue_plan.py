"""Continues plans: the same command again, more seeds or more architectures for a folder of runs.

What an earlier command has planned stays, and the same command again needs no trial.
"""

import argparse
import hashlib
from collections.abc import Collection
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import yaml

from fairseq_odeformers.files import sha256

from .entry import Entry
from .experiments import prepare_data
from .jobs import call_in_child
from .make_plan import make_plan
from .plan import PLAN, Plan, check_experiment, extend, load_plan
from .recipe import Options, Recipe


def plan_experiment(
    args: argparse.Namespace, recipe: Recipe, out: Path, redo: Collection[str]
) -> Plan:
    """The plan of an experiment, with what earlier commands have planned for the same folder.

    The same command again needs no trials.

    Raises:
        ValueError: a model cannot be trained, or the folder was begun with other settings.
    """
    earlier = load_plan(out) if (out / PLAN).is_file() else Plan(recipe, ())
    recipe.architectures = put_earlier_first(recipe.architectures, earlier)
    kept = earlier.keep(lambda entry: entry.name not in redo)
    check_experiment(kept, untried_plan(recipe, args.budget), out)
    prepare_data(recipe, args.dry_run)
    request = digest_request(args, recipe)
    if not redo and request == earlier.request and sha256(Path(recipe.data)) == earlier.data_digest:
        plan = earlier.keep(lambda entry: entry.name in recipe.architectures)
        plan = replace(plan, recipe=replace(plan.recipe, seeds=recipe.seeds))
    else:
        plan = replace(plan_in_fork(args, recipe, earlier, kept), request=request)
    return extend(earlier, plan, out, redo)


def untried_plan(recipe: Recipe, budget: float | None) -> Plan:
    """What is known of a plan before the trials of its models."""
    entries = (Entry(name, {}, tried=recipe.tune, budget=budget) for name in recipe.architectures)
    return Plan(recipe, tuple(entries))


def digest_request(args: argparse.Namespace, recipe: Recipe) -> str:
    """A digest of what a plan is made of, but for its data: the command and the plugins' files."""
    files = [path for folder in args.user_dir for path in sorted(Path(folder).rglob("*.py"))]
    asked = [
        asdict(replace(recipe, seeds=[])),
        [list(recipe.architectures), args.match, args.budget, args.no_check],
        [[str(path), sha256(path)] for path in files],
    ]
    return hashlib.sha256(yaml.safe_dump(asked).encode()).hexdigest()


def put_earlier_first(architectures: dict[str, Options], earlier: Plan) -> dict[str, Options]:
    """Architectures in the order of an earlier plan, so that its first one stays the baseline."""
    names = [*(entry.name for entry in earlier.entries), *architectures]
    return {name: architectures[name] for name in names if name in architectures}


def plan_in_fork(args: argparse.Namespace, recipe: Recipe, earlier: Plan, kept: Plan) -> Plan:
    """The plan of a recipe, from a fork of this process, which ends with its models.

    Trainings that are *kept* and have the same budget keep their updates, and the baseline of an
    earlier plan sets the number of parameters.
    """
    inherited = recipe.average is None and bool(kept.entries)
    if inherited:
        recipe = replace(recipe, average=earlier.recipe.average)
    match = args.match or ("parameters" if args.what.is_dir() else "none")
    first = next(iter(earlier.entries), None)
    return call_in_child(
        partial(
            make_plan,
            recipe,
            match=match == "parameters",
            baseline=None if first and first.name in recipe.architectures else first,
            budget=args.budget,
            planned={e.label: e.updates for e in kept.entries if e.budget == args.budget},
            plugins=[Path(folder) for folder in args.user_dir],
            checked=not args.no_check,
            inherited=inherited,
        )
    )
