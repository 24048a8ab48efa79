"""Fairness: equal numbers of parameters, and equal effort.

:func:`match_parameters` chooses widths, :func:`fit_effort` numbers of updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from fairseq_odeformers.blame import blaming
from fairseq_odeformers.files import naming_faults
from fairseq_odeformers.models.common.sizes import default_options
from fairseq_odeformers.options import SIDES

from .experiment import WIDTHS
from .trial import Trial, count_checkpoints, count_updates
from .variant import Variant, resolve_shares

TOLERANCE, LIMIT = 0.01, 0.2  # of the number of parameters: more is told, or refused


@dataclass(frozen=True)
class Planned:
    """A variant with all of its options, and what its training takes."""

    variant: Variant
    trial: Trial
    updates: int

    @property
    def checkpoints(self) -> int:
        """The number of checkpoints that can be averaged."""
        return count_checkpoints(self.variant.options, self.updates, self.trial.epoch_updates)

    @property
    def training_seconds(self) -> float:
        """The time that a training may take."""
        budget = self.variant.experiment.budget
        return 60 * budget if budget else self.updates * self.trial.seconds

    @property
    def evaluation_seconds(self) -> float:
        """The time that validations and predictions may take."""
        experiment, trial = self.variant.experiment, self.trial
        validations = max(self.checkpoints, self.updates // trial.epoch_updates) + 1
        predictions = len(experiment.test_sets) * (2 if experiment.average else 1)
        return validations * trial.validation_seconds + predictions * trial.prediction_seconds


# --- effort ------------------------------------------------------------------------------------


def fit_effort(variant: Variant, trial: Trial) -> Planned:
    """A variant whose schedule ends with its training: after its epochs, or in a budget of time.

    Raises:
        ValueError: fewer checkpoints are saved than are to be averaged.
    """
    with naming_faults(variant.label, "cannot be trained"):
        experiment, optimization = variant.experiment, variant.cfg.optimization
        if not experiment.budget:
            updates = count_updates(optimization, trial.epoch_updates)
        else:
            updates = int(60 * experiment.budget / trial.seconds)
            if updates < 1:
                raise ValueError(
                    f"--budget: an update takes {trial.seconds:.1f} seconds; give more time"
                )
            variant = stretch_schedule(variant, trial, updates)
        variant = replace(variant, options=resolve_shares(variant.options, updates))
        planned = Planned(variant, trial, updates)
    if not 0 <= experiment.average <= planned.checkpoints:
        raise ValueError(
            f"--average {experiment.average}: {updates} updates of {variant.label} leave "
            f"{planned.checkpoints} checkpoints; give from 0 to as many, or more updates"
        )
    return planned


def stretch_schedule(variant: Variant, trial: Trial, updates: int) -> Variant:
    """A variant whose schedule ends after so many updates, and rises in the same share of them."""
    if variant.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    before = count_updates(variant.cfg.optimization, trial.epoch_updates)
    options = resolve_shares(variant.options, before)
    warmup, total = (
        max(1, round(int(options.get(name, 0)) * updates / before))
        for name in ("warmup-updates", "total-num-update")
    )
    return variant.change(
        max_update=updates, max_epoch=None, warmup_updates=warmup, total_num_update=total
    )


# --- parameters --------------------------------------------------------------------------------


def match_parameters(variant: Variant, target: int, count: Callable[[Variant], int]) -> Variant:
    """A variant at the inner width, or else the width, that makes a number of parameters.

    Args:
        count: counts the parameters of a variant.

    Raises:
        ValueError: at the nearest width the number differs by more than :data:`LIMIT`.
    """
    with naming_faults(variant.label, "cannot be trained"), blaming():
        variant, parameters = choose_width(variant, target, count)
        difference = parameters / target - 1
        if abs(difference) <= TOLERANCE:
            return variant
        more = "more" if difference > 0 else "fewer"
        told = f"{abs(difference):.0%} {more} parameters than the baseline"
        if abs(difference) > LIMIT:
            tried = f" ({variant.size})" if variant.size else ""
            raise ValueError(
                f"--match parameters: {told}{tried}; give other sizes such as --layers, or --match "
                "none"
            )
        return replace(variant, size=", ".join(filter(None, [variant.size, told])))


def choose_width(
    variant: Variant, target: int, count: Callable[[Variant], int]
) -> tuple[Variant, int]:
    """The same without a limit; returns the number of parameters as well."""
    parameters = count(variant)
    if abs(parameters - target) <= TOLERANCE * target:
        return variant, parameters
    names, step = width_options(variant.arch, variant.cfg.model)
    if not names:
        return replace(variant, size="has no width to choose"), parameters
    start = int(getattr(variant.cfg.model, names[0]))

    def at_width(width: int) -> Variant:
        changed = variant.change(**dict.fromkeys(names, width))
        return replace(changed, size=f"{names[0].replace('_', '-')} {start} -> {width}")

    counts = {start: parameters}
    width = search_width(lambda width: count(at_width(width)), counts, target, step)
    if width is None:
        return replace(variant, size=f"{names[0]} does not change its size"), parameters
    return variant if width == start else at_width(width), counts[width]


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
    count: Callable[[int], int], counts: dict[int, int], target: int, step: int
) -> int | None:
    """The width whose number of parameters is nearest to a target; None if that does not grow.

    By the secant method. Where that stops, the next width towards the target is tried as well.

    Args:
        count: the number of parameters at a width, which grows with it.
        counts: the numbers that are counted already, at first one; this adds others.
        step: all other widths are multiples of it.
    """
    (width,) = counts
    guess = (width // step + 1) * step
    while True:
        counts[guess] = count(guess)
        slope = (counts[guess] - counts[width]) / (guess - width)
        if slope <= 0:
            return None
        width = min(counts, key=lambda width: abs(counts[width] - target))
        larger = counts[width] < target
        secant = round((width + (target - counts[width]) / slope) / step) * step
        guesses = (
            # One that is far too large may not fit into memory.
            max(step, min(secant, 2 * max(counts) // step * step)),
            (width // step + 1) * step if larger else (-(-width // step) - 1) * step,
        )
        guess = next((guess for guess in guesses if guess >= step and guess not in counts), None)
        if guess is None:
            return width
