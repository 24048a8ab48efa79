"""Give variants equal numbers of parameters and equal effort.

:func:`make_fair` estimates the costs of variants, after :func:`match_parameters` has chosen their
widths. ``estimate.py`` measures the costs and chooses the numbers of updates.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import torch

from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.options import SIDES, hyphenate
from fairseq_odeformers.registry import default_options
from odeformers.benchmark.timing import describe_environment

from .estimate import Estimate, count_parameters, make_estimate, measure
from .experiment import WIDTHS
from .variant import Variant

# If parameter counts differ by more than TOLERANCE, the column size shows it; above LIMIT, it is an
# error.
TOLERANCE, LIMIT = 0.01, 0.2
PLANNING = 0.1  # maximum share of a model's budget for planning


def make_fair(
    variants: Sequence[Variant], started: Sequence[Estimate], match: bool
) -> list[Estimate]:
    """Estimate the costs of variants, made equal in size and effort; the baseline comes first.

    All variants get as many parameters as the baseline's runs that have started. If no run of the
    baseline has started, they get as many as its first variant. Variants with equal costs are
    measured once.

    Args:
        started: estimates of the runs that have started.
        match: whether widths are chosen for equal numbers of parameters.
    """
    baseline, environment = variants[0].baseline, name_environment()
    known = {each.variant.cost_label: each for each in started}
    settled = any(each.variant.architecture == baseline for each in started)  # the size to match
    variants = sorted(variants, key=lambda variant: variant.architecture != baseline)
    fair: list[Estimate] = []
    late: list[str] = []  # names
    for number, variant in enumerate(variants, start=1):
        of_baseline = (each for each in (*started, *fair) if each.variant.architecture == baseline)
        target = next((each.parameters for each in of_baseline), 0) if match else 0
        kept = known.get(variant.cost_label)
        with naming_faults(variant.label, "cannot be trained"):
            if kept and (
                not target
                or kept in fair  # another variant of this command has the same cost
                or (settled and kept.size)  # its width matches the baseline's run
                or is_near(kept.parameters, target)
            ):
                variant = repeat_width(variant, kept, match)
                estimate = make_estimate(variant, kept.measured, kept.size, environment)
            else:
                place = f"{number} of {len(variants)}"  # on stderr, apart from the output
                print(f"trying {variant.label} ({place}) ...", file=sys.stderr, flush=True)
                most = 60 * variant.budget * PLANNING if variant.budget else math.inf
                end = time.perf_counter() + most
                variant, size = match_parameters(variant, target) if target else (variant, "")
                estimate = make_estimate(variant, measure(variant, end), size, environment)
                if time.perf_counter() > end:
                    late.append(variant.label)
            fair.append(estimate)
            known[variant.cost_label] = estimate
    for line in warn_of_warmup(fair):
        print(line, flush=True)
    if late:
        print(
            f"Planning took more than a tenth of the budget: {', '.join(late)}. Few updates were "
            "timed, so runs may miss the budget; give a longer --budget",
            flush=True,
        )
    return fair


def name_environment() -> str:
    """Describe date, machine and versions."""
    facts = describe_environment("cuda" if torch.cuda.is_available() else "cpu")
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def repeat_width(variant: Variant, kept: Estimate, match: bool) -> Variant:
    """Set a variant to the width that was chosen when its cost was estimated."""
    if match and kept.size:
        names, _ = width_options(variant)
        variant = variant.change(**{n: kept.variant.options.get(hyphenate(n)) for n in names})
    if variant.tried:
        variant.build()  # a value with little effect on the cost may still be invalid
    return variant


def warn_of_warmup(estimates: Sequence[Estimate]) -> Iterator[str]:
    """Yield a warning about runs that end before the learning rate has reached its value."""
    ends: dict[tuple[int, int], list[str]] = {}
    for estimate in estimates:
        schedule = estimate.variant.cfg.lr_scheduler
        rising = int(getattr(schedule, "warmup_updates", 0) or 0)
        if rising > estimate.updates:
            ends.setdefault((rising, estimate.updates), []).append(estimate.variant.label)
    for (rising, updates), names in ends.items():
        yield (
            f"The learning rate rises for {rising:,} updates, and runs end after {updates:,}: "
            f"{', '.join(names)}. Give --warmup-updates 10%, or more updates"
        )


# --- parameters --------------------------------------------------------------------------------


def match_parameters(variant: Variant, target: int) -> tuple[Variant, str]:
    """Choose the inner width, or else the width, with which a variant has *target* parameters.

    Returns:
        The variant, and how its width was chosen.

    Raises:
        ValueError: at the nearest width, the number differs by more than :data:`LIMIT`.
    """
    names, step = width_options(variant)
    chosen = getattr(variant.cfg.model, names[0]) if names else 0
    start = width = int(chosen or 0)  # with 0, the model chooses

    def at_width(width: int) -> Variant:
        return variant if width == start else variant.change(**dict.fromkeys(names, width))

    @cache
    def count(width: int) -> int:
        return count_parameters(at_width(width).build()[1])

    if names and not is_near(count(start), target):
        width = search_width(count, start, target, step)
    size = f"{names[0].replace('_', '-')} {start or 'default'} -> {width}" if width != start else ""
    if not is_near(count(width), target):
        difference = count(width) / target - 1
        more = "more" if difference > 0 else "fewer"
        unchanged = "no other width is nearer" if names else "no width changes its size"
        size = size or unchanged
        size += f", {abs(difference):.0%} {more} parameters than the baseline"
        if abs(difference) > LIMIT:
            remedy = "give other sizes such as --layers, or --match none"
            raise ValueError(f"--match parameters: {size}; {remedy}")
    return at_width(width), size


def is_near(parameters: int, target: int) -> bool:
    return abs(parameters - target) <= TOLERANCE * target


def width_options(variant: Variant) -> tuple[list[str], int]:
    """Return the options that set the width together, and a number that must divide the width."""
    defaults = default_options(variant.arch)
    for width in WIDTHS:
        if names := [f"{side}_{width}" for side in SIDES if f"{side}_{width}" in defaults]:
            break
    else:
        return [], 1
    if width == "ffn_embed_dim":
        return names, 2
    names += [name for name in ("decoder_input_dim", "decoder_output_dim") if name in defaults]
    # A width must be divisible by the number of heads, and by 2 for models that halve it.
    heads = (getattr(variant.cfg.model, f"{side}_attention_heads", None) for side in SIDES)
    return names, math.lcm(8, *(int(number) for number in heads if number))


def search_width(count: Callable[[int], int], start: int, target: int, step: int) -> int:
    """Search the width, *start* or a multiple of *step*, with the count nearest to a target.

    Args:
        count: function that counts the parameters at a width; they increase with the width.
    """
    low, high = step, max(step, start // step * step)
    # A width that is far too large may not fit into memory.
    while count(high) < target and count(2 * high) > count(high):
        low, high = high, 2 * high
    while high - low > step and count(low) < target < count(high):
        share = (target - count(low)) / (count(high) - count(low))
        middle = low + step * round(share * (high - low) / step)
        middle = min(max(middle, low + step), high - step)
        low, high = (middle, high) if count(middle) < target else (low, middle)
    return min((start, low, high), key=lambda width: abs(count(width) - target))
