"""Fairness: equal numbers of parameters, and equal effort.

:func:`make_plan` tries the variants of an experiment; :func:`match_parameters` chooses widths,
and :func:`fit_effort` numbers of updates.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import torch

from fairseq_odeformers.blame import blaming
from fairseq_odeformers.files import naming_faults
from fairseq_odeformers.lab.benchmark.timing import Stopwatch, describe_environment
from fairseq_odeformers.models.common.sizes import default_options
from fairseq_odeformers.options import SIDES

from .experiment import WIDTHS, Experiment
from .results import Options
from .runs import Shared, check_begun, share
from .scores import Facts
from .trial import Trial, Trials, call_in_child, read_trials
from .variant import Variant, make_variants, resolve_shares

TOLERANCE, LIMIT = 0.01, 0.2  # of the number of parameters: more is told, or refused
PLANNING = 0.1  # of its budget, the most that planning a model may take


@dataclass(frozen=True)
class Plan:
    """What is known of the runs of each variant before they begin.

    Attributes:
        seconds: of each training.
        trials: all that is measured now.
    """

    every: list[Facts]
    seconds: list[float]
    trials: Trials
    shared: Shared


def make_plan(experiment: Experiment, out: Path) -> Plan:
    """Try all variants, and check that what has begun in a folder was begun with the same settings.

    Raises:
        ValueError: it was not; or a variant cannot be trained or evaluated.
    """
    shared = share(experiment, out)
    trials = Trials(shared.data_digest, read_trials(out))
    plan = call_in_child(partial(try_all, experiment, shared, trials))
    check_begun(plan.every, out)
    return plan


def try_all(experiment: Experiment, shared: Shared, trials: Trials) -> Plan:
    """Try all variants, and make them equal in size and effort.

    Args:
        trials: what has been measured for this folder, which is not measured again.
    """
    watch, target, planned = Stopwatch(), shared.parameters, []
    begun = datetime.now().isoformat(timespec="seconds")
    most = 60 * experiment.budget * PLANNING if experiment.budget else math.inf
    variants = make_variants(experiment)
    order = sorted(variants, key=lambda variant: variant.name != shared.baseline)
    for number, variant in enumerate(order, start=1):
        label, begin = variant.label, time.perf_counter()
        told = f"trying {label} ({number} of {len(variants)}) ..."
        print(told, file=sys.stderr, flush=True)  # beside the output of a command
        with naming_faults(label, "cannot be trained"), blaming():
            if experiment.match and target:
                variant = match_parameters(variant, target, trials.count, begin + most)
            trial = trials.measure(variant, begin + most)
            planned.append(fit_effort(variant, trial))
        target = target or trial.parameters  # of the baseline, if it is tried
        if (taken := time.perf_counter() - begin) > most:
            print(
                f"Planning {label} has taken {taken:.1f} seconds, more than a tenth of its budget; "
                f"updates timed: {trial.timed}",
                flush=True,
            )
    if watch.disturbed:
        print(
            f"Other processes were busy on this machine's {os.cpu_count()} cores. If they go on, "
            "training may be faster with OMP_NUM_THREADS=1 before the command",
            flush=True,
        )
    environment = describe_environment("cuda" if torch.cuda.is_available() else "cpu")
    environment["planning time spent waiting for a core"] = f"{watch.waited:.0%}"
    told = ", ".join(f"{name} {value}" for name, value in environment.items())
    labels = [variant.label for variant in variants]
    planned.sort(key=lambda each: labels.index(each[0].label))
    every = [
        make_facts(variant, trial, updates, shared, begun, told)
        for variant, trial, updates in planned
    ]
    budget = 60 * (experiment.budget or 0)
    seconds = [budget or updates * trial.seconds for _, trial, updates in planned]
    return Plan(every, seconds, trials, replace(shared, parameters=shared.parameters or target))


def make_facts(
    variant: Variant, trial: Trial, updates: int, shared: Shared, command: str, environment: str
) -> Facts:
    """What is known of the runs of a variant before they begin."""
    experiment = variant.experiment
    return Facts(
        architecture=variant.name,
        seed=shared.seed,
        task=experiment.task,
        data=experiment.data,
        data_digest=shared.data_digest,
        code=variant.code,
        options=variant.options,
        tried=variant.tried,
        evaluate=experiment.evaluate,
        average=experiment.average,
        test_sets=experiment.test_sets,
        score=experiment.score,
        budget=experiment.budget,
        bleu_tokenize=experiment.bleu_tokenize or None,
        paper=experiment.paper.get(variant.name, {}),
        parameters=trial.parameters,
        updates=updates,
        epoch_updates=trial.epoch_updates,
        size=variant.size,
        defaults=variant.defaults,
        baseline=shared.baseline,
        validation_texts=trial.validation_texts,
        command=command,
        environment=environment,
    )


# --- effort ------------------------------------------------------------------------------------


def fit_effort(variant: Variant, trial: Trial) -> tuple[Variant, Trial, int]:
    """A variant whose schedule ends with its training, and the number of its updates.

    The training ends after its epochs, or in a budget of time.

    Raises:
        ValueError: fewer checkpoints are saved than are to be averaged.
    """
    experiment, epoch = variant.experiment, trial.epoch_updates
    before = updates = count_updates(variant.cfg.optimization, epoch)
    if experiment.budget:
        updates = int(60 * experiment.budget / trial.seconds)
        if updates < 1:
            raise ValueError(
                f"--budget: an update takes {trial.seconds:.1f} seconds; give more time"
            )
        variant = stretch_schedule(variant, before, updates)
    variant = replace(variant, options=resolve_shares(variant.options, updates))
    saved = count_checkpoints(variant.options, updates, epoch)
    if not 0 <= experiment.average <= saved:
        raise ValueError(
            f"--average {experiment.average}: {updates} updates of {variant.label} leave {saved} "
            "checkpoints; give from 0 to as many, or more updates"
        )
    return variant, trial, updates


def count_updates(optimization, per_epoch: int) -> int:
    """The updates of a training: to ``--max-epoch`` or ``--max-update``, whichever comes first."""
    limits = (optimization.max_epoch * per_epoch, optimization.max_update)
    updates = min((limit for limit in limits if limit > 0), default=0)
    if not updates:
        raise ValueError("the training has no end; give --max-epoch or --max-update")
    return updates


def stretch_schedule(variant: Variant, before: int, updates: int) -> Variant:
    """A variant whose schedule ends after other updates than before, and rises in a like share."""
    if variant.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    options = resolve_shares(variant.options, before)
    warmup, total = (
        max(1, round(float(options.get(name, 0)) * updates / before))
        for name in ("warmup-updates", "total-num-update")
    )
    return variant.change(
        max_update=updates, max_epoch=None, warmup_updates=warmup, total_num_update=total
    )


def count_checkpoints(options: Options, updates: int, epoch_updates: int) -> int:
    """The number of checkpoints that fairseq saves in a training and that can be averaged.

    At the end of an epoch it saves none that is named by updates.
    """
    if interval := int(options.get("save-interval-updates") or 0):
        saved = range(interval, updates + 1, interval)
        return sum(number % epoch_updates > 0 for number in saved)
    if options.get("no-epoch-checkpoints"):
        return 0
    return updates // epoch_updates // int(options.get("save-interval") or 1)


# --- parameters --------------------------------------------------------------------------------


def match_parameters(
    variant: Variant, target: int, count: Callable[[Variant], int], end: float = math.inf
) -> Variant:
    """A variant at the inner width, or else the width, that makes a number of parameters.

    Args:
        count: counts the parameters of a variant.
        end: on the clock; see :func:`search_width`.

    Raises:
        ValueError: at the nearest width the number differs by more than :data:`LIMIT`.
    """
    parameters = count(variant)
    if abs(parameters / target - 1) > TOLERANCE:
        names, step = width_options(variant.arch, variant.cfg.model)
        start = int(getattr(variant.cfg.model, names[0])) if names else 0

        def at_width(width: int) -> Variant:
            changed = variant.change(**dict.fromkeys(names, width))
            return replace(changed, size=f"{names[0].replace('_', '-')} {start} -> {width}")

        counts = {start: parameters}
        if names:
            search_width(lambda width: count(at_width(width)), counts, target, step, end)
        width = min(counts, key=lambda width: abs(counts[width] - target))
        variant, parameters = (variant if width == start else at_width(width)), counts[width]
    difference = parameters / target - 1
    if abs(difference) <= TOLERANCE:
        return variant
    more = "more" if difference > 0 else "fewer"
    told = f"{abs(difference):.0%} {more} parameters than the baseline"
    told = f"{variant.size or 'no width changes its size'}, {told}"
    if abs(difference) > LIMIT:
        remedy = "give other sizes such as --layers, or --match none"
        raise ValueError(f"--match parameters: {told}; {remedy}")
    return replace(variant, size=told)


def width_options(arch: str, model_config) -> tuple[list[str], int]:
    """The options that set the width together, and a number that divides all widths it may have."""
    defaults = default_options(arch)
    for width in WIDTHS:
        if names := [f"{side}_{width}" for side in SIDES if f"{side}_{width}" in defaults]:
            break
    else:
        return [], 1
    if width == "ffn_embed_dim":
        return names, 2
    names += [name for name in ("decoder_input_dim", "decoder_output_dim") if name in defaults]
    # Multiples of this fit the heads, and the halves of a model.
    heads = (getattr(model_config, f"{side}_attention_heads", None) for side in SIDES)
    return names, math.lcm(8, *(int(number) for number in heads if number))


def search_width(
    count: Callable[[int], int],
    counts: dict[int, int],
    target: int,
    step: int,
    end: float = math.inf,
) -> None:
    """Count parameters at widths up to the one whose number is nearest to a target.

    By the secant method. Where that stops, the next width towards the target is tried as well.

    Args:
        count: the number of parameters at a width, which grows with it, or else the search ends.
        counts: the numbers that are counted already, at first one; this adds others.
        step: all other widths are multiples of it.
        end: on the clock; none is counted after it where one is within :data:`LIMIT`.
    """
    (width,) = counts
    guess = (width // step + 1) * step
    while guess and (time.perf_counter() < end or abs(counts[width] / target - 1) > LIMIT):
        counts[guess] = count(guess)
        slope = (counts[guess] - counts[width]) / (guess - width)
        if slope <= 0:
            return
        width = min(counts, key=lambda width: abs(counts[width] - target))
        secant = round((width + (target - counts[width]) / slope) / step) * step
        larger = counts[width] < target
        guesses = (
            # One that is far too large may not fit into memory.
            max(step, min(secant, 2 * max(counts) // step * step)),
            (width // step + 1) * step if larger else (-(-width // step) - 1) * step,
        )
        guess = next((guess for guess in guesses if guess >= step and guess not in counts), 0)
