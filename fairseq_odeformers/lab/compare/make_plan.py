"""Makes plans: each architecture of a recipe gets its options and its size, and is tried.

A trial finds what would end a training, an evaluation or the report hours later, and measures what
a run costs.
"""

import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from fairseq.data.data_utils import infer_language_pair

from fairseq_odeformers.blame import blaming
from fairseq_odeformers.files import naming_faults, sha256
from fairseq_odeformers.lab.benchmark.timing import Stopwatch, describe_environment
from fairseq_odeformers.lab.check.command import require
from fairseq_odeformers.lab.commands import check_program
from fairseq_odeformers.models.common.kinds import Kind
from fairseq_odeformers.models.common.sizes import NEUTRAL, split_sizes
from fairseq_odeformers.options import underscore

from .entry import Entry, make_entry, plugin_digest
from .lengths import check_lengths
from .logs import report_progress
from .matching import WIDTHS, fit_budget, match_width
from .plan import Plan
from .recipe import Options, Recipe, find_test_sets, to_words
from .trial import build, count_parameters, find_twin, repeat_trial, try_training

RECENT = 5  # times as many checkpoints as are averaged, so that none is of an early model


def make_plan(
    recipe: Recipe,
    match: bool = True,
    baseline: Entry | None = None,
    budget: float | None = None,
    planned: Mapping[str, int] | None = None,
    plugins: Sequence[Path] = (),
    checked: bool = True,
    inherited: bool = False,
) -> Plan:
    """Build and check all models of a recipe.

    The options of each architecture, and of each candidate if options are tuned, are parsed as
    fairseq-train parses them, and its model is built. Then a few updates are made with the data.

    Args:
        match: choose widths so that each model has as many parameters as the first one.
        baseline: the first one, where an earlier plan has it and the recipe does not.
        budget, planned: see :func:`~fairseq_odeformers.lab.compare.matching.fit_budget`.
        plugins: the user's folders. The plan keeps digests of their files.
        checked: whether their architectures must have the properties of ``lab/check``.
        inherited: whether an earlier plan has chosen how many checkpoints are averaged.
    """
    watch = Stopwatch()
    recipe = replace(recipe, train={**infer_languages(recipe), **recipe.train})
    test_sets = find_test_sets(recipe)
    recipe.splits = [*test_sets]
    check_scores(recipe)
    candidates = list(make_candidates(recipe, plugins))
    if match and len(candidates) > 1:
        check_tuned_widths(recipe.tune)
    if checked:
        check_plugins(recipe, candidates)
    entries: list[Entry] = []
    for number, entry in enumerate(candidates, start=1):
        report_progress(f"trying {entry.label} ({number} of {len(candidates)})")
        with naming_faults(entry.label, "cannot be trained"), blaming():
            if twin := find_twin(entry, entries):
                entry = repeat_trial(entry, twin)
            else:
                if match and (first := baseline or next(iter(entries), None)):
                    entry = match_width(recipe, entry, first.parameters)
                entry = try_candidate(recipe, entry)
            entries.append(entry)
    if budget:
        entries = fit_budget(recipe, entries, budget, planned or {}, baseline)
    recipe = replace(recipe, average=choose_average(recipe.average, entries, inherited))
    environment = describe_environment("cuda" if torch.cuda.is_available() else "cpu")
    environment["planning time spent waiting for a core"] = f"{watch.waited:.0%}"
    if watch.disturbed:
        print(
            f"Other processes were busy on this machine's {os.cpu_count()} cores. If they go on, "
            "training may be faster with OMP_NUM_THREADS=1 before the command",
            flush=True,
        )
    return Plan(recipe, tuple(entries), sha256(Path(recipe.data)), test_sets, environment)


def infer_languages(recipe: Recipe) -> Options:
    """The languages of translations, by the data, as fairseq finds them where a recipe has none."""
    names = ("source-lang", "target-lang")
    translates = Kind.of_task(recipe.task) is Kind.TRANSLATION
    if not translates or all(recipe.train.get(name) for name in names):
        return {}
    return dict(zip(names, infer_language_pair(recipe.data)))


def make_candidates(recipe: Recipe, plugins: Sequence[Path]) -> Iterable[Entry]:
    """The architectures of a recipe, each with all combinations of the values of tuned options.

    Each model is built, so that a wrong value is refused before the first trial.
    """
    for name in recipe.architectures:
        for values in itertools.product(*recipe.tune.values()):
            tried = dict(zip(recipe.tune, values))
            called = " ".join([name, *(f"--tune {key}={value}" for key, value in tried.items())])
            with naming_faults(called, "cannot be trained"), blaming():
                entry = make_entry(recipe, name, {**recipe.architectures[name], **tried})
                build(recipe, entry)
                digest = plugin_digest(recipe, entry.options["arch"], plugins)
            yield replace(entry, tried=tried, plugin=digest)


def check_scores(recipe: Recipe) -> None:
    """Check that the recipe's own scores are of test sets, and that their programs are there."""
    splits = recipe.splits or []
    for split, line in recipe.score.items():
        if split not in splits:
            evaluated = ", ".join(splits) or "no split"
            raise ValueError(
                f"score {split}: models are evaluated on {evaluated}; add {split} to the key "
                "splits, or remove this score"
            )
        check_program(line, "score")


def check_tuned_widths(options: Iterable[str]) -> None:
    """Check that no width is tuned that matching the number of parameters would change."""
    for option in options:
        if option == "size" or NEUTRAL.get(option, underscore(option)).endswith(WIDTHS):
            raise ValueError(f"--tune {option}: equal parameters set widths; add --match none")


def check_plugins(recipe: Recipe, candidates: Iterable[Entry]) -> None:
    """Check that the plugins' architectures pass ``odeformers check``, which builds small models.

    Each gets its own options without neutral sizes, and none of those for all.
    """
    for entry in {entry.name: entry for entry in candidates if entry.plugin}.values():
        _, options = split_sizes({**recipe.architectures[entry.name], "arch": None})
        with naming_faults(entry.name, "cannot be trained"), blaming():
            require(entry.options["arch"], *to_words(options), task=recipe.task)


def try_candidate(recipe: Recipe, entry: Entry) -> Entry:
    """Check the data with the model of a candidate, then try to train it.

    The model is built once for both, and is gone when the next one is built.
    """
    untrained = build(recipe, entry)
    check_lengths(recipe, entry, untrained)
    entry = replace(entry, parameters=count_parameters(untrained.model))
    return try_training(recipe, entry, untrained)


def choose_average(average: int | None, entries: Sequence[Entry], inherited: bool = False) -> int:
    """The number of checkpoints to average; every training saves at least as many."""
    entry = min(entries, key=lambda entry: entry.checkpoints)
    if average is None:
        fit = min(entry.checkpoints // RECENT, 3)
        return fit if fit > 1 else 0
    if not 0 <= average <= entry.checkpoints:
        source = ", as the earlier runs in --out have" if inherited else ""
        remedy = "another --out" if inherited else "from 0 to as many, or more updates"
        raise ValueError(
            f"--average {average}{source}: {entry.updates} updates of {entry.label} leave "
            f"{entry.checkpoints} checkpoints; give {remedy}"
        )
    return average
