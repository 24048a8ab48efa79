"""Figures of the tables of classifiers; the docstring of each is its caption."""

import math
from itertools import cycle

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from odeformers import plots
from odeformers.plots import columns, group_by, legend, lines, panels, title

from .result import Row, Tables

MAX_COLUMNS = 3  # maximum number of columns in a grid with a panel for each model
LABELS = {"activation": "activation factor", "entropy": "entropy (nats)", "accuracy": "accuracy"}


def means(tables: Tables) -> Figure:
    """Means over the texts, and in each text over its tokens or pairs of tokens."""
    figure, grid = panels(2, 2, 4.2, 3.4)
    for axes, (name, rows) in zip(grid, group_by(tables["layers"], "measure")):
        lines(axes, rows, "layer", "mean")
        axes.set(xlabel="layer", ylabel=f"mean {LABELS[name]}")
    plots.scale_by_span(grid[0])
    legend(figure, grid[0].lines)
    return figure


def activation(tables: Tables) -> Figure:
    """Activation factors (Eq. 5), ||X_i^(l) - X_j^(l)|| / ||X_i^(0) - X_j^(0)||.

    Box: quartiles over the pairs of a text, averaged over the texts; whiskers: smallest and largest
    factor of all texts; dot: mean.
    """
    rows = dict(group_by(tables["layers"], "measure"))["activation"]
    figure = boxes(rows, LABELS["activation"])
    plots.scale_by_span(figure.axes[0])  # the panels share the axis
    return figure


def dot_products(tables: Tables) -> Figure:
    """Activation factors with dot products, X_i^(l) . X_j^(l) / X_i^(0) . X_j^(0).

    Only the quartiles are drawn: the factors of nearly orthogonal embeddings have no bound.
    """
    return boxes(tables["dot_products"], "factor of dot products", extremes=False)


def entropy(tables: Tables) -> Figure:
    """Differential entropy (Eq. 6) of a token's features; boxes as above, over a text's tokens.

    Layer 0 is the embedding.
    """
    return boxes(dict(group_by(tables["layers"], "measure"))["entropy"], LABELS["entropy"])


def boxes(rows: list[Row], label: str, extremes: bool = True) -> Figure:
    """Draw the distribution of a measure in each layer, with one panel per model.

    Args:
        extremes: whether to draw the smallest, largest and mean value as well as the quartiles.
    """
    figure, grid = model_panels(rows, label)
    quartiles = {"q1": "lower_quartile", "med": "median", "q3": "upper_quartile"}
    ends = ("smallest", "largest") if extremes else ("lower_quartile", "upper_quartile")
    names = {**quartiles, "whislo": ends[0], "whishi": ends[1], "mean": "mean"}
    red = plots.VERMILLION
    for axes, of_model in grid:
        axes.bxp(
            [{key: row[name] for key, name in names.items()} for row in of_model],
            positions=[row["layer"] for row in of_model],
            manage_ticks=False,
            showfliers=False,
            showmeans=extremes,
            patch_artist=True,
            boxprops={"facecolor": plots.SKY},
            medianprops={"color": plots.BLACK},
            meanprops={"marker": "o", "markersize": 4, "mfc": red, "mec": red},
        )
    return figure


def parts(tables: Tables) -> Figure:
    """Mean entropy of the outputs of each attention head, before they are joined, or of the states
    of each expert."""
    figure, grid = model_panels(tables["parts"], "entropy of heads or experts (nats)")
    for axes, rows in grid:
        axes.plot(*columns(rows, "layer", "mean"), "o", color=plots.BLUE, alpha=0.5, markersize=5)
    return figure


