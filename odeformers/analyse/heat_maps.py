"""Heat maps of the attention over one sentence, in a picture that fits a screen.

A model of layers gets a panel for each layer. In a model of blocks whose maps evolve with the
depth, such as TransEvolve, a block gets a panel for the map of its first depth, and panels for the
differences of later depths from that map. The cells become smaller until all panels fit. Panels
that do not fit even then are left out, and the title says so.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from odeformers.plots import break_lines, group_by, label_families, panels

from .maps import KINDS
from .result import Row

CAPTIONS = {
    "cross": "Cross-attention: the weight of each source token (columns) while the decoder "
    "predicts each token of the translation (rows).",
    "encoder": "Self-attention of the encoder: the weight of each token (columns) for each token "
    "(rows).",
    "decoder": "Self-attention of the decoder: the weight of each earlier token (columns; `</s>` "
    "is the start) while it predicts each token of the translation (rows).",
}
LABELS = {  # names of rows and columns
    "cross": ("predicted token", "source token"),
    "encoder": ("token", "attends to"),
    "decoder": ("predicted token", "token before"),
}
# All lengths are in inches. With 120 pixels per inch, a picture has at most 1,560 x 1,800 pixels.
WIDTH, HEIGHT = 13.0, 15.0
MARGINS = 2.6, 1.8  # width and height around the panels for tokens, titles and colour bars
CELLS = (0.16, 0.14, 0.12, 0.1, 0.09, 0.08)  # sizes of a token to choose from
MIN_PANEL = (1.4, 1.1)  # minimum width and height of a panel with its title
MAX_COLUMNS = 6
MAX_LETTERS = 20  # maximum number of letters of a token that are shown


class Panel(NamedTuple):
    """A map, or its change since the first depth of its block."""

    title: str
    weights: np.ndarray  # queries, keys
    is_change: bool


def draw(table: list[Row], kind: str, model: str) -> Figure:
    """Draw a picture of a model's maps of one kind; all models share the scale of the weights.

    Args:
        table: all rows of the table ``sentence``, of all models.
    """
    of_kind = [row for row in table if row["kind"] == kind]
    rows = [row for row in of_kind if row["model"] == model]
    queries, keys = (token_names(rows, side) for side in ("query", "key"))
    blocks = read_blocks(rows)
    depths = max(map(len, blocks))
    max_columns, max_rows, cell = choose_grid(len(blocks), depths, len(queries), len(keys))
    chosen, left_out = choose_panels(blocks, max_columns * max_rows)
    # With the same number of rows, the last row becomes as full as possible.
    columns = math.ceil(len(chosen) / math.ceil(len(chosen) / max_columns))
    size = panel_size(cell, len(queries), len(keys))
    figure, axes_of = panels(len(chosen), columns, *size, MARGINS, sharex=True, sharey=True)
    fill(figure, axes_of, chosen, max(row["weight"] for row in of_kind))
    name_tokens(axes_of, columns, queries, keys, cell)
    figure.supylabel(LABELS[kind][0], fontsize="medium")
    figure.supxlabel(LABELS[kind][1], fontsize="medium")
    head = "" if rows[0]["head"] == "mean" else f", head {rows[0]['head']}"
    name = label_families(row["model"] for row in table)[model]
    heading = break_lines(f"{name}: {KINDS[kind]}{head}{left_out}", figure.get_figwidth())
    figure.suptitle(heading, fontsize="small", parse_math=False)  # names may have dollar signs
    return figure


def fill(figure: Figure, grid: list[Axes], chosen: list[Panel], largest: float) -> None:
    """Draw the panels, and colour bars for weights up to *largest* and for changes."""
    changes = [np.abs(panel.weights).max() for panel in chosen if panel.is_change]
    largest_change = max(changes, default=0.0) or 1.0
    images = {}
    for axes, panel in zip(grid, chosen):
        low, high = (-largest_change, largest_change) if panel.is_change else (0, largest)
        color = "RdBu_r" if panel.is_change else "Blues"
        # The grid determines the shape of cells; a few cells still fill a panel as wide as a title.
        images[panel.is_change] = axes.imshow(
            panel.weights, color, vmin=low, vmax=high, aspect="auto"
        )
        axes.set_title(panel.title)
        axes.grid(False)
    for is_change, image in sorted(images.items(), reverse=True):  # counted from the right
        bar = figure.colorbar(image, ax=grid, aspect=40, pad=0.02)
        bar.set_label("change" if is_change else "weight", fontsize="small")
        bar.ax.tick_params(labelsize="x-small")


def read_blocks(rows: list[Row]) -> list[list[Panel]]:
    """Read the panels of each layer or block of a model."""
    maps = [
        [
            (depth, np.reshape([row["weight"] for row in of_map], (-1, 1 + of_map[-1]["key"])))
            for depth, of_map in group_by(of_block, "depth")
        ]
        for _, of_block in group_by(rows, "block")
    ]
    of_layers = all(len(of_block) == 1 for of_block in maps)
    blocks = []
    for number, [(start, first), *others] in enumerate(maps, start=1):
        changes = (Panel(f"depth {d} − depth {start}", w - first, True) for d, w in others)
        name = f"layer {number}" if of_layers else f"block {number}, depth {start}"
        blocks.append([Panel(name, first, False), *changes])
    return blocks


def token_names(rows: list[Row], side: str) -> list[str]:
    """Return the tokens of the queries or keys, truncated if they are too long for a label."""
    tokens = {row[side]: row[f"{side}_token"] for row in rows}
    return [
        name if len(name) <= MAX_LETTERS else f"{name[: MAX_LETTERS - 1]}…"
        for name in tokens.values()
    ]


def panel_size(cell: float, queries: int, keys: int) -> tuple[float, float]:
    """Return the width and height of a panel with its title."""
    return max(cell * keys, MIN_PANEL[0]), max(cell * queries, MIN_PANEL[1])


def choose_grid(blocks: int, depths: int, queries: int, keys: int) -> tuple[int, int, float]:
    """Choose the numbers of columns and rows of panels, and the size of a token in them.

    It is the largest size at which all panels fit, or else the smallest size. A block whose depths
    fit side by side gets its own row.
    """
    grid = 1, 1, CELLS[-1]
    for cell in CELLS:
        width, height = panel_size(cell, queries, keys)
        columns = min(MAX_COLUMNS, int((WIDTH - MARGINS[0]) / width))
        rows = int((HEIGHT - MARGINS[1]) / height)
        if 1 < depths < columns:
            columns = depths
        grid = columns, rows, cell
        if blocks * depths <= columns * rows:
            break
    return grid


def choose_panels(blocks: list[list[Panel]], room: int) -> tuple[list[Panel], str]:
    """Choose up to *room* panels, spread over blocks and depths, and say what is left out."""
    depths = max(map(len, blocks))
    shown_depths = min(depths, room, max(room // len(blocks), 2))
    shown_blocks = min(len(blocks), room // shown_depths)
    chosen = [
        of_block[depth]
        for of_block in (blocks[number] for number in spread(len(blocks), shown_blocks))
        for depth in spread(len(of_block), shown_depths)
    ]
    unit, parts = "layers" if depths == 1 else "blocks", []
    if shown_blocks < len(blocks):
        parts.append(f"{shown_blocks} of {len(blocks)} {unit}")
    if shown_depths < depths:
        parts.append(f"{shown_depths} of {depths} depths of a block")
    return chosen, f" ({', '.join(parts)})" if parts else ""


def spread(count: int, limit: int) -> Iterator[int]:
    """Yield up to *limit* of the numbers below *count*, evenly spread from first to last."""
    chosen = min(count, limit)
    return (round(index * (count - 1) / max(1, chosen - 1)) for index in range(chosen))


def name_tokens(
    grid: list[Axes], columns: int, queries: Sequence[str], keys: Sequence[str], cell: float
) -> None:
    """Write the queries' tokens to the left of each row of panels, and the keys' tokens below."""
    size = min(7.0, 66 * cell)  # points; there are 72 per inch
    for place, axes in enumerate(grid):
        axes.set_xticks(range(len(keys)), keys, fontsize=size, parse_math=False, rotation=90)
        axes.set_yticks(range(len(queries)), queries, fontsize=size, parse_math=False)
        axes.tick_params(length=2, labelbottom=place + columns >= len(grid))
