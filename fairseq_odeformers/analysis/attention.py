"""Measures how attention maps change over the depth of trained models, their span and entropy."""

from __future__ import annotations

import argparse
import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import torch
from fairseq import utils
from matplotlib.figure import Figure
from torch import Tensor
from tqdm import tqdm

from fairseq_odeformers.files import replacing_folder, write_csv
from fairseq_odeformers.inference.loading import import_plugins, load_model
from fairseq_odeformers.options import add_user_dir

from .command import model_names
from .figures import columns, grouped, legend, style
from .maps import KINDS, attention_maps
from .report import markdown
from .tables import Row

BATCH_SIZE = 16  # sentences whose maps are in memory together
FIGURE = "attention.png"
RARE, SHOWN = 10, 5  # tokens seen less often have no mean bias; shown are so many at either end


def main(arguments=None) -> None:
    """The command line; an error ends the program with a message of one line."""
    parser = argparse.ArgumentParser(
        prog="odeformers analyse attention", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("data", help="data set, as given to fairseq-train")
    parser.add_argument(
        "--path",
        metavar="CHECKPOINT",
        nargs="+",
        required=True,
        help="of an encoder-decoder or an encoder; called as its folder",
    )
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="where to put the result"
    )
    parser.add_argument("--split", default="valid", help="(default: %(default)s)")
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s | %(message)s", level=logging.WARNING, force=True)
    analyse(args)


def analyse(args: argparse.Namespace) -> None:
    """What the command line does."""
    if args.out.exists() and not (args.out / FIGURE).exists():
        raise ValueError(f"{args.out} is in the way; move it, or choose another --out")
    import_plugins(args.user_dir)
    names = model_names(args.path, "-")
    use_cuda = torch.cuda.is_available() and not args.cpu
    rows = []
    with replacing_folder(args.out) as folder:
        for name, path in zip(names, args.path):
            model, _, task = load_model(path, {"data": args.data})
            model = model.cuda().eval() if use_cuda else model.eval()
            task.load_dataset(args.split)
            batches = task.get_batch_iterator(
                task.dataset(args.split),
                max_sentences=BATCH_SIZE,
                max_positions=utils.resolve_max_positions(
                    task.max_positions(), model.max_positions()
                ),
                ignore_invalid_inputs=True,
            ).next_epoch_itr(shuffle=False)
            batches = tqdm(batches, name, unit=" batches", mininterval=1)
            moved = (utils.move_to_cuda(batch) if use_cuda else batch for batch in batches)
            found, biases = measure(model, task, moved)
            if not found:
                raise ValueError(f"{args.split} of {args.data} has no sentence for {path}")
            write_csv(folder / f"{name}.csv", found)
            rows += [{"model": name, **row} for row in found]
            if biases:
                write_csv(folder / f"{name}.biases.csv", biases)
                print(f"\n{name}, time-dependent biases:\n", *listed(biases), sep="\n")
        draw(rows).savefig(folder / FIGURE, dpi=150)
    print("", *markdown(summary(rows)), f"\nwrote {args.out}", sep="\n")


def total_variation(p: Tensor, q: Tensor) -> Tensor:
    """Half the L1 distance of distributions along the last dimension, from 0 to 1."""
    return (p - q).abs().sum(-1) / 2


def entropy(p: Tensor) -> Tensor:
    """In nats, of distributions along the last dimension."""
    return torch.special.entr(p).sum(-1)


def span(p: Tensor) -> Tensor:
    """Expected distance |i - j| in tokens of a query i and its key j, of maps (..., T, T)."""
    position = torch.arange(p.size(-1), device=p.device)
    return (p * (position.unsqueeze(1) - position).abs()).sum(-1)


def measure(model, task, batches: Iterable[dict]) -> tuple[list[Row], list[Row]]:
    """Means over the heads and over all queries of all sentences, padding left out.

    Returns:
        - Of each kind and depth, in whose order they are: ``change``, the total variation distance
          to the map of the depth before; ``span``, of self-attention; and ``entropy``. ``block`` is
          the layer, or the block of several depths; ``fraction`` the depth over that of the model.
        - What :func:`bias_rows` returns.
    """
    source, target = task.source_dictionary, task.target_dictionary
    dictionaries = {"encoder": source, "decoder": target, "cross": source}  # of the keys
    sums, queries, blocks, biases = defaultdict(float), defaultdict(int), {}, defaultdict(float)
    for sample in batches:
        net_input, of_kind = sample["net_input"], defaultdict(list)
        for maps in attention_maps(model, net_input):
            of_kind[maps.kind].append(maps)
        for kind, layers in of_kind.items():
            keys = net_input["prev_output_tokens" if kind == "decoder" else "src_tokens"]
            real = net_input["src_tokens" if kind == "encoder" else "prev_output_tokens"]
            real = real != dictionaries[kind].pad()
            p = torch.cat([maps.weights for maps in layers])
            change = torch.full_like(p[..., 0], math.nan)  # the first has none before it
            change[1:] = total_variation(p[1:], p[:-1])
            spans = torch.full_like(change, math.nan) if kind == "cross" else span(p)
            values = torch.stack([change, spans, entropy(p)])  # 3, L, B, H, T
            sums[kind] += values.mean(3)[:, :, real].double().sum(-1)
            queries[kind] += int(real.sum())
            blocks[kind] = [n for n, maps in enumerate(layers, 1) for _ in maps.weights]
            for block, maps in enumerate(layers, 1):
                if maps.bias is not None:
                    biases[kind, block] += bias_sums(maps.bias, keys, dictionaries[kind])
    rows = []
    for kind in filter(sums.__contains__, KINDS):
        means = (sums[kind] / queries[kind]).T.tolist()
        for depth, (block, numbers) in enumerate(zip(blocks[kind], means), 1):
            place = {"kind": kind, "block": block, "depth": depth, "fraction": depth / len(means)}
            numbers = [None if math.isnan(number) else number for number in numbers]
            rows.append({**place, **dict(zip(("change", "span", "entropy"), numbers))})
    of_symbols = (bias_rows(*key, sums, dictionaries[key[0]]) for key, sums in biases.items())
    return rows, [row for some in of_symbols for row in some]


