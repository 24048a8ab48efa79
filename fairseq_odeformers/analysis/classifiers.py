"""Activation factors, entropies and weights of trained classifiers."""

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from torch import Tensor
from tqdm import tqdm

from fairseq_odeformers.data.raw_text import add_special_tokens
from fairseq_odeformers.files import naming
from fairseq_odeformers.inference.hub import Classifier, load_classifier
from fairseq_odeformers.inference.predict import probabilities
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.models.transject.models import TransJect
from fairseq_odeformers.plots import grouped

from . import figures, measures
from .result import Result, Row, Tables, markdown
from .states import residual_weights, text_states

BATCH_SIZE = 32  # texts whose classes are predicted together
SEED = 1  # of the texts that are drawn


# The measures of a text: the function, the states that it takes, and of each dimension of its
# values but the last, which is summarised, the name and the number of the first index.
MEASURES = {
    "activation": (measures.activation_factors, "layers", {"layer": 1}),
    "dot_products": (measures.dot_product_factors, "layers", {"layer": 1}),
    "entropy": (measures.differential_entropy, "layers", {"layer": 0}),
    "parts": (measures.differential_entropy, "parts", {"layer": 1, "part": 1}),
}

# Pairs of columns that are correlated over models, if there are enough models.
PAIRS = (("activation", "accuracy"), ("entropy", "accuracy"), ("activation", "entropy"))
ENOUGH = 3
ENOUGH_FOR_P = 5


def analyse(args: argparse.Namespace, names: list[str]) -> Result:
    """Measure the checkpoints of a command line.

    Raises:
        OSError: a file is not there.
        ValueError: a checkpoint, a text or a token does not fit.
    """
    found: Tables = defaultdict(list)
    for name, path in zip(names, args.checkpoints):
        for table, rows in analyse_checkpoint(name, path, args).items():
            found[table] += [{"model": name, **row} for row in rows]
    found["correlations"] = correlations(found["models"])
    plots = [plot for plot, table in figures.PLOTS.items() if found[table]]
    return Result(page(args, found), found, plots)


def analyse_checkpoint(name: str, path: str, args: argparse.Namespace) -> Tables:
    """The tables of one checkpoint.

    Raises:
        OSError: a file is not there.
        ValueError: it is not a classifier of this project, or a text or token does not fit.
    """
    classifier = load_classifier(path, args.data).to(args.device)
    (model,), task = classifier.models, classifier.task
    if not isinstance(model, SequenceClassifier):
        raise ValueError(f"{path}: {type(model).__name__} is not a classifier of this project")
    with naming(args.data, f"has no whole {args.split}"):
        task.load_dataset(args.split)
        texts = draw_texts(task, args.split, args.texts)
    typed = encode_text(classifier, args.text) if args.text else []
    longest = max(map(len, [typed, *texts.values()]))
    if longest > model.max_positions():
        raise ValueError(
            f"{path}: a text has {longest} tokens, more than {model.max_positions()}, the "
            "--max-positions of the training"
        )
    progress = tqdm(texts.items(), name, unit=" texts", mininterval=1, disable=None)
    found = measure(model, ((number, tokens.to(args.device)) for number, tokens in progress))
    if args.text:
        found |= follow(model, typed.to(args.device), task.source_dictionary, args.tokens)
    (summary,) = found["models"]
    summary |= {"accuracy": None, "texts": len(texts), "checkpoint": path}
    if len(args.checkpoints) >= ENOUGH:
        _, targets, probs = probabilities(task, [model], args.split, BATCH_SIZE)
        if targets is not None:
            summary["accuracy"] = (probs.argmax(1) == targets).double().mean().item()
    return found


def draw_texts(task, split: str, number: int) -> dict[int, Tensor]:
    """At most *number* texts of a loaded split, drawn at random, the same at every call.

    Of pairs of texts that are encoded separately, it is the first. Texts of one token, which have
    no pair of tokens, are not drawn.

    Returns:
        Their tokens (T), by the numbers of the texts from 0.
    """
    dataset = task.dataset(split)
    texts = {}
    for index in np.random.RandomState(SEED).permutation(len(dataset)).tolist():
        if len(texts) == number:
            break
        tokens = dataset.collater([dataset[index]])["net_input"]["src_tokens"][0]
        tokens = tokens[tokens != task.source_dictionary.pad()]
        if len(tokens) > 1:
            texts[index] = tokens
    if not texts:
        raise ValueError(f"{split} of {task.cfg.data} has no text of two or more tokens")
    return dict(sorted(texts.items()))


