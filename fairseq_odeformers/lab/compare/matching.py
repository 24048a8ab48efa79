"""Fair comparisons: architectures with equal numbers of parameters, or trained for equal time.

:func:`match_width` finds the width that makes a number of parameters, :func:`fit_budget` the number
of updates that fill a number of minutes.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch

from fairseq_odeformers.files import naming_faults
from fairseq_odeformers.lab.benchmark.timing import Stopwatch
from fairseq_odeformers.models.common.sizes import default_options
from fairseq_odeformers.options import SIDES, hyphenate

from .entry import Entry, parse_training
from .logs import report_progress
from .recipe import Options, Recipe, merge
from .trial import (
    build,
    count_parameters,
    find_twin,
    start_training,
    time_updates,
    try_training,
)

TOLERANCE, LIMIT = 0.01, 0.2  # of the number of parameters: more is told, or refused
ROUNDS = 3  # how often an architecture is timed
MOST_ROUNDS = 9  # the same, if other processes are busy meanwhile
TIMED = 1.0  # seconds of updates in each of these rounds, at least
WIDTHS = ("ffn_embed_dim", "embed_dim")  # the first one that an architecture has is chosen


def match_width(recipe: Recipe, entry: Entry, target: int) -> Entry:
    """An architecture at the inner width, or else the width, that makes a number of parameters.

    Raises:
        ValueError: at the nearest width the number differs by more than :data:`LIMIT`.
    """
    entry, parameters = choose_width(recipe, entry, target)
    difference = parameters / target - 1
    if abs(difference) <= TOLERANCE:
        return entry
    more = "more" if difference > 0 else "fewer"
    told = f"{abs(difference):.0%} {more} parameters than the first"
    if abs(difference) > LIMIT:
        tried = f" ({entry.note})" if entry.note else ""
        raise ValueError(
            f"--match parameters: {told}{tried}; give other sizes such as --layers, or --match none"
        )
    return replace(entry, note=", ".join(filter(None, [entry.note, told])))


def choose_width(recipe: Recipe, entry: Entry, target: int) -> tuple[Entry, int]:
    """The same without a limit; returns the number of parameters as well."""

    def count(entry: Entry) -> int:
        return count_parameters(build(recipe, entry).model)

    parameters = count(entry)
    if abs(parameters - target) <= TOLERANCE * target:
        return entry, parameters
    model_config = parse_training(recipe, entry).model
    names, step = width_options(entry.options["arch"], model_config)
    if not names:
        return replace(entry, note="has no width to choose"), parameters
    start, options = int(getattr(model_config, names[0])), [*map(hyphenate, names)]

    def at_width(width: int) -> Entry:
        changed = replace(entry, options={**entry.options, **dict.fromkeys(options, width)})
        return replace(changed, note=f"{options[0]} {start} -> {width}")

    counts = {start: parameters}
    width = search_width(lambda width: count(at_width(width)), counts, target, step)
    if width is None:
        return replace(entry, note=f"{options[0]} does not change its size"), parameters
    return entry if width == start else at_width(width), counts[width]


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


def fit_budget(
    recipe: Recipe,
    entries: Sequence[Entry],
    minutes: float,
    planned: Mapping[str, int],
    baseline: Entry | None = None,
) -> list[Entry]:
    """Architectures whose trainings all take so many minutes.

    Updates are counted, not time, so that a training can be resumed and repeated; *planned* has the
    updates of those that have begun, by label. Others are timed beside the first of these, perhaps
    a *baseline* that the recipe lacks, unless a plugin has it, and get the time that its updates
    would take now: the machine may be slower or faster than when that was planned. The report has
    the time that a training took. Candidates that cost the same have as many updates as the first.
    """
    known = [baseline, *entries] if baseline and not baseline.plugin else entries
    begun = [entry for entry in known if entry.label in planned][:1]
    timed: list[Entry] = []
    for entry in entries:
        if entry.label not in planned and not find_twin(entry, timed):
            timed.append(entry)
    times, fitted = time_in_rounds(recipe, [*begun, *timed] if timed else []), []
    seconds = minutes * 60
    if begun and timed:
        seconds = planned[begun[0].label] * times[begun[0].label]
    for entry in entries:
        with naming_faults(entry.label, "cannot be trained"):
            updates = planned.get(entry.label)
            lasts = seconds if updates is None else minutes * 60
            if updates is None:
                twin = find_twin(entry, fitted)
                updates = twin.updates if twin else updates_within(seconds, times[entry.label])
            entry = stretch_schedule(entry, updates)
            entry = try_training(recipe, entry, build(recipe, entry))
            fitted.append(replace(entry, training_seconds=lasts, budget=minutes))
    return fitted


def time_in_rounds(recipe: Recipe, entries: Sequence[Entry]) -> dict[str, float]:
    """The seconds of an update of each architecture, the median over rounds.

    A round in which other processes were busy is repeated, and counts only if they do not end in
    time.
    """
    rounds: list[dict[str, float]] = []
    disturbed: list[dict[str, float]] = []
    while entries and len(rounds) < ROUNDS and len(rounds) + len(disturbed) < MOST_ROUNDS:
        watch = Stopwatch()
        again = ", again: other processes are busy" if disturbed else ""
        measured = time_round(recipe, entries, f"{len(rounds) + 1} of {ROUNDS}{again}")
        (disturbed if watch.disturbed else rounds).append(measured)
    counted = rounds if len(rounds) == ROUNDS else [*rounds, *disturbed]
    return {e.label: statistics.median(each[e.label] for each in counted) for e in entries}


def time_round(recipe: Recipe, entries: Sequence[Entry], number: str) -> dict[str, float]:
    """The seconds of an update of each architecture.

    Each takes turns with the first one, update by update, since the speed of many machines drifts:
    their ratio is of the same moments. A GPU's does not, and one may have room for one model alone.
    """
    if torch.cuda.is_available():
        return {e.label: time_side_by_side(recipe, [e], number)[0] for e in entries}
    first, *others = entries
    pairs = [time_side_by_side(recipe, [first, other], number) for other in others]
    firsts = [pair[0] for pair in pairs] or time_side_by_side(recipe, [first], number)
    of_first = statistics.fmean(firsts)
    ratios = {entry.label: second / one for entry, (one, second) in zip(others, pairs)}
    return {first.label: of_first, **{label: ratio * of_first for label, ratio in ratios.items()}}


def time_side_by_side(recipe: Recipe, entries: Sequence[Entry], number: str) -> list[float]:
    """The seconds of an update, over a second or more of each of some architectures."""
    names = " and ".join(entry.label for entry in entries)
    report_progress(f"timing {names} ({number})")
    with naming_faults(names, "cannot be trained"):
        return time_updates([start_training(recipe, build(recipe, e)) for e in entries], TIMED)


def updates_within(budget: float, seconds: float) -> int:
    """How many updates of so many seconds fit into a budget of seconds."""
    updates = int(budget / seconds)
    if updates < 1:
        raise ValueError(f"--budget: an update takes {seconds:.1f} seconds; give more time")
    return updates


def stretch_schedule(entry: Entry, updates: int) -> Entry:
    """An architecture whose schedule ends after so many updates, and rises in the same share."""
    if entry.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    changes: Options = {"max-update": updates, "max-epoch": None}
    for name in ("warmup-updates", "total-num-update"):
        before = int(entry.options.get(name, 0))
        changes[name] = max(1, round(before * updates / entry.updates))
    return replace(entry, options=merge(entry.options, changes))
