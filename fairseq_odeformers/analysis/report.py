"""The files of an analysis: JSON, CSV, figures, and a page that shows them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fairseq_odeformers.files import markdown_table, write_csv

from . import figures
from .tables import Row, Tables

CONTENTS, PAGE = "analysis.json", "index.md"
DPI = 100

CAPTIONS = {
    "means": "Means over the texts, and in a text over its pairs of tokens or its tokens.",
    "activation": "Activation factors (Eq. 5), ||X_i^(l) - X_j^(l)|| / ||X_i^(0) - X_j^(0)||. Box: "
    "quartiles of a text's pairs, averaged over the texts; whiskers: smallest and largest of all "
    "texts; dot: mean.",
    "entropy": "Differential entropy (Eq. 6) of a token's neurons; boxes as above, over a text's "
    "tokens. Layer 0 is the embedding.",
    "parts": "Mean entropy of the outputs of each attention head, before they are joined, or of "
    "the states of each expert.",
    "expert_weights": "Weights of the experts: quartiles over the texts. The dotted line is where "
    "all are equal.",
    "residual_weights": "Residual weights alpha.",
    "correlations": "Means over texts and layers, and accuracy, of each model.",
    "distances": "Distances of some tokens of the text.",
    "isomap": "Isomap of the tokens of the text: one plane for all layers of a model, each with "
    "its mean at one place.",
}


def write(folder: Path, header: dict[str, Any], notes: list[str], tables: Tables) -> None:
    """Write an analysis into an empty folder.

    Args:
        header: what was analysed.
        notes: what is left out, and why; a sentence each.
    """
    drawn = figures.draw(tables)
    for name, figure in drawn.items():
        save(figure, folder / f"{name}.png")
    tables = {
        name: [{key: plain(value) for key, value in row.items()} for row in rows]
        for name, rows in tables.items()
    }
    contents = {**header, "notes": notes, **tables}
    (folder / CONTENTS).write_text(json.dumps(contents, indent=1, allow_nan=False) + "\n")
    for name, rows in tables.items():
        if rows:
            write_csv(folder / f"{name}.csv", rows)
    (folder / PAGE).write_text(page(header, notes, tables, list(drawn)), encoding="utf-8")


def save(figure: Figure, path: Path) -> None:
    """Write a figure as a PNG file of 256 colours, a third of the size of one of all colours."""
    figure.set_dpi(DPI)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    image.quantize(256).save(path, optimize=True)


def plain(value):
    """A number with six digits, or None if it is not finite; anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def page(header: dict[str, Any], notes: list[str], tables: Tables, drawn: list[str]) -> str:
    """The page, in Markdown."""
    lines = [
        "# Hidden states of classifiers",
        "",
        f"{len(header['texts'])} texts of `{header['split']}` of `{header['data']}`; equations and "
        "theorem are those of Sengupta et al. (2023). Activation and entropy are means over the "
        "layers; `largest` is the largest activation factor after the last layer, and `bound` what "
        "Theorem 2 allows, (1 + 3/L)^(2L); `deviation` is that of the entropy over the texts. "
        f"Everything is in [{CONTENTS}]({CONTENTS}), and each table in a CSV file.",
        "",
        *markdown(tables["models"]),
        "",
        *(f"- {note}" for note in notes),
    ]
    for name in ("activation", "entropy"):
        lines += ["", f"Mean {name} by layer:", "", *markdown(by_layer(tables["layers"], name))]
    if tables["correlations"]:
        lines += ["", "Correlations over the models:", "", *markdown(tables["correlations"])]
    if header["text"]:
        lines += ["", f"The text: {header['text']}"]
    for name in drawn:
        lines += ["", f"![{name}]({name}.png)", "", CAPTIONS[name]]
    return "\n".join(lines) + "\n"


def by_layer(rows: list[Row], name: str) -> list[Row]:
    """The means of a measure, a row a model and a column a layer."""
    rows = [row for row in rows if row["measure"] == name]
    return [
        {"model": model, **{f"{row['layer']}": row["mean"] for row in of_model}}
        for model, of_model in figures.grouped(rows)
    ]


def markdown(rows: list[Row]) -> list[str]:
    """A table in Markdown, without columns that are empty."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    return markdown_table([list(names), *cells]).splitlines()


def cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value).replace("|", "\\|")