def encode_text(classifier: Classifier, text: str) -> Tensor:
    """The tokens (T) of a text that is typed, which begins and ends as the texts of the data set.

    Raises:
        ValueError: the dictionary has none of its symbols.
    """
    symbols = classifier.symbols(text)
    if {*symbols} <= {classifier.task.source_dictionary.unk()}:
        raise ValueError(f"--text {text}: the dictionary of the data has none of its symbols")
    return add_special_tokens(classifier.task, symbols, classifier.appends_eos)


def measure(model, texts: Iterable[tuple[int, Tensor]]) -> Tables:
    """Measure the states that a model computes from some texts.

    Args:
        texts: number and tokens (T) of each.

    Returns:
        - ``models``, one row: the means over the layers after X^(0) of the activation factor and
          the entropy; ``largest``, the largest factor after the last layer; and, of TransJect, its
          bound.
        - ``layers``: activation factor and entropy of each layer.
        - ``dot_products``: the factor of each layer by dot products.
        - ``parts``: entropy of each attention head or expert of each layer.
        - ``expert_weights`` of each layer and text.
        - ``residual_weights`` of each layer.

        The columns of statistics are those of :func:`measures.over_texts`.
    """
    summaries, weights = defaultdict(list), []
    for number, tokens in texts:
        states = text_states(model, tokens)
        for name, (function, which, _) in MEASURES.items():
            if (values := getattr(states, which)) is not None:
                summaries[name].append(measures.summarize(function(values)))
        if states.expert_weights is not None:
            weights += [
                {"text": number, "layer": layer, "expert": expert, "weight": weight}
                for layer, row in enumerate(states.expert_weights.tolist(), start=1)
                for expert, weight in enumerate(row, start=1)
            ]
    found = {name: measures.over_texts(of, **MEASURES[name][-1]) for name, of in summaries.items()}
    factors, entropies, parts = found["activation"], found["entropy"], found.get("parts", [])
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
            {"measure": name, **row} for name in ("activation", "entropy") for row in found[name]
        ],
        "dot_products": found["dot_products"],
        "parts": parts,
        "expert_weights": weights,
        "residual_weights": [
            {"layer": layer, "weight": weight}
            for layer, weight in enumerate(residual_weights(model), start=1)
        ],
    }


def mean_of(rows: Sequence[Row], column: str = "mean") -> float:
    return float(np.mean([row[column] for row in rows]))


def follow(model, tokens: Tensor, dictionary, chosen: Sequence[str]) -> Tables:
    """Follow the tokens of one text through the layers.

    Args:
        tokens: the text (T).
        chosen: the symbols whose distances are measured, where they first are.

    Returns:
        ``distances`` of each pair of chosen tokens, and ``isomap`` of all tokens, by layer.

    Raises:
        ValueError: a symbol is not in the text, or there are fewer than two.
    """
    names, chosen = [dictionary[token] for token in tokens], list(dict.fromkeys(chosen))
    for token in chosen:
        if token not in names:
            raise ValueError(f"--tokens {token}: the tokens of --text are {' '.join(names)}")
    if len(chosen) < 2:
        raise ValueError(f"--tokens {' '.join(chosen)}: give at least two, for their distances")
    states = text_states(model, tokens).layers
    pairs = list(combinations(map(names.index, chosen), 2))
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

    A column that is constant has no correlation. Fewer than five models have no p-value, which
    would make much of what three points show.
    """
    rows = []
    for x, y in PAIRS if len(models) >= ENOUGH else ():
        xs, ys = ([row[name] for row in models] for name in (x, y))
        if any(value is None or math.isnan(value) for value in xs + ys):
            continue
        for method in ("pearson", "spearman"):
            statistic, p_value = measures.correlation(xs, ys, method)
            if math.isnan(statistic):
                continue
            p_value = p_value if len(models) >= ENOUGH_FOR_P else None
            row = {"x": x, "y": y, "method": method, "correlation": statistic, "p_value": p_value}
            rows.append(row)
    return rows


def page(args: argparse.Namespace, found: Tables) -> str:
    """The page in Markdown, without the figures."""
    parts = [
        "# Hidden states of classifiers\n",
        f"Texts of `{args.split}` of `{args.data}`; equations and theorem are those of Sengupta et "
        "al. (2023). Activation and entropy are means over the layers; "
        "`largest` is the largest activation factor after the last layer, and `bound` what Theorem "
        "2 allows, (1 + 3/L)^(2L); `deviation` is that of the entropy over the texts. Factors of "
        "pairs with equal embeddings, and entropies that are not finite, are left out; the column "
        "`left_out` counts them. Each table is in a CSV file.\n",
        markdown(found["models"]),
    ]
    for name, rows in grouped(found["layers"], "measure"):
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
