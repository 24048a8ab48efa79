"""Measures activation factors, entropies and weights of trained classifiers, side by side."""

from __future__ import annotations

import argparse
import logging
import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from torch import Tensor

import fairseq_odeformers  # noqa: F401
from fairseq_odeformers.files import replacing_folder
from fairseq_odeformers.inference.loading import import_plugins, load_classifier
from fairseq_odeformers.inference.predict import probabilities
from fairseq_odeformers.models.common.sequence_classifier import SequenceClassifier
from fairseq_odeformers.options import add_user_dir, positive_int

from .report import CONTENTS, PAGE, write
from .tables import ENOUGH, TABLES, Tables, correlations, follow, measure
from .texts import draw_texts, encode_text, positions

logger = logging.getLogger(__name__)

BATCH_SIZE = 32  # of the texts whose classes are predicted


def main(arguments=None) -> None:
    """The command line; an error ends the program with a message of one line."""
    if arguments and arguments[0] == "attention":
        from . import attention

        attention.main(arguments[1:])
        return
    args = parse_args(arguments)
    # To standard error; importing fairseq has set the level to that of debugging.
    logging.basicConfig(format="%(levelname)s | %(message)s", level=logging.WARNING, force=True)
    analyse(args)


def parse_args(arguments=None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="odeformers analyse", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "checkpoints",
        metavar="CHECKPOINT",
        nargs="+",
        help="of any classifier of this project; called as its folder",
    )
    parser.add_argument("--data", required=True, help="data set, as given to fairseq-train")
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="where to put the result"
    )
    parser.add_argument("--split", default="test", help="(default: %(default)s)")
    parser.add_argument(
        "--texts",
        metavar="N",
        type=positive_int,
        default=100,
        help="number of texts, drawn at random, the same each time (default: %(default)s)",
    )
    parser.add_argument(
        "--text", help="a text whose tokens are followed through the layers; needs --tokens"
    )
    parser.add_argument(
        "--tokens",
        nargs="+",
        metavar="TOKEN",
        help="tokens of --text whose distances are measured",
    )
    parser.add_argument("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir(parser)
    args = parser.parse_args(arguments)
    if bool(args.text) != bool(args.tokens):
        parser.error("--text and --tokens: give both or none")
    return args


def analyse(args: argparse.Namespace) -> None:
    """What the command line does."""
    if args.out.exists() and not (args.out / CONTENTS).exists():
        raise ValueError(f"{args.out} is in the way; move it, or choose another --out")
    import_plugins(args.user_dir)
    names = model_names(args.checkpoints)
    loaded = [load(path, args) for path in args.checkpoints]
    device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
    tables: Tables = {name: [] for name in TABLES}
    remarks = defaultdict(list)
    for name, path, (model, task, texts, typed) in zip(names, args.checkpoints, loaded):
        model.to(device).eval()
        found = measure(model, {n: tokens.to(device) for n, tokens in texts.items()}, name)
        if typed:
            tokens, *rest = typed
            found |= follow(model, tokens.to(device), *rest)
        (summary,) = found["models"]
        summary["accuracy"] = accuracy(model, task, args) if len(loaded) >= ENOUGH else None
        summary["checkpoint"] = path
        for remark in missing(found):
            remarks[remark].append(name)
        for table, rows in found.items():
            tables[table] += [{"model": name, **row} for row in rows]
    tables["correlations"] = correlations(tables["models"])
    notes = [f"{remark}: {', '.join(of)}." for remark, of in remarks.items()]
    if not tables["correlations"]:
        notes.append(f"No correlations: they need {ENOUGH} checkpoints, and labelled data.")
    if not args.text:
        notes.append("No distances and no Isomap: they need --text and --tokens.")
    for note in notes:
        logger.warning(note)
    header = {name: getattr(args, name) for name in ("data", "split", "text", "tokens")}
    with replacing_folder(args.out) as folder:
        write(folder, {**header, "texts": list(loaded[0].texts)}, notes, tables)
    print(f"wrote {args.out / PAGE}")


class Loaded(NamedTuple):
    """A classifier, its task, texts by number, and the arguments of ``follow`` after the model."""

    model: SequenceClassifier
    task: SentencePredictionTask
    texts: dict[int, Tensor]
    typed: tuple[Tensor, list[str], list[int]] | None


def load(path: str, args: argparse.Namespace) -> Loaded:
    """A classifier and what it is to be run on; a ValueError says what does not fit."""
    model, task = load_classifier(path, args.data)
    if not isinstance(model, SequenceClassifier):
        raise ValueError(f"{path}: {type(model).__name__} is not a classifier of this project")
    task.load_dataset(args.split)
    texts = draw_texts(task, args.split, args.texts)
    typed = None
    if args.text:
        tokens = encode_text(task, args.text)
        names = [task.source_dictionary[token] for token in tokens]
        typed = tokens, names, positions(names, args.tokens)
    longest = max(map(len, [*texts.values(), *(typed or ())[:1]]))
    if longest > model.max_positions():
        raise ValueError(
            f"{path}: a text has {longest} tokens, more than {model.max_positions()}, the "
            "--max-positions of the training"
        )
    return Loaded(model, task, texts, typed)


def model_names(paths: list[str], separator: str = "/") -> list[str]:
    """What tells checkpoints apart: their folders, or their files if these have several names.

    Args:
        separator: between a folder and what is in it.

    Raises:
        ValueError: two have one name, as one that is given twice.
    """
    found = [Path(path.removesuffix(".pt")).absolute() for path in paths]
    if len({path.name for path in found}) == 1:
        found = [path.parent for path in found]
    shared = os.path.commonpath([path.parent for path in found])
    names = [path.relative_to(shared).as_posix().replace("/", separator) for path in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two checkpoints would be called {name}; rename one, or give it once")
    return names


def accuracy(model, task, args: argparse.Namespace) -> float | None:
    """On all of the split; None if it has no labels."""
    _, targets, probs = probabilities(task, [model], args.split, BATCH_SIZE)
    return None if targets is None else (probs.argmax(1) == targets).double().mean().item()


def missing(tables: Tables) -> Iterator[str]:
    """What a model has not, and what its means leave out."""
    (summary,) = tables["models"]
    if summary["parts"] is None:
        yield "No attention heads and no experts"
    if not tables["expert_weights"]:
        yield "No experts"
    if not tables["residual_weights"]:
        yield "No residual weights"
    factors, entropies = tables["layers"][:1], tables["layers"][summary["layers"] :]
    for what, rows in (
        ("pairs of tokens with equal embeddings", factors),
        ("infinite or undefined entropies of tokens", entropies),
        ("infinite or undefined entropies of heads or experts", tables["parts"]),
    ):
        if count := sum(row["left_out"] for row in rows):
            yield f"The means leave out {count:,} {what}"
