"""Attention over one sentence: which tokens each token attends to, as heat maps."""

import argparse
from collections.abc import Callable

import numpy as np
import torch
from matplotlib.figure import Figure

from fairseq_odeformers.checkpoints import read
from fairseq_odeformers.checkpoints.trained import count_classes
from fairseq_odeformers.inference.hub import make_classifier, make_translator
from fairseq_odeformers.lab.plots import group_by, panels, title

from .maps import attention_maps
from .result import Row, Tables

BEAM = 5  # of the translation
MOST_TOKENS = 80  # in a picture that can be read
COLUMNS = 2  # of a grid with a panel for each map
INCHES = 0.2  # of a token in a panel
LETTER = 0.08  # inches of a letter beside it


def analyse(path: str, args: argparse.Namespace) -> Tables:
    """The table of the maps of ``--text`` in a checkpoint."""
    model, net_input, tokens = encode(path, args)
    if max(len(names) for pair in tokens.values() for names in pair) > MOST_TOKENS:
        raise ValueError(f"--text: more than {MOST_TOKENS} tokens cannot be drawn")
    return {"sentence": measure(model, net_input, tokens, args.head)}


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """The page in Markdown, with the translation by each model, and the figures."""
    what = f"head {args.head}" if args.head else "the mean over the heads"
    parts = [f"# Attention over a sentence: {what}\n", f"Source: {args.text}\n"]
    kinds = dict(group_by(tables["sentence"], "kind"))
    for name, rows in group_by(kinds.get("cross", [])):
        translation = {row["query"]: row["query_token"] for row in rows}.values()
        parts.append(f"Translation by {name}: {' '.join(translation)}\n")
    return "\n".join(parts), [plot for plot in (cross, encoder, decoder) if plot.__name__ in kinds]


def encode(path: str, args: argparse.Namespace):
    """A model, its ``net_input`` for ``--text``, and the tokens of its maps.

    The tokens are by kind those of the queries and those of the keys. A decoder gets the model's
    own translation. It reads each token of it one place after the one that predicts it, and
    ``</s>`` first; a query is named by the token that it predicts.
    """
    state = read(path)
    if count_classes(state) is not None:
        classifier = make_classifier([(path, state)], args.data).to(args.device)
        net_input = classifier.collate([classifier.encode(args.text)])
        source = [classifier.task.source_dictionary[n] for n in net_input["src_tokens"][0]]
        return classifier.models[0], net_input, {"encoder": (source, source)}
    translator = make_translator([(path, state)], args.data).to(args.device)
    ids = translator.encode(args.text)
    hypotheses = translator.generate([ids], beam=BEAM, max_len_a=0, max_len_b=MOST_TOKENS - 1)
    translation = hypotheses[0][0]["tokens"].to(args.device)
    net_input = {
        "src_tokens": ids.unsqueeze(0).to(args.device),
        "src_lengths": torch.tensor([len(ids)], device=args.device),
        "prev_output_tokens": translation.roll(1).unsqueeze(0),
    }
    source = [translator.src_dict[n] for n in ids]
    target = [translator.tgt_dict[n] for n in translation]
    kinds = {
        "encoder": (source, source),
        "decoder": (target, [target[-1], *target[:-1]]),
        "cross": (target, source),
    }
    return translator.models[0], net_input, kinds


def measure(model, net_input: dict, tokens: dict, head: int | None) -> list[Row]:
    """A row for the weight of each key for each query of one sentence, at each depth.

    Args:
        tokens: of the queries and of the keys, by kind.
        head: number of a head, from 1; None for the mean over the heads.
    """
    rows = []
    for kind, maps in attention_maps(model, net_input).items():
        weights = maps.weights[:, 0]  # L, H, T, S
        if head is not None and head > weights.size(1):
            raise ValueError(f"--head {head}: {type(model).__name__} has {weights.size(1)} heads")
        chosen = weights.mean(1) if head is None else weights[:, head - 1]
        queries, keys = tokens[kind]
        deep = len(maps.places) > len(maps.biases)
        for (block, depth), of_map in zip(maps.places, chosen.tolist()):
            name = f"block {block}, depth {depth}" if deep else f"layer {block}"
            place = {"kind": kind, "map": name, "head": head or "mean"}
            for (i, query), of_query in zip(enumerate(queries), of_map):
                for (j, key), weight in zip(enumerate(keys), of_query):
                    names = {"query": i, "query_token": query, "key": j, "key_token": key}
                    rows.append({**place, **names, "weight": weight})
    return rows


def cross(tables: Tables) -> Figure:
    """Cross-attention: the weight of each token of the source (columns), while the decoder predicts
    each token of the translation (rows)."""
    return heat_maps(tables, "cross", "predicted token", "source token")


def encoder(tables: Tables) -> Figure:
    """Self-attention of the encoder: the weight of each token (columns) for each token (rows)."""
    return heat_maps(tables, "encoder", "token", "attends to")


def decoder(tables: Tables) -> Figure:
    """Self-attention of the decoder: the weight of each token before (columns; ``</s>`` is the
    start), while it predicts each token of the translation (rows)."""
    return heat_maps(tables, "decoder", "predicted token", "token before")


def heat_maps(tables: Tables, kind: str, ylabel: str, xlabel: str) -> Figure:
    """A panel for each map of a kind, by model and depth, with one scale for all."""
    rows = dict(group_by(tables["sentence"], "kind"))[kind]
    models = {model: dict(group_by(of_model, "map")) for model, of_model in group_by(rows)}
    across = min(COLUMNS, max(map(len, models.values())))
    # Names of the queries stand beside a panel, those of the keys below it.
    counts = [1 + max(row[side] for row in rows) for side in ("key", "query")]
    letters = [max(len(row[f"{side}_token"]) for row in rows) for side in ("query", "key")]
    sizes = [0.6 + INCHES * n + LETTER * m for n, m in zip(counts, letters)]
    largest = max(row["weight"] for row in rows)
    maps = [(f"{model}: {name}", models[model][name]) for model in models for name in models[model]]
    figure, grid = panels(len(maps), across, *sizes)
    for axes, (name, of_map) in zip(grid, maps):
        weights = np.reshape([row["weight"] for row in of_map], (-1, 1 + of_map[-1]["key"]))
        image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=largest)
        for axis, side in ((axes.xaxis, "key"), (axes.yaxis, "query")):
            tokens = {row[side]: row[f"{side}_token"] for row in of_map}
            axis.set_ticks(list(tokens), list(tokens.values()), fontsize="x-small")
        axes.tick_params(axis="x", rotation=90)
        axes.grid(False)
        axes.set_xlabel(xlabel)
        title(axes, name)
    for axes in grid[::across]:
        axes.set_ylabel(ylabel)
    figure.colorbar(image, ax=grid, label="weight", shrink=0.6, aspect=30, pad=0.01)
    return figure