def bias_sums(bias: Tensor, tokens: Tensor, dictionary) -> Tensor:
    """Sums over its occurrences of each symbol's bias at each depth, and their number (V, L + 1).

    The bias is averaged over the heads; its mean over the sentence, which softmax does not see, is
    taken off.

    Args:
        bias: b^l of the keys (B, H, S, L).
        tokens: the keys (B, S).
    """
    real = (tokens != dictionary.pad()).unsqueeze(-1)
    bias = bias.double().mean(1) * real
    bias = (bias - bias.sum(1, keepdim=True) / real.sum(1, keepdim=True)) * real
    values = torch.cat([bias, real], -1)
    sums = values.new_zeros(len(dictionary), values.size(-1))
    return sums.index_add(0, tokens.flatten(), values.flatten(0, 1))


def bias_rows(kind: str, block: int, sums: Tensor, dictionary) -> list[Row]:
    """The symbols with the highest and the lowest mean bias, at first and last depth of a block."""
    counts = sums[:, -1]
    symbols = (counts >= RARE).nonzero().flatten()
    means = sums[symbols, :-1] / counts[symbols, None]
    shown, rows = min(SHOWN, len(symbols) // 2), []
    for depth in sorted({0, means.size(1) - 1}):
        order = means[:, depth].argsort(descending=True)
        for end, chosen in (("highest", order[:shown]), ("lowest", order.flip(0)[:shown])):
            place = {"kind": kind, "block": block, "depth": depth + 1, "end": end}
            for symbol, bias in zip(symbols[chosen].tolist(), means[chosen, depth].tolist()):
                count = int(counts[symbol])
                rows.append({**place, "token": dictionary[symbol], "count": count, "bias": bias})
    return rows


def listed(rows: list[Row]) -> list[str]:
    """The symbols in Markdown, a row an end of a depth of a block."""
    lines = {}
    for row in rows:
        place = {name: row[name] for name in ("kind", "block", "depth", "end")}
        line = lines.setdefault(tuple(place.values()), {**place, "tokens": []})
        line["tokens"].append(f"{row['token']} {row['bias']:+.2f}")
    return markdown([{**line, "tokens": ", ".join(line["tokens"])} for line in lines.values()])


def summary(rows: list[Row]) -> list[Row]:
    """Means over the depths of a model, a row a kind; changes within and between blocks apart."""
    found = []
    for model, of_model in grouped(rows):
        for kind in dict.fromkeys(row["kind"] for row in of_model):
            own = [row for row in of_model if row["kind"] == kind]
            pairs = list(zip(own, own[1:]))
            values = {
                "change within blocks": [b["change"] for a, b in pairs if a["block"] == b["block"]],
                "between": [b["change"] for a, b in pairs if a["block"] != b["block"]],
                "span": [row["span"] for row in own if row["span"] is not None],
                "entropy (nats)": [row["entropy"] for row in own],
            }
            means = {name: sum(of) / len(of) if of else None for name, of in values.items()}
            found.append({"model": model, "kind": KINDS[kind], "depths": len(own), **means})
    return found


def draw(rows: list[Row]) -> Figure:
    """The change against the fraction of the depth, a panel a kind and a line a model."""
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    figure = Figure(figsize=(0.5 + 3.5 * len(kinds), 4), layout="constrained")
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    for kind, axes in zip(kinds, panels):
        for index, (model, own) in enumerate(grouped(rows)):
            own = [row for row in own if row["kind"] == kind and row["change"] is not None]
            axes.plot(*columns(own, "fraction", "change"), label=model, **style(index))
        axes.set(title=KINDS[kind], xlabel="depth / depth of the model")
    panels[0].set(ylabel="change (total variation distance)", ylim=(0, None))
    legend(figure, panels[0])
    return figure
