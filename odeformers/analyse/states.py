"""Measure activation factors, entropies and weights of classifiers from their hidden states."""

import argparse
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations
from typing import cast

import numpy as np
from scipy import stats
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from fairseq_odeformers.errors import InputError, did_you_mean
from fairseq_odeformers.inference.classifier import Classifier
from fairseq_odeformers.inference.hub import load_classifier
from fairseq_odeformers.inference.texts import TooLong
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.registry import Kind, kinds_of
from fairseq_odeformers.text.raw_text import tokenize
from odeformers.plots import group_by
from odeformers.predict import naming_split, probabilities

from . import figures, measures
from .result import Row, Tables, markdown
from .text_states import residual_weights, text_states

BATCH_SIZE = 32  # number of texts that are classified at a time
SEED = 1  # seed of the draw of texts

# Pairs of columns whose correlation over models is computed, if there are enough models.
PAIRS = (("activation", "accuracy"), ("entropy", "accuracy"), ("activation", "entropy"))
MIN_MODELS = 3


def analyse(path: str, args: argparse.Namespace) -> Tables:
    """Compute the tables of one checkpoint."""
    classifier = load_classifier(path, args.data).to(args.device)
    task, model = classifier.task, cast(SequenceClassifier, classifier.models[0])
    if [*kinds_of(type(model))] != [Kind.CLASSIFICATION]:
        raise InputError(
            f"{path}: {type(model).__name__} is not a classifier of this project; pass a "
            "checkpoint of one (odeformers list classifier prints all)"
        )
    with naming_split(task, args.split):
        task.load_dataset(args.split)
        texts = draw_texts(task, args.split, args.texts)
    if (longest := max(map(len, texts.values()))) > model.max_positions():
        raise InputError(
            f"{path}: a text has {longest} tokens, more than {model.max_positions()}, the "
            "--max-positions of the training run; choose a different --split"
        )
    typed = encode(classifier, path, args.text) if args.text else None
    progress = tqdm(texts.items(), path, unit=" texts", mininterval=1, disable=None)
    tables = measure(model, ((number, tokens.to(args.device)) for number, tokens in progress))
    if typed is not None:
        tables |= follow(model, typed.to(args.device), task.source_dictionary, args.tokens)
    (summary,) = tables["models"]
    summary |= {"accuracy": None, "texts": len(texts)}
    summary |= {"architecture": type(model).__name__, "checkpoint": path}
    if len(args.checkpoints) >= MIN_MODELS:
        _, targets, probs = probabilities(task, [model], args.split, BATCH_SIZE)
        if targets is not None:
            summary["accuracy"] = (probs.argmax(1) == targets).double().mean().item()
    return tables


def encode(classifier: Classifier, path: str, text: str) -> Tensor:
    """Encode the text of the command line as tokens (T); a model of pairs gets it twice."""
    dictionary = classifier.task.source_dictionary
    if {*map(dictionary.index, tokenize(classifier.task, text)[0])} <= {dictionary.unk()}:
        raise InputError(
            f"--text {text}: the dictionary of the data contains none of its symbols; pass a text "
            "with words of the data"
        )
    try:
        tokens, *_ = classifier.encode([text] * getattr(classifier.task, "towers", 1))
    except TooLong as error:
        raise InputError(
            f"{path}: --text is longer than its --max-positions; shorten it"
        ) from error
    return tokens


