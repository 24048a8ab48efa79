"""Measure how attention maps change from depth to depth, how far they reach, and their entropy."""

import argparse
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from torch import Tensor

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.errors import InputError
from odeformers.plots import group_by, legend, lines, panels
from odeformers.predict import batches, naming_split

from .maps import KINDS, attention_maps, check_maps
from .result import Row, Tables, markdown

BATCH_SIZE = 16  # number of sentences whose maps are in memory at a time
MIN_OCCURRENCES = 10  # a token that occurs less often gets no mean bias
MAX_LISTED = 5  # number of tokens shown with the highest bias, and with the lowest


def analyse(path: str, args: argparse.Namespace) -> Tables:
    """Compute the tables of a checkpoint."""
    model, task, _ = Checkpoint.read(path).build(args.data)
    check_maps(path, model)
    model = model.to(args.device).eval()
    with naming_split(task, args.split):
        tables = measure(model, task, batches(task, args.split, [model], BATCH_SIZE))
    if not tables["attention"]:
        raise InputError(
            f"{args.split} of {args.data} has no sentence for {path}; choose a different --split"
        )
    return tables


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """Return the page in Markdown and the figures; print the means."""
    means = markdown(summary(tables["attention"]))
    print(f"\n{means}")
    changes = any(row["change"] is not None for row in tables["attention"])
    return f"# Attention over depth\n\n{means}", [attention] if changes else []


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Return half the L1 distance between distributions along the last dimension, from 0 to 1."""
    return (p - q).abs().sum(-1) / 2


def entropy(p: Tensor) -> Tensor:
    """Return the entropy, in nats, of distributions along the last dimension."""
    return torch.special.entr(p).sum(-1)


def span(p: Tensor) -> Tensor:
    """Return the expected distance |i - j| of a query i and its key j in maps (..., T, T)."""
    position = torch.arange(p.size(-1), device=p.device)
    return (p * (position.unsqueeze(1) - position).abs()).sum(-1)


def measure(model, task, samples: Iterable[dict]) -> Tables:
    """Measure means over the heads and over all queries of all sentences, without padding.

    Returns:
        - ``attention``, with a row for each kind and map, in order: ``change``, the total variation
          distance to the previous map; ``span``, only for self-attention; and ``entropy``.
          ``block`` is the number of the layer, or of the block of several depths; ``depth`` is the
          depth of the map in the model, and ``fraction`` is ``depth`` over the model's depth.
        - ``biases``, the rows of :func:`bias_rows`.
    """
    source, target = task.source_dictionary, task.target_dictionary
    dictionaries = {"encoder": source, "decoder": target, "cross": source}  # name the keys
    sums: defaultdict[str, Any] = defaultdict(float)
    biases: defaultdict[tuple[str, int], Any] = defaultdict(float)
    queries, places = defaultdict(int), {}
    for sample in samples:
        net_input = sample["net_input"]
        for kind, maps in attention_maps(model, net_input).items():
            keys = net_input["prev_output_tokens" if kind == "decoder" else "src_tokens"]
            token_mask = net_input["src_tokens" if kind == "encoder" else "prev_output_tokens"]
            token_mask = token_mask != dictionaries[kind].pad()
            p, places[kind] = maps.weights, maps.places
            change = torch.full_like(p[..., 0], math.nan)  # no depth precedes the first one
            change[1:] = total_variation(p[1:], p[:-1])
            spans = torch.full_like(change, math.nan) if kind == "cross" else span(p)
            values = torch.stack([change, spans, entropy(p)])  # 3, L, B, H, T
            sums[kind] += values.mean(3)[:, :, token_mask].double().sum(-1)
            queries[kind] += int(token_mask.sum())
            for block, bias in enumerate(maps.biases, start=1):
                if bias is not None:
                    biases[kind, block] += bias_sums(bias, keys, dictionaries[kind])
    tables: Tables = {"attention": [], "biases": []}
    for kind, of_kind in places.items():
        means = (sums[kind] / queries[kind]).T.tolist()
        for (block, depth), numbers in zip(of_kind, means):
            numbers = (None if math.isnan(number) else number for number in numbers)
            fraction = depth / of_kind[-1][1]
            place = {"kind": kind, "block": block, "depth": depth, "fraction": fraction}
            row = {**place, **dict(zip(("change", "span", "entropy"), numbers))}
            tables["attention"].append(row)
    for (kind, block), of_symbols in biases.items():
        tables["biases"] += bias_rows(kind, block, of_symbols, dictionaries[kind])
    return tables


def bias_sums(bias: Tensor, tokens: Tensor, dictionary) -> Tensor:
    """Sum each symbol's biases at each depth over its occurrences, and count them: (V, L + 1).

    The bias is averaged over the heads. Its mean over the sentence is subtracted, because softmax
    does not depend on that mean.

    Args:
        bias: b^l of the keys (B, H, S, L).
        tokens: the keys (B, S).
    """
    token_mask = (tokens != dictionary.pad()).unsqueeze(-1)
    bias = bias.double().mean(1) * token_mask
    mean = bias.sum(1, keepdim=True) / token_mask.sum(1, keepdim=True)
    values = torch.cat([(bias - mean) * token_mask, token_mask], -1)
    sums = values.new_zeros(len(dictionary), values.size(-1))
    return sums.index_add(0, tokens.flatten(), values.flatten(0, 1))


def bias_rows(kind: str, block: int, sums: Tensor, dictionary) -> list[Row]:
    """Return the symbols with the highest and the lowest mean bias, at a block's end depths."""
    counts = sums[:, -1]
    symbols = (counts >= MIN_OCCURRENCES).nonzero().flatten()
    means = sums[symbols, :-1] / counts[symbols, None]
    shown, rows = min(MAX_LISTED, len(symbols) // 2), []
    for depth in sorted({0, means.size(1) - 1}):
        order = means[:, depth].argsort(descending=True)
        for end, chosen in (("highest", order[:shown]), ("lowest", order.flip(0)[:shown])):
            place = {"kind": kind, "block": block, "depth": depth + 1, "end": end}
            for symbol, bias in zip(symbols[chosen].tolist(), means[chosen, depth].tolist()):
                count = int(counts[symbol])
                rows.append({**place, "token": dictionary[symbol], "count": count, "bias": bias})
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Average over the maps of each model and kind, and over changes within and between blocks."""
    summaries = []
    for model, of_model in group_by(rows):
        for kind, maps in group_by(of_model, "kind"):
            pairs = list(zip(maps, maps[1:]))
            values = {
                "change within blocks": [b["change"] for a, b in pairs if a["block"] == b["block"]],
                "between blocks": [b["change"] for a, b in pairs if a["block"] != b["block"]],
                "span": [row["span"] for row in maps if row["span"] is not None],
                "entropy (nats)": [row["entropy"] for row in maps],
            }
            means = {
                name: sum(numbers) / len(numbers) if numbers else None
                for name, numbers in values.items()
            }
            depths = maps[-1]["depth"]
            summaries.append({"model": model, "kind": KINDS[kind], "depths": depths, **means})
    return summaries


def attention(tables: Tables) -> Figure:
    """Change of the maps from depth to depth (total variation distance), averaged over the heads.

    A point is at the later of two depths, relative to the depth of the model, so a model of two
    layers has a single point, at 1. If all models have only one point, the points are side by side.
    The first map of a block follows the last map of the previous block. A block of the N-ODE
    Transformer has a map at its start and a map at its end, so that two changes are at one depth.
    """
    rows = [row for row in tables["attention"] if row["change"] is not None]
    kinds = dict(group_by(rows, "kind"))
    first = min(row["fraction"] for row in rows)
    figure, grid = panels(len(kinds), len(kinds), 2 + 1.5 * (1 - first), 3, sharey=True)
    for axes, (kind, of_kind) in zip(grid, kinds.items()):
        axes.set_title(KINDS[kind])
        if first == 1:
            placed = [{**row, "place": place} for place, row in enumerate(of_kind)]
            lines(axes, placed, "place", "change")
            axes.set(xticks=[], xlim=(-1, len(of_kind)))
            continue
        lines(axes, of_kind, "fraction", "change")
        axes.set(xlabel="relative depth", xlim=(first - 0.08, 1.08))
        axes.xaxis.set_major_locator(MultipleLocator(0.2))
    room = 1.1 * max(row["change"] for row in rows) or None  # so that markers fit below the edge
    grid[0].set(ylabel="change (total variation distance)", ylim=(0, room))
    legend(figure, grid[0].lines)
    return figure
