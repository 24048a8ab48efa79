"""Equal sizes: the width at which an architecture has a wanted number of parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fairseq_odeformers.models.common.sizes import SIDES, default_options
from fairseq_odeformers.options import flag

from .entry import Entry
from .recipe import Recipe
from .trial import build, count_parameters

TOLERANCE = 0.01  # of the number of parameters
WIDTHS = ("ffn_embed_dim", "embed_dim")  # the first one that an architecture has is chosen


def match_width(recipe: Recipe, entry: Entry, target: int) -> Entry:
    """An architecture at the inner width, or else the width, that makes a number of parameters."""
    if abs(entry.parameters - target) <= TOLERANCE * target:
        return entry
    model_config = build(recipe, entry).cfg.model
    names, step = width_options(entry.options["arch"], model_config)
    if not names:
        return replace(entry, note="has no width to choose")
    start, options = int(getattr(model_config, names[0])), [flag(name)[2:] for name in names]

    def at_width(width: int) -> Entry:
        changed = replace(entry, options={**entry.options, **dict.fromkeys(options, width)})
        return replace(changed, note=f"{options[0]} {start} -> {width}")

    counts = {start: entry.parameters}
    width = search_width(lambda w: count_parameters(recipe, at_width(w)), counts, target, step)
    if width is None:
        return replace(entry, note=f"{options[0]} does not change its size")
    return entry if width == start else replace(at_width(width), parameters=counts[width])


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
    """The width whose number of parameters is nearest to a target, by the secant method.

    Where that stops, the next width towards the target is tried as well.

    Args:
        count: the number of parameters at a width, which grows with it.
        counts: the numbers that are counted already, at first one; this adds others.
        step: all other widths are multiples of it.

    Returns:
        None if the number does not grow.
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
            min(secant, 2 * max(counts) // step * step),  # a far one may not fit into memory
            (width // step + 1) * step if larger else (-(-width // step) - 1) * step,
        )
        guess = next((guess for guess in guesses if guess >= step and guess not in counts), None)
        if guess is None:
            return width