def draw_texts(task, split: str, number: int) -> dict[int, Tensor]:
    """Draw up to *number* texts of a loaded split at random, the same in every call.

    For pairs of texts that are encoded separately, the first text is drawn. Texts of one token,
    which have no pair of tokens, are not drawn. The result maps numbers of texts to tokens (T).
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
        raise InputError(
            f"{split} of {task.cfg.data} has no text of two or more tokens; choose a different "
            "--split"
        )
    return dict(sorted(texts.items()))


def measure(model, texts: Iterable[tuple[int, Tensor]]) -> Tables:
    """Measure the states that a model computes from some texts.

    Args:
        texts: number and tokens (T) of each text.

    Returns:
        - ``models``, one row: the means over the layers after X^(0) of the activation factor and
          the entropy; ``largest``, the largest factor after the last layer; and, for TransJect, its
          bound (Theorem 2).
        - ``layers``: activation factor and entropy of each layer.
        - ``dot_products``: the factor of each layer with dot products.
        - ``parts``: entropy of each attention head or expert of each layer.
        - ``expert_weights`` of each layer and text.
        - ``residual_weights`` of each layer, by name.

        The columns of statistics come from :func:`measures.over_texts`.
    """
    summaries, weights = defaultdict(list), []
    for number, tokens in texts:
        layers, parts, expert_weights = text_states(model, tokens)
        measured = {
            "activation": measures.activation_factors(layers),
            "dot_products": measures.dot_product_factors(layers),
            "entropy": measures.differential_entropy(layers),
        }
        if parts is not None:
            measured["parts"] = measures.differential_entropy(parts)
        for name, values in measured.items():
            summaries[name].append(measures.summarize(values))
        if expert_weights is not None:
            weights += [
                {"text": number, "layer": layer, "expert": expert, "weight": weight}
                for layer, row in enumerate(expert_weights.tolist(), start=1)
                for expert, weight in enumerate(row, start=1)
            ]
    factors = measures.over_texts(summaries["activation"], layer=1)
    entropies = measures.over_texts(summaries["entropy"], layer=0)
    parts = measures.over_texts(summaries["parts"], layer=1, part=1) if parts is not None else []
    depth = len(factors)
    bound = getattr(model, "activation_bound", None)
    summary = {
        "layers": depth,
        "activation": mean_of(factors),
        "largest": factors[-1]["largest"],
        "bound": bound(depth) if bound else None,
        "entropy": mean_of(entropies[1:]),
        "deviation": mean_of(entropies[1:], "deviation"),
        "parts": ("experts" if weights else "heads") if parts else None,
        "part_entropy": mean_of(parts) if parts else None,
    }
    return {
        "models": [summary],
        "layers": [
            *({"measure": "activation", **row} for row in factors),
            *({"measure": "entropy", **row} for row in entropies),
        ],
        "dot_products": measures.over_texts(summaries["dot_products"], layer=1),
        "parts": parts,
        "expert_weights": weights,
        "residual_weights": [
            {"layer": layer, "name": name, "weight": weight}
            for layer, weights in enumerate(residual_weights(model), start=1)
            for name, weight in weights.items()
        ],
    }


def mean_of(rows: Sequence[Row], column: str = "mean") -> float:
    return float(np.mean([row[column] for row in rows]))


def follow(model, tokens: Tensor, dictionary, chosen: Sequence[str]) -> Tables:
    """Follow the tokens (T) of one text through the layers.

    The tables are ``distances`` of each pair of *chosen* symbols at their first occurrences;
    ``part_distances``, their distances in each attention head or expert; and ``isomap`` of all
    tokens, by layer.
    """
    names, chosen = [dictionary[token] for token in tokens], list(dict.fromkeys(chosen))
    for token in chosen:
        if token not in names:
            remedy = did_you_mean(token, names, f"the tokens of --text are {' '.join(names)}")
            raise InputError(f"--tokens {token}: {remedy}")
    if len(chosen) < 2:
        raise InputError(
            f"--tokens {' '.join(chosen)}: name at least two to measure their distance"
        )
    states, parts, _ = text_states(model, tokens)
    places = {token: names.index(token) for token in chosen}
    return {
        "distances": [
            {"layer": layer, **row}
            for layer, of_layer in enumerate(states)
            for row in distances(of_layer, places)
        ],
        "part_distances": [
            {"layer": layer, "part": part, **row}
            for layer, of_layer in enumerate(() if parts is None else parts, start=1)
            for part, of_part in enumerate(of_layer, start=1)
            for row in distances(of_part, places)
        ],
        "isomap": [
            {"layer": layer, "position": position, "token": names[position], "x": x, "y": y}
            for layer, points in enumerate(measures.isomap(states).tolist())
            for position, (x, y) in enumerate(points)
        ],
    }


def distances(states: Tensor, places: Mapping[str, int]) -> list[Row]:
    """Return the distances of each pair of symbols at their *places* in the states (T, C)."""
    rows = []
    for (first, i), (second, j) in combinations(places.items(), 2):
        euclidean = (states[i] - states[j]).norm().item()
        cosine = 1 - F.cosine_similarity(states[i], states[j], dim=0).item()
        rows.append({"tokens": f"{first} - {second}", "euclidean": euclidean, "cosine": cosine})
    return rows


def correlations(models: Sequence[Row]) -> list[Row]:
    """Compute rank correlations (Spearman) over three or more rows of ``models``.

    Unknown and constant columns are left out. Even rank correlations become large if a group of
    models differs from the others. There are no p-values, since models of one architecture are not
    independent.
    """
    rows = []
    for x, y in PAIRS if len(models) >= MIN_MODELS else ():
        values = np.array([[row[x], row[y]] for row in models], float).T
        if np.isfinite(values).all() and (np.ptp(values, 1) > 0).all():
            rows.append({"x": x, "y": y, "spearman": float(stats.spearmanr(*values).statistic)})
    return rows


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """Add the table of correlations, and return the page in Markdown and the figures."""
    tables["correlations"] = correlations(tables["models"])
    parts = [
        "# Hidden states of classifiers\n",
        f"Texts of `{args.split}` of `{args.data}`; equations and theorem are in Sengupta et "
        "al. (2023). `texts` is the number of texts in the random sample (`--texts`); `accuracy` "
        "is the accuracy on the entire split. Activation and entropy are means over the layers; "
        "`largest` is the largest activation factor after the last layer, `bound` is its upper "
        "bound by Theorem 2, (1 + 3/L)^(2L), and `deviation` is the standard deviation of the "
        "entropy over the texts. Factors of pairs with equal embeddings, and entropies that are "
        "not finite, are left out; the column `left_out` counts them. Each table is in a CSV "
        "file.\n",
        markdown(tables["models"]),
    ]
    for name, rows in group_by(tables["layers"], "measure"):
        by_layer = [
            {"model": model, **{str(row["layer"]): row["mean"] for row in of_model}}
            for model, of_model in group_by(rows)
        ]
        parts += [f"Mean {name} by layer:\n", markdown(by_layer)]
    if tables["correlations"]:
        over = figures.count_architectures(tables["models"])
        parts += [f"Rank correlations over {over}:\n", markdown(tables["correlations"])]
    if args.text:
        parts.append(f"The text: {args.text}\n")
    return "\n".join(parts), [plot for plot, table in figures.PLOTS.items() if tables[table]]
