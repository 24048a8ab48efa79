"""Figures of the tables of an analysis."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from .tables import PAIRS, Row, Tables

MARKERS = "os^Dv<>"
COLUMNS = 3  # of a grid with a panel for each model
MEASURES = {"activation": "activation factor", "entropy": "entropy (nats)", "accuracy": "accuracy"}


def draw(tables: Tables) -> dict[str, Figure]:
    """The figures, by name; one whose table is empty is left out."""
    with rc_context({"axes.formatter.useoffset": False}):  # the numbers themselves at the ticks
        return _draw(tables)


def _draw(tables: Tables) -> dict[str, Figure]:
    figures = {
        "means": means(tables),
        "activation": boxes(tables, "activation"),
        "entropy": boxes(tables, "entropy"),
    }
    for name, function in (
        ("parts", parts),
        ("expert_weights", expert_weights),
        ("residual_weights", residual_weights),
        ("correlations", correlations),
        ("distances", distances),
        ("isomap", isomap),
    ):
        if tables[name]:
            figures[name] = function(tables)
    return figures


def means(tables: Tables) -> Figure:
    """Mean activation factor and entropy against the layer, a line a model."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    panels = figure.subplots(1, 2)
    for name, axes in zip(("activation", "entropy"), panels):
        for index, (model, rows) in enumerate(grouped(tables["layers"])):
            rows = [row for row in rows if row["measure"] == name]
            x, y = zip(*((row["layer"], row["mean"]) for row in rows))
            axes.plot(x, y, label=model, **style(index))
        axes.set(xlabel="layer", ylabel=f"mean {MEASURES[name]}")
    panels[0].set_yscale("log")
    legend(figure, panels[0])
    return figure


def boxes(tables: Tables, name: str) -> Figure:
    """Distribution of a measure in each layer, a panel a model."""
    figure, panels = grid(tables["layers"])
    for axes, rows in panels:
        rows = [row for row in rows if row["measure"] == name]
        statistics = [
            {
                "whislo": row["smallest"],
                "q1": row["lower_quartile"],
                "med": row["median"],
                "q3": row["upper_quartile"],
                "whishi": row["largest"],
                "mean": row["mean"],
            }
            for row in rows
        ]
        axes.bxp(
            statistics,
            positions=[row["layer"] for row in rows],
            showfliers=False,
            showmeans=True,
            patch_artist=True,
            boxprops={"facecolor": "C0", "alpha": 0.4},
            medianprops={"color": "black"},
            meanprops={"marker": "o", "markersize": 3, "mfc": "C3", "mec": "C3"},
        )
        if name == "activation":
            axes.set_yscale("log")
    label(figure, "layer", MEASURES[name])
    return figure


def parts(tables: Tables) -> Figure:
    """Mean entropy of each attention head or expert, a dot each."""
    figure, panels = grid(tables["parts"])
    for axes, rows in panels:
        axes.plot(*columns(rows, "layer", "mean"), "o", alpha=0.5, markersize=5)
    label(figure, "layer", "entropy of heads or experts (nats)")
    return figure


def expert_weights(tables: Tables) -> Figure:
    """Distribution over the texts of the weight of each expert in each layer."""
    figure, panels = grid(tables["expert_weights"])
    for axes, rows in panels:
        experts = max(row["expert"] for row in rows)
        layers = range(1, max(row["layer"] for row in rows) + 1)
        for expert in range(1, experts + 1):
            offset = (expert - (experts + 1) / 2) * 0.8 / experts
            samples = [
                [r["weight"] for r in rows if (r["layer"], r["expert"]) == (layer, expert)]
                for layer in layers
            ]
            axes.boxplot(
                samples,
                positions=[layer + offset for layer in layers],
                widths=0.6 / experts,
                showfliers=False,
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": f"C{expert - 1}"},
                medianprops={"color": "black"},
            )
        axes.axhline(1 / experts, color="grey", linewidth=1, linestyle=":")
        axes.set_xticks(layers)
    label(figure, "layer", "expert weight")
    most = max(row["expert"] for row in tables["expert_weights"])
    handles = [
        Patch(facecolor=f"C{expert}", label=f"expert {expert + 1}") for expert in range(most)
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=most, fontsize="small")
    return figure


def residual_weights(tables: Tables) -> Figure:
    """Residual weight against the layer, a line a model."""
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    axes.axhline(0, color="grey", linewidth=1)
    for index, (model, rows) in enumerate(grouped(tables["residual_weights"])):
        axes.plot(*columns(rows, "layer", "weight"), label=model, **style(index))
    axes.set(xlabel="layer", ylabel="residual weight")
    legend(figure, axes)
    return figure


def correlations(tables: Tables) -> Figure:
    """What is correlated, a dot a model."""
    pairs = [p for p in PAIRS if any((r["x"], r["y"]) == p for r in tables["correlations"])]
    figure = Figure(figsize=(4 * len(pairs), 4), layout="constrained")
    panels = figure.subplots(1, len(pairs), squeeze=False)[0]
    for axes, (x, y) in zip(panels, pairs):
        for row in tables["models"]:
            axes.plot(row[x], row[y], "o", label=row["model"])
        found = [r for r in tables["correlations"] if (r["x"], r["y"]) == (x, y)]
        lines = (
            f"{r['method']} {r['correlation']:.2f}"
            + ("" if r["p_value"] is None else f" (p = {r['p_value']:.2g})")
            for r in found
        )
        axes.set_title("\n".join(lines), fontsize="small")
        axes.set(xlabel=f"mean {MEASURES[x]}", ylabel=MEASURES[y])
    legend(figure, panels[0])
    return figure