def expert_weights(tables: Tables) -> Figure:
    """Weights of the experts: quartiles over the texts, and whiskers at most 1.5 times as long as
    the box. On the dotted line, all weights are equal."""
    figure, grid = model_panels(tables["expert_weights"], "expert weight")
    total = max(row["expert"] for row in tables["expert_weights"])
    colors = plots.shades(range(1, total + 1))
    for axes, rows in grid:
        experts = max(row["expert"] for row in rows)
        for expert, of_expert in group_by(rows, "expert"):
            layers = dict(group_by(of_expert, "layer"))
            offset = (expert - (experts + 1) / 2) * 0.8 / experts
            axes.boxplot(
                [columns(of_layer, "weight")[0] for of_layer in layers.values()],
                positions=[layer + offset for layer in layers],
                widths=0.6 / experts,
                showfliers=False,
                manage_ticks=False,
                patch_artist=True,
                boxprops={"facecolor": to_rgba(colors[expert], 0.3), "edgecolor": colors[expert]},
                medianprops={"color": colors[expert], "linewidth": 2},  # visible in a flat box
                whiskerprops={"color": colors[expert]},
                capprops={"color": colors[expert]},
            )
        axes.axhline(1 / experts, color="grey", linewidth=1, linestyle=":")
    top = grid[0][0].get_ylim()[1]
    grid[0][0].set_ylim(0, max(top, 2 / total))  # from 0, so that small differences look small
    legend(figure, [Patch(facecolor=c, label=f"expert {n}") for n, c in colors.items()])
    return figure


def residual_weights(tables: Tables) -> Figure:
    """Residual weights."""
    named = dict(group_by(tables["residual_weights"], "name"))
    figure, grid = panels(len(named), min(len(named), 2), 5.4, 3)
    handles = {}
    for axes, (name, rows) in zip(grid, named.items()):
        lines(axes, rows, "layer", "weight")
        handles |= {line.get_label(): line for line in axes.lines}
        axes.axhline(0, color="grey", linewidth=1)
        axes.set(xlabel="layer", ylabel=name)
    legend(figure, [*handles.values()])
    return figure


def correlations(tables: Tables) -> Figure:
    """Means over texts and layers, and accuracy, of each model."""
    pairs = tables["correlations"]
    looks = plots.styles(row["model"] for row in tables["models"])
    names = plots.label_families(looks)
    figure, grid = panels(len(pairs), len(pairs), 2.9, 2.9)
    for axes, (x, y) in zip(grid, zip(*columns(pairs, "x", "y"))):
        for row in tables["models"]:
            look = {**looks[row["model"]], "linestyle": "", "markersize": 8}
            axes.plot(row[x], row[y], label=names[row["model"]], **look)
        axes.set(xlabel=f"mean {LABELS[x]}", ylabel=LABELS[y])
    legend(figure, grid[0].lines)
    figure.suptitle(f"Over {count_architectures(tables['models'])}", fontsize="medium")
    return figure


def count_architectures(models: list[Row]) -> str:
    """Describe the models, and the limit of correlations over them."""
    count = len({row["architecture"] for row in models})
    architectures = "one architecture" if count == 1 else f"{count} architectures"
    return f"{len(models)} models of {architectures} (runs of one architecture are not independent)"


def distances(tables: Tables) -> Figure:
    """Distances of some tokens of the text."""
    models = list(group_by(tables["distances"]))
    names = plots.label_families(model for model, _ in models)
    shades = plots.shades(row["tokens"] for row in tables["distances"])
    figure, grid = panels(2 * len(models), 2, 4.2, 2.4)
    pairs = [(model, rows, name) for model, rows in models for name in ("euclidean", "cosine")]
    for axes, (model, rows, name) in zip(grid, pairs):
        markers = cycle(plots.MARKERS.values())
        for (tokens, of_tokens), marker in zip(group_by(rows, "tokens"), markers):
            look = {"color": shades[tokens], "marker": marker, "label": tokens}
            axes.plot(*columns(of_tokens, "layer", name), **look)
        plots.integer_ticks(axes)
        title(axes, names[model])
        axes.set(xlabel="layer", ylabel=f"{name} distance")
        axes.set_ylim(0, 1.05 * max(row[name] for row in rows))
    legend(figure, grid[0].lines)
    return figure


