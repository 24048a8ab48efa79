"""Measurements of classifiers as tidy tables: lists of rows, each a dictionary of JSON values."""

import math
import warnings
from collections import defaultdict
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
from torch import Tensor
from tqdm import tqdm

from fairseq_odeformers.files import markdown_table
from fairseq_odeformers.models.transject.models import TransJect

from . import measures
from .states import residual_weights, text_states

Row = dict[str, Any]
Tables = dict[str, list[Row]]

NAMES = (
    *("models", "layers", "parts", "expert_weights", "residual_weights"),  # see measure
    *("distances", "isomap"),  # see follow
    "correlations",
)

# Pairs of columns that are correlated over models, if there are enough models.
PAIRS = (("activation", "accuracy"), ("entropy", "accuracy"), ("activation", "entropy"))
METHODS = ("pearson", "spearman")
ENOUGH = 3
ENOUGH_FOR_P = 5


def measure(model, texts: dict[int, Tensor], progress: str) -> Tables:
    """Measure the states that a model computes from some texts.

    Args:
        texts: tokens (T) by number.
        progress: name of the progress bar.

    Returns:
        - ``models``, one row: the means over the layers after X^(0) of the activation factor and
          the entropy; ``largest``, the largest factor after the last layer; and, of TransJect, its
          bound.
        - ``layers``: activation factor and entropy of each layer.
        - ``parts``: entropy of each attention head or expert of each layer.
        - ``expert_weights`` of each layer and text.
        - ``residual_weights`` of each layer.

        The columns of statistics are those of :func:`over_texts`.
    """
    found, weights = defaultdict(list), []
    for number, tokens in tqdm(texts.items(), progress, unit=" texts", mininterval=1):
        states = text_states(model, tokens)
        values = {
            "activation": measures.activation_factors(states.layers),
            "entropy": measures.differential_entropy(states.layers),
        }
        outputs = states.heads if states.experts is None else states.experts
        if outputs is not None:
            values["parts"] = measures.differential_entropy(outputs)
        for name, tensor in values.items():
            found[name].append(measures.summarize(tensor))
        if states.expert_weights is not None:
            weights += [
                {"text": number, "layer": layer, "expert": expert, "weight": weight}
                for layer, row in enumerate(states.expert_weights.tolist(), start=1)
                for expert, weight in enumerate(row, start=1)
            ]
    factors = over_texts(found["activation"], layer=1)
    entropies = over_texts(found["entropy"], layer=0)
    parts = over_texts(found["parts"], layer=1, part=1) if found["parts"] else []
    depth = len(factors)
    summary = {
        "layers": depth,
        "activation": mean_of(factors),
        "largest": factors[-1]["largest"],
        "bound": measures.lipschitz_bound(depth) if isinstance(model, TransJect) else None,
        "entropy": mean_of(entropies[1:]),
        "deviation": mean_of(entropies[1:], "deviation"),
        "parts": ("experts" if weights else "heads") if parts else None,
        "part_entropy": mean_of(parts) if parts else None,
    }
    return {
        "models": [summary],
        "layers": [
            {"measure": name, **row}
            for name, rows in (("activation", factors), ("entropy", entropies))
            for row in rows
        ],
        "parts": parts,
        "expert_weights": weights,
        "residual_weights": [
            {"layer": layer, "weight": weight}
            for layer, weight in enumerate(residual_weights(model) or [], start=1)
        ],
    }


def over_texts(summaries: Sequence[dict[str, np.ndarray]], **first: int) -> list[Row]:
    """Rows of statistics over several texts.

    Args:
        summaries: what :func:`~fairseq_odeformers.analysis.measures.summarize` returns, by text.
        first: name of each dimension, and the number of its first index.

    Returns:
        The statistics of a text, averaged over the texts; but ``smallest`` and ``largest`` are of
        all texts. ``deviation`` is the standard deviation of ``mean`` over the texts, ``left_out``
        the number of values that were not finite.
    """
    values = {name: np.stack([each[name] for each in summaries]) for name in summaries[0]}
    left_out = values.pop("left_out").sum(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no value is finite
        columns = {name: np.nanmean(of_texts, 0) for name, of_texts in values.items()}
        columns["smallest"] = np.nanmin(values["smallest"], 0)
        columns["largest"] = np.nanmax(values["largest"], 0)
        columns["deviation"] = np.nanstd(values["mean"], 0)
    columns["left_out"] = left_out
    return [
        {
            **{name: start + at for (name, start), at in zip(first.items(), index)},
            **{name: column[index].item() for name, column in columns.items()},
        }
        for index in np.ndindex(left_out.shape)
    ]


def mean_of(rows: Sequence[Row], column: str = "mean") -> float:
    return float(np.mean([row[column] for row in rows]))


def follow(model, tokens: Tensor, names: Sequence[str], chosen: Sequence[int]) -> Tables:
    """Follow the tokens of one text through the layers.

    Args:
        tokens: the text (T).
        names: of its tokens.
        chosen: positions of the tokens whose distances are measured.

    Returns:
        ``distances`` of each pair of chosen tokens, and ``isomap`` of all tokens, by layer.
    """
    states = text_states(model, tokens).layers
    pairs = list(combinations(chosen, 2))
    euclidean, cosine = (d.tolist() for d in measures.token_distances(states, *zip(*pairs)))
    return {
        "distances": [
            {
                "layer": layer,
                "tokens": f"{names[first]} - {names[second]}",
                "euclidean": euclidean[layer][pair],
                "cosine": cosine[layer][pair],
            }
            for layer in range(len(states))
            for pair, (first, second) in enumerate(pairs)
        ],
        "isomap": [
            {"layer": layer, "position": position, "token": names[position], "x": x, "y": y}
            for layer, points in enumerate(measures.isomap(states).tolist())
            for position, (x, y) in enumerate(points)
        ],
    }


def correlations(models: Sequence[Row]) -> list[Row]:
    """Correlations over the rows of ``models``; none of fewer than three, or of unknown values.

    Fewer than five have no p-value, which would make much of what three points show.
    """
    rows = []
    for pair in PAIRS:
        columns = [[row[name] for row in models] for name in pair]
        unknown = any(value is None or math.isnan(value) for value in sum(columns, []))
        if unknown or len(models) < ENOUGH:
            continue
        for method in METHODS:
            statistic, p_value = measures.correlation(*columns, method)
            rows.append(
                {
                    **dict(zip(("x", "y"), pair)),
                    "method": method,
                    "correlation": statistic,
                    "p_value": p_value if len(models) >= ENOUGH_FOR_P else None,
                }
            )
    return rows


def markdown(rows: Sequence[Row]) -> str:
    """A table in Markdown, without columns that are empty."""
    names = dict.fromkeys(name for row in rows for name, value in row.items() if value is not None)
    return markdown_table([list(names), *([cell(row.get(name)) for name in names] for row in rows)])


def cell(value) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value).replace("|", "\\|")
