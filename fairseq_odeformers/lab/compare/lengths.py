"""Lengths: examples that are too long for a model or a batch, found before the first training.

fairseq leaves examples that are too long out of a training and of ``fairseq-eval-lm``, and ends a
validation or ``fairseq-generate`` at the first one.
"""

from collections.abc import Sequence

import numpy as np
from fairseq import tasks, utils
from fairseq.data import FairseqDataset

from fairseq_odeformers.inference.texts import allows_truncation
from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry, parse_evaluation
from .recipe import Recipe
from .trial import Untrained

SKIP = "skip-invalid-size-inputs-valid-test"
LONGER = {  # the options that make room for a longer example
    Kind.TRANSLATION: "--max-source-positions and --max-target-positions",
    Kind.CLASSIFICATION: "--shorten-method truncate, or --max-positions",
    Kind.LANGUAGE_MODEL: "--max-target-positions, or --sample-break-mode none",
    Kind.MASKED_LM: "--max-positions, or --sample-break-mode none",
}


def check_lengths(recipe: Recipe, entry: Entry, untrained: Untrained) -> None:
    """Check that an architecture and its batches take all examples that it is evaluated on.

    Training examples that are too long, which fairseq leaves out, are counted.
    """
    cfg, task, model = untrained
    limits, remedy = (task.max_positions(), model.max_positions()), LONGER[recipe.kind]
    train = cfg.dataset.train_subset
    task.load_dataset(train, combine=True, epoch=1)
    where = f"{recipe.data}, {train}"
    check_positions(task.dataset(train), (*limits, cfg.dataset.max_tokens), where, "", skips=True)
    if not cfg.dataset.disable_validation:
        for subset in cfg.dataset.valid_subset.split(","):
            task.load_dataset(subset, combine=False, epoch=1)
            dataset, where = task.dataset(subset), f"{recipe.data}, {subset}"
            skips = cfg.dataset.skip_invalid_size_inputs_valid_test
            fitting = check_positions(dataset, limits, where, f"{remedy}; or --{SKIP}", skips)
            check_batches(
                dataset, fitting, cfg.dataset.max_tokens_valid, where, "--max-tokens-valid"
            )
    if recipe.kind is Kind.CLASSIFICATION:
        check_predictions(recipe, entry, task, limits)
    else:
        check_evaluations(recipe, entry, model)


def check_predictions(recipe: Recipe, entry: Entry, task, limits: Sequence) -> None:
    """Check the test sets of a classifier, which ``odeformers predict`` reads."""
    remedy = f"{LONGER[recipe.kind]}; or truncate: true under evaluate"
    for split in recipe.splits or ():
        truncated = parse_evaluation(recipe, entry, split).truncate or allows_truncation(task.cfg)
        task.load_dataset(split)  # refuses labels of several words
        if not truncated:
            check_positions(task.dataset(split), limits, f"{recipe.data}, {split}", remedy)


def check_evaluations(recipe: Recipe, entry: Entry, model) -> None:
    """Check the test sets that ``fairseq-generate`` or ``fairseq-eval-lm`` reads."""
    generates = recipe.kind is Kind.TRANSLATION
    for split in recipe.splits or ():
        cfg = parse_evaluation(recipe, entry, split)
        if not generates:
            cfg.task.tokens_per_sample -= cfg.eval_lm.context_window
        task = tasks.setup_task(cfg.task)
        task.load_dataset(split)
        limits = [model.max_positions(), *([task.max_positions()] if generates else [])]
        dataset, where = task.dataset(split), f"{recipe.data}, {split}"
        fitting = check_positions(dataset, limits, where, LONGER[recipe.kind])
        tokens, option = cfg.dataset.max_tokens, "max-tokens under evaluate"
        check_batches(dataset, fitting, tokens, where, option)


def check_positions(
    dataset: FairseqDataset, limits: Sequence, where: str, remedy: str, skips: bool = False
) -> np.ndarray:
    """Check that no example has more tokens than a model has positions.

    Args:
        limits: the most tokens of an example, by the task and by the model.
        where: the data and the split.
        remedy: the options that make room for more.
        skips: whether longer examples are left out; they are counted.

    Returns:
        The numbers of the examples, without those that are left out.
    """
    indices, limit = dataset.ordered_indices(), utils.resolve_max_positions(*limits)
    if limit is None:
        return indices
    fitting, longer = dataset.filter_indices_by_size(indices, limit)
    if len(longer):
        first = min(longer)
        most, size = (
            " and ".join(map(str, np.atleast_1d(numbers)))
            for numbers in (limit, dataset.size(first))
        )
        fault = (
            f"{where}: {len(longer):,} of {len(indices):,} examples are longer than the model "
            f"takes, {most} tokens (number {first + 1} has {size})"
        )
        if not skips:
            raise ValueError(f"{fault}; give {remedy}")
        print(f"{fault}; they are left out", flush=True)
    return fitting


def check_batches(
    dataset: FairseqDataset, indices: np.ndarray, most: int | None, where: str, option: str
) -> None:
    """Check that no example has more tokens than a batch may have, by an option."""
    sizes = {dataset.num_tokens(index): index for index in indices} if most else {}
    if most and sizes and max(sizes) > most:
        raise ValueError(
            f"{where}: number {sizes[max(sizes)] + 1} has {max(sizes)} tokens, more than a batch "
            f"of {most}; give {option} {max(sizes)}"
        )
