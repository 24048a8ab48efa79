"""Results: what the runs of a comparison have left so far, read from their folders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset

from fairseq_odeformers.files import read_lines

from .commands import log_stats
from .outcomes import Classes, Perplexity, Translations
from .plan import Plan, load_plan
from .recipe import CLASSIFICATION, TRANSLATION, Recipe
from .runs import AVERAGED, BEST, LOG, SCORE

Outcome = Translations | Classes | Perplexity


@dataclass
class Training:
    """What a log says of a training; of epochs that an interrupted one has repeated, the last.

    Attributes:
        parameters: of the model.
        updates, losses, metrics: of each validation; the metric chooses the best checkpoint.
        seconds: of training before each validation; validating and saving do not count.
        train_losses: of the epochs that end at these updates.
        tokens: a second, the median over the log's lines.
    """

    parameters: int = 0
    updates: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    metrics: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    train_losses: list[float] = field(default_factory=list)
    tokens: float = 0.0


def read_training(log: Path, metric: str = "loss") -> Training:
    """A training by its log, which may still grow, or not be there yet."""
    parameters, valid, ends, speeds = 0, {}, {}, []
    for line in read_lines(log) if log.exists() else ():
        if match := re.search(r"num\. shared model params: ([\d,]+)", line):
            parameters = int(match[1].replace(",", ""))
        if stats := log_stats(line, "valid"):
            valid[int(stats["valid_num_updates"])] = stats
        if stats := log_stats(line, "train"):
            ends[int(stats["train_num_updates"])] = stats
        if (stats := log_stats(line, "train_inner")) and "wps" in stats:
            speeds.append(float(stats["wps"]))
    tokens = float(np.median(speeds)) if speeds else 0.0
    if not ends:
        return Training(parameters, tokens=tokens)
    updates, epochs = sorted(valid), sorted(ends)

    def of_valid(name: str) -> list[float]:
        return [float(valid[update][name]) for update in updates if name in valid[update]]

    def of_train(name: str) -> list[float]:
        return [float(ends[end][name]) for end in epochs]

    seconds = np.interp(updates, [0, *epochs], [0, *np.cumsum(of_train("train_train_wall"))])
    train_losses = np.interp(updates, epochs, of_train("train_loss")).tolist()
    losses, metrics = of_valid("valid_loss"), of_valid(f"valid_{metric}")
    return Training(parameters, updates, losses, metrics, seconds.tolist(), train_losses, tokens)


@dataclass
class Result:
    """What a run has left.

    Attributes:
        training: None before the first validation.
        outcomes: by checkpoint and split, as far as they are there.
        scores: what the recipe's own command has printed, by the same.
    """

    seed: int
    training: Training | None
    outcomes: dict[tuple[str, str], Outcome]
    scores: dict[tuple[str, str], list[str]]


def read_results(out: Path) -> tuple[Plan, dict[str, list[Result]]]:
    """The plan of a comparison, and the results of each architecture, the seeds in their order.

    The seeds are all that have a folder, those of earlier commands too.

    Raises:
        ValueError: the folder is not of a comparison, or a file in it is damaged.
    """
    plan = load_plan(out)
    recipe = plan.recipe
    metric = recipe.train.get("best-checkpoint-metric", "loss")
    texts = {split: texts_of(recipe, split) for split in recipe.test_sets()}

    def read(folder: Path, seed: int) -> Result:
        training = read_training(folder / LOG, metric)
        result = Result(seed, training if training.losses else None, {}, {})
        for split in texts:
            for checkpoint in (BEST, AVERAGED):
                stem, key = f"{checkpoint}.{split}", (checkpoint, split)
                path = folder / f"{stem}.{'tsv' if recipe.kind == CLASSIFICATION else 'out'}"
                if path.exists():
                    result.outcomes[key] = read_outcome(recipe, path, texts[split])
                if (path := folder / f"{stem}.{SCORE}").exists():
                    result.scores[key] = list(read_lines(path))
        return result

    found: dict[str, list[Result]] = {}
    for entry in plan.entries:
        suffixes = (path.name[len(entry.name) + 5 :] for path in out.glob(f"{entry.name}-seed*"))
        seeds = sorted(int(suffix) for suffix in suffixes if suffix.isdigit())
        found[entry.name] = [read(out / f"{entry.name}-seed{seed}", seed) for seed in seeds]
    return plan, found


def read_outcome(recipe: Recipe, path: Path, texts: Sequence[str] | None) -> Outcome:
    if recipe.kind == TRANSLATION:
        return Translations(path, recipe.train["target-lang"], texts)
    return Classes(path, texts) if recipe.kind == CLASSIFICATION else Perplexity(path)


def texts_of(recipe: Recipe, split: str) -> list[str] | None:
    """The references of a test set before they were tokenised, or the texts that have labels.

    None if the preparation has not left them.
    """
    data = Path(recipe.data)
    if recipe.kind == TRANSLATION:
        path = data.parent / "plain" / f"{split}.{recipe.train['target-lang']}"
        return list(read_lines(path)) if path.is_file() else None
    if recipe.kind == CLASSIFICATION and (data / "input0" / f"{split}.idx").is_file():
        dictionary = Dictionary.load(str(data / "input0" / "dict.txt"))
        dataset = MMapIndexedDataset(str(data / "input0" / split))
        # Word pieces that continue a word begin with ##.
        return [dictionary.string(tokens).replace(" ##", "") for tokens in dataset]
    return None
