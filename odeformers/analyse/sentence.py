"""Heat maps of the attention over one sentence: which tokens each token attends to."""

import argparse
from collections.abc import Callable

import torch

from fairseq_odeformers.checkpoints import Checkpoint
from fairseq_odeformers.errors import InputError
from fairseq_odeformers.inference.hub import load_classifier, load_translator
from odeformers.plots import group_by

from .heat_maps import CAPTIONS, draw
from .maps import attention_maps, check_maps
from .result import Row, Tables, file_name

BEAM = 5  # beam size of the translation
MAX_TOKENS = 80  # maximum number of tokens in a legible picture


def analyse(path: str, args: argparse.Namespace) -> Tables:
    """Compute the tables of a checkpoint's maps for ``--text``, and of its translation."""
    model, net_input, tokens, translation = encode(path, args)
    check_maps(path, model)
    if max(len(names) for pair in tokens.values() for names in pair) > MAX_TOKENS:
        raise InputError(f"--text: more than {MAX_TOKENS} tokens cannot be drawn; shorten it")
    tables: Tables = {"sentence": measure(model, net_input, tokens, args.head)}
    if translation is not None:
        tables["translation"] = [{"translation": translation}]
    return tables


def page(tables: Tables, args: argparse.Namespace) -> tuple[str, list[Callable]]:
    """Return the page in Markdown, with the translation by each model, and the figures."""
    what = f"head {args.head}" if args.head else "the mean over the heads"
    parts = [f"# Attention over a sentence: {what}\n", f"Source: {args.text}\n"]
    for row in tables["translation"]:
        parts.append(f"Translation by {row['model']}: {row['translation']}\n")
    kinds = {row["kind"] for row in tables["sentence"]}
    models = [model for model, _ in group_by(tables["sentence"])]
    plots = [picture(kind, model, models) for kind in CAPTIONS if kind in kinds for model in models]
    return "\n".join(parts), plots


def picture(kind: str, model: str, models: list[str]) -> Callable:
    """Make a function that draws maps of one kind of one model; its docstring is the caption."""

    def plot(tables: Tables):
        return draw(tables["sentence"], kind, model)

    plot.__name__ = kind if len(models) == 1 else f"{kind}-{file_name(model)}"
    plot.__doc__ = f"{model}. {CAPTIONS[kind]}"
    return plot


def encode(path: str, args: argparse.Namespace):
    """Load a model, and return it, its ``net_input``, the tokens of its maps, and its translation.

    For each kind, there are tokens of queries and tokens of keys. A decoder reads the model's own
    translation, after ``</s>``, so a query is named after the next token, which it predicts. The
    translation of a classifier is None.
    """
    checkpoint = Checkpoint.read(path)
    if checkpoint.num_classes is not None:
        if args.tokenized:
            raise InputError(
                f"--tokenized: {path} is a classifier and tokenises --text as "
                "odeformers predict does; leave it out"
            )
        classifier = load_classifier(checkpoint, args.data).to(args.device)
        net_input = classifier.collate([classifier.encode(args.text)])
        source = [classifier.task.source_dictionary[n] for n in net_input["src_tokens"][0]]
        return classifier.models[0], net_input, {"encoder": (source, source)}, None
    translator = load_translator(checkpoint, args.data, args.tokenized).to(args.device)
    ids = translator.encode(args.text)
    hypotheses = translator.generate([ids], beam=BEAM, max_len_a=0, max_len_b=MAX_TOKENS - 1)
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
    return translator.models[0], net_input, kinds, translator.decode(translation)


def measure(model, net_input: dict, tokens: dict, head: int | None) -> list[Row]:
    """Return a row for the weight of each key for each query of one sentence, at each depth.

    Args:
        tokens: the tokens of the queries and of the keys, by kind.
        head: number of a head, from 1; None for the mean over the heads.
    """
    rows = []
    for kind, maps in attention_maps(model, net_input).items():
        weights = maps.weights[:, 0]  # L, H, T, S
        if head is not None and head > weights.size(1):
            raise InputError(
                f"--head {head}: choose a head of the model, from 1 to {weights.size(1)}"
            )
        chosen = weights.mean(1) if head is None else weights[:, head - 1]
        queries, keys = tokens[kind]
        for (block, depth), of_map in zip(maps.places, chosen.tolist()):
            place = {"kind": kind, "block": block, "depth": depth, "head": head or "mean"}
            for (i, query), of_query in zip(enumerate(queries), of_map):
                for (j, key), weight in zip(enumerate(keys), of_query):
                    names = {"query": i, "query_token": query, "key": j, "key_token": key}
                    rows.append({**place, **names, "weight": weight})
    return rows