def distances(tables: Tables) -> Figure:
    """Distances of chosen tokens against the layer, a row a model."""
    models = list(grouped(tables["distances"]))
    figure = Figure(figsize=(9, 0.6 + 2.2 * len(models)), layout="constrained")
    panels = figure.subplots(len(models), 2, squeeze=False, sharex="row")
    for line, (model, rows) in zip(panels, models):
        for name, axes in zip(("euclidean", "cosine"), line):
            for index, pair in enumerate(dict.fromkeys(row["tokens"] for row in rows)):
                chosen = [row for row in rows if row["tokens"] == pair]
                axes.plot(*columns(chosen, "layer", name), label=pair, **style(index))
            axes.set_title(f"{model}: {name} distance", fontsize="small")
            axes.set_ylim(0, 1.05 * max(row[name] for row in rows))
    for axes in panels[-1]:
        axes.set_xlabel("layer")
    legend(figure, panels[0][0])
    return figure


def isomap(tables: Tables) -> Figure:
    """The tokens of a text in the plane, a row a model and a column a layer.

    Those whose distances are measured are in colour.
    """
    models = list(grouped(tables["isomap"]))
    chosen = dict.fromkeys(t for row in tables["distances"] for t in row["tokens"].split(" - "))
    layers = 1 + max(row["layer"] for row in tables["isomap"])
    figure = Figure(figsize=(1.5 * layers, 0.6 + 1.6 * len(models)), layout="constrained")
    panels = figure.subplots(len(models), layers, squeeze=False, sharex="row", sharey="row")
    for line, (model, rows) in zip(panels, models):
        line[0].set_title(model, fontsize="small", loc="left")
        limits = [(min(values), max(values)) for values in columns(rows, "x", "y")]
        width = 1.15 * max(high - low for low, high in limits)
        (left, right), (bottom, top) = (
            ((low + high - width) / 2, (low + high + width) / 2) for low, high in limits
        )
        line[0].set(xlim=(left, right), ylim=(bottom, top))  # one scale for x and y
        for layer, axes in enumerate(line):
            points = [row for row in rows if row["layer"] == layer]
            axes.set(xticks=[], yticks=[], box_aspect=1)
            axes.set_visible(bool(points))
            axes.plot(*columns(points, "x", "y"), "o", color="lightgrey", markersize=4)
            for token in chosen:
                first = next((row for row in points if row["token"] == token), None)
                if first:
                    axes.plot(first["x"], first["y"], "o", markersize=5, label=token)
    for layer, axes in enumerate(panels[-1]):
        axes.set_xlabel(f"layer {layer}")
    legend(figure, panels[0][0])
    return figure


def grouped(rows: list[Row]) -> Iterator[tuple[str, list[Row]]]:
    """The models of a table, and the rows of each."""
    for model in dict.fromkeys(row["model"] for row in rows):
        yield model, [row for row in rows if row["model"] == model]


def style(index: int) -> dict:
    """How a line is drawn, so that it is seen above and below others that coincide with it."""
    marker = MARKERS[index % len(MARKERS)]
    dashes = (0, (4, index % 4)) if index % 4 else "-"
    width = 3 - 0.6 * (index % 4)
    return {
        "marker": marker,
        "markersize": 7 - index % 4,
        "markerfacecolor": "none",
        "linestyle": dashes,
        "linewidth": width,
    }


def columns(rows: list[Row], *names: str) -> list[list]:
    return [[row[name] for row in rows] for name in names]


def grid(rows: list[Row]) -> tuple[Figure, list[tuple[Axes, list[Row]]]]:
    """A figure, and for each model of a table its panel and rows."""
    models = list(grouped(rows))
    width = min(COLUMNS, len(models))
    height = -(-len(models) // width)
    figure = Figure(figsize=(0.6 + 3.2 * width, 0.4 + 2.4 * height), layout="constrained")
    panels = figure.subplots(height, width, squeeze=False, sharey=True).ravel()
    for axes in panels[len(models) :]:
        axes.remove()
    for axes, (model, _) in zip(panels, models):
        axes.set_title(model, fontsize="small")
    return figure, [(axes, rows) for axes, (_, rows) in zip(panels, models)]


def label(figure: Figure, x: str, y: str) -> None:
    figure.supxlabel(x, fontsize="medium")
    figure.supylabel(y, fontsize="medium")


def legend(figure: Figure, axes: Axes) -> None:
    """Below the figure, of what is labelled in *axes*."""
    handles, labels = axes.get_legend_handles_labels()
    widest = max(map(len, labels))
    ncols = max(1, min(len(labels), int(figure.get_figwidth() * 12 / (widest + 8))))
    figure.legend(handles, labels, loc="outside lower center", ncols=ncols, fontsize="small")
