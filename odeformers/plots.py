"""The style of figures: colours, lines, panels and legends."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from cycler import cycler
from fairseq.models import ARCH_MODEL_REGISTRY
from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatterSciNotation, MaxNLocator

from fairseq_odeformers.files import replacing
from fairseq_odeformers.registry import Family, declared_family, family_of

from .fonts import fit_fonts, without_warnings

# Okabe and Ito's colours, two of Tol's and grey, for colour-blind readers; then three of
# matplotlib's. A family names its colour (``registry.Family``).
BLACK, BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, WINE, OLIVE, GREY, *_ = COLORS = (
    *("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"),
    *("#882255", "#999933", "#7f7f7f", "#a0522d", "#008080", "#ff1493"),
)
NAMES = "black blue vermillion green purple orange sky wine olive grey sienna teal deeppink"
PALETTE: dict[str, str] = dict(zip(NAMES.split(), COLORS))
LINES = ("-", "--", ":", "-.")
NAMED = {"transformer": "Transformer"}  # fairseq's own architecture, which declares no family
MARKERS = dict(zip(COLORS, "o^sDPXv<>*phd"))  # one marker per colour
FILLS = ("none", "full", "left", "bottom")  # fill styles of markers
STYLE = {
    "axes.axisbelow": True,
    "axes.formatter.min_exponent": 3,  # 0.5 at the ticks of a logarithmic axis, not 5 x 10^-1
    "axes.formatter.useoffset": False,  # full numbers at the ticks
    "axes.grid": True,
    "axes.prop_cycle": cycler(color=COLORS),
    "axes.titlesize": "small",
    "grid.alpha": 0.3,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "legend.title_fontsize": "small",
    "savefig.dpi": 120,
}
WORDS = {"fullff": "full FFN", "prenorm": "pre-norm", "randomff": "random FFN"}  # of names
LETTERS = 13  # letters of a title per inch
LEGEND_ROW = 0.18  # height of a row of a legend, in inches


def save(draw: Callable[..., Figure], data, path: Path) -> None:
    """Write the figure that *draw* makes from *data*, as PNG unless the path says otherwise."""
    with rc_context(STYLE), replacing(path) as temporary:
        write(draw(data), temporary, format=path.suffix[1:] or "png")


def write(figure: Figure, file: Any, **options: Any) -> None:
    """Write a figure to a path or an open file, with fonts for all of its characters."""
    fit_fonts(figure)
    with without_warnings():
        figure.savefig(file, **options)


def panels(
    count: int,
    columns: int,
    width: float,
    height: float,
    margins: tuple[float, float] = (0.6, 0.6),
    **sharing,
):
    """Make a figure with a grid of panels.

    Args:
        count: number of panels; the rest of the last row stays empty.
        width, height: size of a panel, in inches.
        margins: width and height of everything around the panels, in inches.
        sharing: matplotlib's ``sharex`` and ``sharey``.

    Returns:
        The figure, and a list of the panels from left to right and top to bottom.
    """
    rows, columns = -(-count // columns), min(columns, count)
    size = margins[0] + width * columns, margins[1] + height * rows
    figure = Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def title(axes: Axes, text: str) -> None:
    """Set the title of a panel, broken into lines no wider than the panel."""
    figure, place = axes.figure, axes.get_subplotspec()
    assert isinstance(figure, Figure) and place is not None  # panels() made the panel
    axes.set_title(break_lines(text, figure.get_figwidth() / place.get_gridspec().ncols))


def break_lines(text: str, width: float) -> str:
    """Break a title into lines of at most *width* inches, between words or parts of names."""
    lines = [""]
    for piece in re.findall(r"(?:\de-\d|[^-_/ ])*(?:[-_/ ]|$)", text):
        if len(lines[-1] + piece) > width * LETTERS:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line for line in lines if line)


def integer_ticks(axes: Axes) -> None:
    """Restrict the ticks of a horizontal axis to integers, such as layers or depths."""
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def scale_by_span(axes: Axes) -> None:
    """Make a vertical axis logarithmic if its values span a power of ten or more.

    Numbers between the powers of ten are labelled if the span is below 100. For spans below 10,
    matplotlib labels a logarithmic axis with numbers of different lengths.
    """
    low, high = axes.get_ylim()
    if high > 10 * low:
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(LogFormatterSciNotation(minor_thresholds=(2, 0.5)))


def label_powers_of_ten(axes: Axes) -> None:
    """Label a logarithmic vertical axis only with powers of ten, as in ``10^-1`` instead of 0.1."""
    label = FuncFormatter(lambda value, _: f"$10^{{{math.log10(value):.0f}}}$")
    axes.yaxis.set_major_formatter(label)


def color_of(text: str) -> str | None:
    """Return the colour of the family named in a text, such as the name of a run, or None.

    The text may contain the name of an architecture, of a family or of its folder. The longest of
    these names counts.
    """
    text, families = text.lower(), dict[str, Family]()
    for arch, model in ARCH_MODEL_REGISTRY.items():
        if family := declared_family(model):
            families |= dict.fromkeys((arch, family.name.lower()), family)
            if "family" not in vars(model):  # the folder declares it
                families[model.__module__.split(".")[-2:][0]] = family
    longest = max((name for name in families if name in text), key=len, default=None)
    if longest is None:
        return None
    variants = (color for word, color in families[longest].variants.items() if word in text)
    return next(variants, families[longest].color)


def label_families(names: Iterable[str]) -> dict[str, str]:
    """Map names of runs or architectures to labels, with families in place of architectures.

    Architectures that share a family also have the words of their names in which they differ, as in
    ``TransEvolve (full FFN)``.
    """
    names = [*dict.fromkeys(names)]
    words = {word for name in names for word in re.findall(r"\w+", name)}
    families = {arch: family_of(arch) for arch in words & ARCH_MODEL_REGISTRY.keys()}

    def label(match: re.Match[str]) -> str:
        arch = match[0]
        if arch not in families:
            return arch
        family = families[arch]
        shared = [{*other.split("_")} for other, own in families.items() if own == family]
        differing = [w for w in arch.split("_") if w not in set.intersection(*shared)]
        part = f" ({' '.join(WORDS.get(w, w) for w in differing)})" if differing else ""
        return NAMED.get(family, family) + part

    return {name: re.sub(r"\w+", label, name) for name in names}


def styles(names: Iterable[str], distinct: bool = False) -> dict[str, dict]:
    """Map names of runs or architectures to the styles of their lines.

    The family determines colour and marker; names without a family get the next ones in turn. Names
    that share colour and marker differ in dashes and in the fill of markers. All lines have the
    same width.

    Args:
        distinct: whether only the first name of a family has its colour; others get the next ones.
    """
    colors = {name: color_of(name) for name in names}
    colors = {name: PALETTE.get(color or "", color) for name, color in colors.items()}
    unused = cycle([color for color in COLORS if color not in colors.values()] or COLORS)
    drawn, looks = [], {}
    for name, color in colors.items():
        if not color or (distinct and color in drawn):
            color = next(unused)
        variant = drawn.count(color)
        drawn.append(color)
        looks[name] = {
            "color": color,
            "linestyle": LINES[variant % len(LINES)],
            "marker": MARKERS.get(color, "o"),
            "fillstyle": FILLS[variant % len(FILLS)],
        }
    return looks


def shades(names: Iterable[Any]) -> dict[Any, Any]:
    """Map items that are not architectures, such as tokens, to colours from dark to light."""
    keys = dict.fromkeys(names)
    return dict(zip(keys, colormaps["viridis"](np.linspace(0, 0.9, len(keys)))))


def lines(axes: Axes, rows: list[dict], x: str, y: str) -> None:
    """Draw column *y* of a table against column *x*, with one line per model."""
    models = dict(group_by(rows))
    names = label_families(models)
    for model, look in styles(models).items():
        axes.plot(*columns(models[model], x, y), label=names[model], **look)
    if all(isinstance(row[x], int) for row in rows):
        integer_ticks(axes)


def means_and_ranges(
    axes: Axes, x: Sequence[float], values: Sequence[Sequence[float]], **look
) -> None:
    """Draw the mean of the values at each x, with a bar from the lowest to the highest value."""
    means = [fmean(group) for group in values]
    # The mean of equal numbers may differ from them in the last bit.
    below = [max(0.0, mean - min(group)) for mean, group in zip(means, values)]
    above = [max(0.0, max(group) - mean) for mean, group in zip(means, values)]
    axes.errorbar(x, means, (below, above), fmt="o-", capsize=3, **look)


def group_by(rows: list[dict], by: str = "model") -> Iterator[tuple[Any, list[dict]]]:
    """Yield each value in a column of a table, with the rows that have it."""
    for value in dict.fromkeys(row[by] for row in rows):
        yield value, [row for row in rows if row[by] == value]


def columns(rows: list[dict], *names: str) -> list[list]:
    """Return the columns of a table with these names."""
    return [[row[name] for row in rows] for name in names]


def legend(figure: Figure, handles: list, **options) -> None:
    """Add one legend with the labels of *handles* below all panels, and enlarge the figure."""
    widest = max(len(handle.get_label()) for handle in handles)
    ncols = max(1, min(len(handles), int(figure.get_figwidth() * 12 / (widest + 8))))
    rows = -(-len(handles) // ncols)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (rows - 1))
    figure.legend(handles=handles, loc="outside lower center", ncols=ncols, **options)


def legend_beside(figure: Figure, lines: list) -> None:
    """Add one legend to the right of all panels, in the order of the ends of the lines."""
    lines = sorted(lines, key=lambda line: -line.get_ydata()[-1])
    figure.legend(handles=lines, loc="outside right center", fontsize="medium")