def part_distances(tables: Tables) -> Figure:
    """Distances of these tokens in the output of each attention head, before they are joined, or in
    the states of each expert."""
    rows = tables["part_distances"]
    kinds = {
        row["model"]: row["parts"].removesuffix("s") for row in tables["models"] if row["parts"]
    }
    names = plots.label_families(kinds)
    shades = plots.shades(row["tokens"] for row in rows)
    across = max(row["part"] for row in rows)
    panels_of = [
        (f"{names[model]}, {kinds[model]} {part}", of_part)
        for model, of_model in group_by(rows)
        for part, of_part in group_by(of_model, "part")
    ]
    figure, grid = panels(len(panels_of), min(across, 4), 2.6, 2.2)
    for axes, (name, of_part) in zip(grid, panels_of):
        for tokens, of_tokens in group_by(of_part, "tokens"):
            look = {"color": shades[tokens], "marker": ".", "label": tokens}
            axes.plot(*columns(of_tokens, "layer", "euclidean"), **look)
        plots.integer_ticks(axes)
        title(axes, name)
        axes.set(xlabel="layer", ylabel="Euclidean distance")
        axes.set_ylim(0, 1.05 * max(row["euclidean"] for row in of_part))
    legend(figure, grid[0].lines)
    return figure


def isomap(tables: Tables) -> Figure:
    """Isomap of the tokens of the text: one plane for all layers of a model, with equal means.
    Colours mark the tokens with measured distances."""
    models = list(group_by(tables["isomap"]))
    chosen = plots.shades(t for row in tables["distances"] for t in row["tokens"].split(" - "))
    layers = 1 + max(row["layer"] for row in tables["isomap"])
    names = plots.label_families(model for model, _ in models)
    figure, grid = panels(layers * len(models), layers, 1.8, 2)
    for index, (model, rows) in enumerate(models):
        line = grid[index * layers : (index + 1) * layers]
        title(line[0], names[model])
        xs, ys = columns(rows, "x", "y")
        width = 1.15 * max(max(xs) - min(xs), max(ys) - min(ys))
        left, bottom = ((min(values) + max(values) - width) / 2 for values in (xs, ys))
        for layer, axes in enumerate(line):
            points = [row for row in rows if row["layer"] == layer]
            axes.set(xlim=(left, left + width), ylim=(bottom, bottom + width))
            axes.set(xticks=[], yticks=[], box_aspect=1, xlabel=f"layer {layer}")
            axes.set_visible(bool(points))
            axes.plot(*columns(points, "x", "y"), "o", color="lightgrey", markersize=4)
            for token, color in chosen.items():
                first = next((row for row in points if row["token"] == token), None)
                if first:
                    axes.plot(first["x"], first["y"], "o", color=color, label=token)
    legend(figure, grid[0].lines[1:])
    return figure


def model_panels(rows: list[Row], label: str):
    """Make a figure with a panel for each model of a table, and return panels with their rows."""
    models = dict(group_by(rows))
    names = plots.label_families(models)
    # With the same number of rows, the last row becomes as full as possible.
    across = math.ceil(len(models) / math.ceil(len(models) / MAX_COLUMNS))
    figure, grid = panels(len(models), across, 2.8, 2.4, sharey=True)
    for axes, model in zip(grid, models):
        title(axes, names[model])
        axes.set_xlabel("layer")
        plots.integer_ticks(axes)
    for axes in grid[::across]:
        axes.set_ylabel(label)
    return figure, list(zip(grid, models.values()))


# Each figure, and the table that it needs.
PLOTS = {
    means: "layers",
    activation: "layers",
    dot_products: "dot_products",
    entropy: "layers",
    parts: "parts",
    expert_weights: "expert_weights",
    residual_weights: "residual_weights",
    correlations: "correlations",
    distances: "distances",
    part_distances: "part_distances",
    isomap: "isomap",
}
