"""Activation factors, entropies and weights of trained classifiers."""

import argparse
from collections.abc import Iterator

import torch

from fairseq_odeformers.inference.loading import load_classifier
from fairseq_odeformers.inference.predict import probabilities
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.plots import grouped

from . import figures, tables, texts
from .tables import Tables, markdown

BATCH_SIZE = 32  # texts whose classes are predicted together


def analyse(args: argparse.Namespace, names: list[str]):
    """Measure the checkpoints of a command line.

    Returns:
        The text of a page, tables by name, and the functions that draw figures of them.

    Raises:
        OSError: a file is not there.
        ValueError: a checkpoint, a text or a token does not fit.
    """
    found: Tables = {name: [] for name in tables.NAMES}
    for name, path in zip(names, args.checkpoints):
        for table, rows in measure(name, path, args).items():
            found[table] += [{"model": name, **row} for row in rows]
    found["correlations"] = tables.correlations(found["models"])
    plots = [plot for plot in figures.PLOTS if found.get(plot.__name__, found["layers"])]
    return page(args, found), found, plots


def measure(name: str, path: str, args: argparse.Namespace) -> Tables:
    """The tables of one checkpoint.

    Raises:
        OSError: a file is not there.
        ValueError: it is not a classifier of this project, or a text or token does not fit.
    """
    model, task = load_classifier(path, args.data)
    if not isinstance(model, SequenceClassifier):
        raise ValueError(f"{path}: {type(model).__name__} is not a classifier of this project")
    use_cuda = torch.cuda.is_available() and not args.cpu
    device = "cuda" if use_cuda else "cpu"
    model = model.to(device).eval()
    task.load_dataset(args.split)
    drawn = texts.draw_texts(task, args.split, args.texts)
    typed = texts.encode_text(task, args.text) if args.text else torch.tensor([])
    longest = max(map(len, [typed, *drawn.values()]))
    if longest > model.max_positions():
        raise ValueError(
            f"{path}: a text has {longest} tokens, more than {model.max_positions()}, the "
            "--max-positions of the training"
        )
    found = tables.measure(model, {n: tokens.to(device) for n, tokens in drawn.items()}, name)
    if args.text:
        symbols = [task.source_dictionary[token] for token in typed]
        chosen = texts.positions(symbols, args.tokens)
        found |= tables.follow(model, typed.to(device), symbols, chosen)
    (summary,) = found["models"]
    summary |= {"accuracy": None, "texts": len(drawn), "checkpoint": path}
    if len(args.checkpoints) >= tables.ENOUGH:
        _, targets, probs = probabilities(task, [model], args.split, BATCH_SIZE)
        if targets is not None:
            summary["accuracy"] = (probs.argmax(1) == targets).double().mean().item()
    return found


def page(args: argparse.Namespace, found: Tables) -> str:
    """The page in Markdown, without the figures."""
    parts = [
        "# Hidden states of classifiers\n",
        f"Texts of `{args.split}` of `{args.data}`; equations and theorem are those of Sengupta et "
        "al. (2023). Activation and entropy are means over the layers; "
        "`largest` is the largest activation factor after the last layer, and `bound` what Theorem "
        "2 allows, (1 + 3/L)^(2L); `deviation` is that of the entropy over the texts. Each table "
        "is in a CSV file.\n",
        markdown(found["models"]),
        *(f"- {note}\n" for note in notes(found)),
    ]
    for name in ("activation", "entropy"):
        rows = [row for row in found["layers"] if row["measure"] == name]
        by_layer = [
            {"model": model, **{str(row["layer"]): row["mean"] for row in own}}
            for model, own in grouped(rows)
        ]
        parts += [f"Mean {name} by layer:\n", markdown(by_layer)]
    if found["correlations"]:
        parts += ["Correlations over the models:\n", markdown(found["correlations"])]
    if args.text:
        parts.append(f"The text: {args.text}\n")
    return "\n".join(parts)


def notes(found: Tables) -> Iterator[str]:
    """A sentence for each kind of value that the means of a model leave out."""
    layers = dict(grouped(found["layers"], "measure"))
    for what, rows in (
        (
            "pairs of tokens with equal embeddings",
            [r for r in layers["activation"] if r["layer"] == 1],
        ),
        ("infinite or undefined entropies of tokens", layers["entropy"]),
        ("infinite or undefined entropies of heads or experts", found["parts"]),
    ):
        for model, own in grouped(rows):
            if count := sum(row["left_out"] for row in own):
                yield f"The means of {model} leave out {count:,} {what}."
