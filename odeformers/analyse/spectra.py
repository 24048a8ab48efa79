"""Compute the eigenvalues of W_Q W_K^T and W_O W_V of the self-attention at each depth."""

import argparse
from collections.abc import Callable

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.models.common.answers import Projections, ask
from fairseq_odeformers.options import SIDES
from odeformers.plots import group_by, legend, lines, panels

from .maps import NotApplicable
from .result import Row, Tables, markdown

PRODUCTS = {"QK": "W_Q W_K^T", "OV": "W_O W_V"}


def eigenvalues(weights: Projections, product: str) -> Tensor:
    """Return the eigenvalues (H, D/H) of each head's product; all other eigenvalues are zero.

    A B and B A have the same eigenvalues, so the smaller product is decomposed, in float64.
    """
    heads = (weight.double().cpu().chunk(weights.heads) for weight in weights.pairs[product])
    return torch.linalg.eigvals(torch.stack([a @ b.T for a, b in zip(*heads)]))


@torch.no_grad()
def analyse(path: str, args: argparse.Namespace) -> Tables:
    """Compute the eigenvalues of a checkpoint; depth k of L is at t = (k + 1)/L, like a step."""
    model, *_ = Checkpoint.read(path).build(args.data)
    rows: list[Row] = []
    for side in SIDES:
        stack = getattr(model.eval(), side, None)
        answers = ask(stack, "projections").values() if stack else ()
        depths = [weights for answer in answers for weights in answer()]
        for depth, weights in enumerate(depths, start=1):
            for product in weights.pairs:
                place = {"stack": side, "product": product, "t": depth / len(depths)}
                for head, values in enumerate(eigenvalues(weights, product), start=1):
                    rows += [
                        {**place, "head": head, "real": z.real, "imaginary": z.imag}
                        for z in values.tolist()
                    ]
    if not rows:
        raise NotApplicable(f"{path}: {type(model).__name__} has no queries, keys and values")
    return {"spectra": rows}


def summary(rows: list[Row]) -> list[Row]:
    """Return the largest and mean modulus, and the mean real part, over all heads at each t."""
    summaries, key = [], ("model", "stack", "product", "t")
    places: dict[tuple, list[complex]] = {}
    for row in rows:
        values = places.setdefault(tuple(row[name] for name in key), [])
        values.append(complex(row["real"], row["imaginary"]))
    for place, values in places.items():
        sizes, real = [abs(z) for z in values], [z.real for z in values]
        means = {"mean": sum(sizes) / len(sizes), "mean real part": sum(real) / len(real)}
        summaries.append({**dict(zip(key, place)), "largest": max(sizes), **means})
    return summaries


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """Return the page in Markdown, and the figure."""
    return f"# Spectra over depth\n\n{markdown(summary(tables['spectra']))}", [spectra]


def spectra(tables: Tables) -> Figure:
    """The largest modulus, over the heads, of an eigenvalue of W_Q W_K^T and of W_O W_V, against t.

    A layer of a Transformer is a point on the axis, and a step of DiffEqFormer is a point of its
    curve. TransEvolve computes queries and keys once per block.
    """
    rows = summary(tables["spectra"])
    places = [(f"{row['stack']}, {PRODUCTS[row['product']]}", row) for row in rows]
    grouped = dict(group_by([{**row, "place": place} for place, row in places], "place"))
    figure, grid = panels(len(grouped), 2, 3.5, 2.6, sharex=True)
    for axes, (place, of_place) in zip(grid, grouped.items()):
        lines(axes, of_place, "t", "largest")
        axes.set(title=place, xlabel="t", ylabel="largest |eigenvalue|")
        axes.set_ylim(bottom=0)
    legend(figure, grid[0].lines)
    return figure
