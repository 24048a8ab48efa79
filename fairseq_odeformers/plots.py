"""How figures look: one style for lines, panels and legends."""

from collections.abc import Callable, Iterator
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fairseq_odeformers.files import replacing

MARKERS = "os^Dv<>"
STYLE = {
    "axes.formatter.useoffset": False,  # the numbers themselves at the ticks
    "axes.titlesize": "small",
    "legend.fontsize": "small",
    "savefig.dpi": 120,
}


def save(draw: Callable[..., Figure], data, path: Path) -> None:
    """Write the figure that *draw* makes of *data*, in a format by the end of the file's name."""
    with rc_context(STYLE), replacing(path) as temporary:
        draw(data).savefig(temporary, format=path.suffix[1:])


def panels(count: int, columns: int, width: float, height: float, **sharing):
    """A figure with a grid of panels.

    Args:
        count: number of panels; what is left of the last row stays empty.
        width, height: of a panel, in inches.
        sharing: ``sharex`` and ``sharey`` of matplotlib.

    Returns:
        The figure, and a list of the panels from left to right and top to bottom.
    """
    rows, columns = -(-count // columns), min(columns, count)
    size = 0.6 + width * columns, 0.6 + height * rows
    figure = Figure(figsize=size, layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)
    for axes in grid[count:]:
        axes.remove()
    return figure, grid[:count]


def style(index: int) -> dict:
    """How a line is drawn, so that it is seen above and below others that coincide with it."""
    return {
        "marker": MARKERS[index % len(MARKERS)],
        "markersize": 7 - index % 4,
        "markerfacecolor": "none",
        "linestyle": (0, (4, index % 4)) if index % 4 else "-",
        "linewidth": 3 - 0.6 * (index % 4),
    }


def lines(axes: Axes, rows: list[dict], x: str, y: str, by: str = "model") -> None:
    """Draw column *y* of a table against column *x*, a line for each value of column *by*."""
    for index, (label, own) in enumerate(grouped(rows, by)):
        axes.plot(*columns(own, x, y), label=label, **style(index))


def grouped(rows: list[dict], by: str = "model") -> Iterator[tuple[str, list[dict]]]:
    """The values of a column of a table, and the rows of each."""
    for value in dict.fromkeys(row[by] for row in rows):
        yield value, [row for row in rows if row[by] == value]


def columns(rows: list[dict], *names: str) -> list[list]:
    return [[row[name] for row in rows] for name in names]


def legend(figure: Figure, handles: list) -> None:
    """One legend below all panels, of what *handles* have labels for."""
    widest = max(len(handle.get_label()) for handle in handles)
    ncols = max(1, min(len(handles), int(figure.get_figwidth() * 12 / (widest + 8))))
    figure.legend(handles=handles, loc="outside lower center", ncols=ncols)
