"""Trials: what one build of a model and a few updates tell before the first training begins.

A trial finds what would end a training, an evaluation or the report hours later, and measures what
a run costs.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from fairseq import metrics, tasks, utils
from fairseq.data import FairseqDataset
from fairseq.data.iterators import GroupedIterator
from fairseq.trainer import Trainer

from fairseq_odeformers.inference.texts import allows_truncation
from fairseq_odeformers.models.common.kinds import Kind

from .results import Options
from .variant import Untrained, Variant

STEPS = 4  # updates that are timed at least, unless the time is over
SECONDS = 2.0  # of updates that are timed at least where they determine the length of a training
EXAMPLES = 16  # in the batch of the evaluation that is timed
# The ends of options that do not change the size of a model, and hardly the time of an update.
COST_FREE = ("lr", "dropout", "weight-decay", "clip-norm", "label-smoothing", "warmup-updates")
SKIP = "skip-invalid-size-inputs-valid-test"
LONGER = {  # the options that make room for a longer example
    Kind.TRANSLATION: "--max-source-positions and --max-target-positions",
    Kind.CLASSIFICATION: "--shorten-method truncate, or --max-positions",
    Kind.LANGUAGE_MODEL: "--max-target-positions, or --sample-break-mode none",
    Kind.MASKED_LM: "--max-positions, or --sample-break-mode none",
}


@dataclass(frozen=True)
class Trial:
    """What a trial has measured."""

    parameters: int  # that are trained
    epoch_updates: int  # of one epoch
    seconds: float  # of an update, on average
    timed: int  # updates
    validation_seconds: float  # of one validation
    prediction_seconds: float  # of a test set that is as long as the validation set


def digest_trial(variant: Variant, data_digest: str) -> str:
    """A digest of all that a trial depends on; options that hardly cost time are left out."""
    experiment = variant.experiment
    costly = {k: v for k, v in variant.options.items() if not k.endswith((*COST_FREE, "user-dir"))}
    facts = [costly, experiment.evaluate, sorted(experiment.test_sets), variant.code, data_digest]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def try_variant(variant: Variant, seconds: float | None = None) -> Trial:
    """Build a model once, check the data with it, and time a few updates.

    Args:
        seconds: that timing them may take, if they determine the length of the training.
    """
    untrained = variant.build()
    check_data(variant, untrained)
    trainer, updates = start_training(variant, untrained)
    epoch_updates = len(updates)
    check_best(trainer.cfg, epoch_updates)
    times = time_updates(trainer, updates, seconds)
    check_metric(trainer)
    validation, prediction = time_evaluation(variant, trainer)
    return Trial(
        untrained.parameters, epoch_updates, fmean(times), len(times), validation, prediction
    )


# --- a few updates -----------------------------------------------------------------------------


def start_training(variant: Variant, untrained: Untrained) -> tuple[Trainer, GroupedIterator]:
    """fairseq's trainer, and the updates of its first epoch in the order of a training."""
    cfg, task, model = untrained
    start = cfg.checkpoint.finetune_from_model
    if start and not Path(start).is_file():
        raise ValueError(f"--finetune-from-model {start}: no such checkpoint; train it first")
    # Processes and threads that read batches would outlive the trial.
    cfg.dataset.num_workers = cfg.dataset.data_buffer_size = 0
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.save_checkpoint = lambda *_: None  # fairseq saves the state of a failure
    try:
        epoch = trainer.get_train_iterator(epoch=1)
        batches = epoch.next_epoch_itr(shuffle=True)
    except Exception as error:
        if not isinstance(error, IndexError) and "dataset is empty" not in str(error):
            raise  # both are fairseq's, where it leaves all examples out
        raise ValueError(
            f"{variant.experiment.data}: no training example fits; check --max-tokens and "
            "--max-positions"
        ) from error
    for subset in cfg.dataset.valid_subset.split(","):
        task.load_dataset(subset, combine=False, epoch=1)
    return trainer, GroupedIterator(batches, cfg.optimization.update_freq[0])


def time_updates(trainer: Trainer, updates: Iterable, seconds: float | None = None) -> list[float]:
    """The seconds of each of a few updates, in the order of a training.

    Each is made twice, and the second one counts: the first one of a size allocates memory. They
    are fairseq's own, so that options of the optimizer, of precision and of accumulated gradients
    are tried with the model.

    Args:
        seconds: that this may take; it ends with two updates at least. None for a few updates.
    """
    times: list[float] = []
    least = 0.0 if seconds is None else SECONDS
    end = time.perf_counter() + (math.inf if seconds is None else seconds)
    for samples in updates:
        make_update(trainer, samples)
        start, cpu = time.perf_counter(), time.process_time()
        make_update(trainer, samples)
        elapsed = time.perf_counter() - start
        # Other processes on the machine make the clock's time longer.
        times.append(elapsed if trainer.cuda else min(elapsed, time.process_time() - cpu))
        over = time.perf_counter() > end and len(times) > 1
        if over or len(times) >= STEPS and sum(times) >= least:
            break
    return times


def make_update(trainer: Trainer, samples: list) -> None:
    """One update of a training."""
    try:
        trainer.train_step(samples)
    except (FloatingPointError, StopIteration) as error:  # the second as fairseq looks for NaN
        raise ValueError("the loss or a gradient is not finite") from error
    if trainer.cuda:
        torch.cuda.synchronize()


def count_updates(optimization, per_epoch: int) -> int:
    """The updates of a training: to ``--max-epoch`` or ``--max-update``, whichever comes first."""
    limits = (optimization.max_epoch * per_epoch, optimization.max_update)
    updates = min((limit for limit in limits if limit > 0), default=0)
    if not updates:
        raise ValueError("the training has no end; give --max-epoch or --max-update")
    return updates


def count_checkpoints(options: Options, updates: int, epoch_updates: int) -> int:
    """The number of checkpoints that fairseq saves in a training and that can be averaged.

    At the end of an epoch it saves none that is named by updates.
    """
    if interval := int(options.get("save-interval-updates") or 0):
        saved = range(interval, updates + 1, interval)
        return sum(number % epoch_updates > 0 for number in saved)
    if options.get("no-epoch-checkpoints"):
        return 0
    return updates // epoch_updates // int(options.get("save-interval") or 1)


def check_best(cfg, epoch_updates: int) -> None:
    """Check that a training saves the best checkpoint, under its name."""
    for name, value in (
        ("disable-validation", cfg.dataset.disable_validation),
        ("no-save", cfg.checkpoint.no_save),
        ("checkpoint-suffix", cfg.checkpoint.checkpoint_suffix),
    ):
        if value:
            raise ValueError(
                f"--{name} {value}: the best checkpoint is evaluated; leave the option out"
            )
    epochs = count_updates(cfg.optimization, epoch_updates) // epoch_updates
    intervals = cfg.dataset.validate_interval, cfg.checkpoint.save_interval
    by_updates = cfg.dataset.validate_interval_updates or cfg.checkpoint.save_interval_updates
    if not (by_updates or cfg.optimization.max_update) and math.lcm(*intervals) > epochs:
        raise ValueError(
            f"--validate-interval {intervals[0]} --save-interval {intervals[1]}: {epochs} epochs "
            "save no best checkpoint; give less"
        )


def check_metric(trainer: Trainer) -> None:
    """Check that a validation has the metric that chooses the best checkpoint."""
    name = trainer.cfg.checkpoint.best_checkpoint_metric
    if name == "bleu" and getattr(trainer.cfg.task, "eval_bleu", False):
        return  # a model that is hardly trained translates some batches to nothing
    with metrics.aggregate(new_root=True) as validation:
        trainer.valid_step(take_examples(trainer))
    logged = [key for key in validation.get_smoothed_values() if not key.startswith("_")]
    if name not in logged:
        remedy = " (--eval-bleu adds bleu)" if name == "bleu" else ""
        raise ValueError(
            f"--best-checkpoint-metric {name}: choose from {', '.join(logged)}{remedy}"
        )


def time_evaluation(variant: Variant, trainer: Trainer) -> tuple[float, float]:
    """The seconds of a validation, and of predicting as many examples.

    An untrained model translates up to the greatest length, so a trained one takes less.
    """
    task, model, sample = trainer.task, trainer.get_model(), take_examples(trainer)
    validation = prediction = seconds_of(lambda: trainer.valid_step(sample))
    if variant.experiment.kind is Kind.TRANSLATION and variant.experiment.test_sets:
        cfg = variant.parse_evaluation(next(iter(variant.experiment.test_sets)))
        generator = task.build_generator([model], cfg.generation)
        prediction = seconds_of(lambda: task.inference_step(generator, [model], sample))
    examples = len(validation_set(trainer))
    batches = examples / min(examples, EXAMPLES)
    return batches * validation, batches * prediction


def validation_set(trainer: Trainer) -> FairseqDataset:
    """The first validation set of a training."""
    return trainer.task.dataset(trainer.cfg.dataset.valid_subset.split(",")[0])


def take_examples(trainer: Trainer) -> dict[str, Any]:
    """A batch of the first examples of the validation set, on the device of the model."""
    dataset = validation_set(trainer)
    examples = [dataset[index] for index in range(min(EXAMPLES, len(dataset)))]
    return utils.apply_to_sample(lambda x: x.to(trainer.device), dataset.collater(examples))


@torch.no_grad()
def seconds_of(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


# --- the data ----------------------------------------------------------------------------------


def check_data(variant: Variant, untrained: Untrained) -> None:
    """Check that a model and its batches have room for all examples that it is evaluated on.

    fairseq leaves examples that are too long out of a training, where they are counted, and of
    ``fairseq-eval-lm``; it ends a validation or ``fairseq-generate`` at the first one.
    """
    cfg, task, model = untrained
    experiment = variant.experiment
    limits, remedy = (task.max_positions(), model.max_positions()), LONGER[experiment.kind]
    train = cfg.dataset.train_subset
    task.load_dataset(train, combine=True, epoch=1)
    where = f"{experiment.data}, {train}"
    check_positions(task.dataset(train), (*limits, cfg.dataset.max_tokens), where, "", skips=True)
    if not cfg.dataset.disable_validation:
        for subset in cfg.dataset.valid_subset.split(","):
            task.load_dataset(subset, combine=False, epoch=1)
            dataset, where = task.dataset(subset), f"{experiment.data}, {subset}"
            skips = cfg.dataset.skip_invalid_size_inputs_valid_test
            fitting = check_positions(dataset, limits, where, f"{remedy}; or --{SKIP}", skips)
            check_batches(
                dataset, fitting, cfg.dataset.max_tokens_valid, where, "--max-tokens-valid"
            )
    for split in experiment.test_sets:
        where = f"{experiment.data}, {split}"
        if experiment.kind is Kind.CLASSIFICATION:  # which odeformers predict reads
            truncate = variant.parse_evaluation(split).truncate or allows_truncation(task.cfg)
            task.load_dataset(split)  # refuses labels of several words
            if not truncate:
                remedy = f"{LONGER[experiment.kind]}; or truncate: true under evaluate"
                check_positions(task.dataset(split), limits, where, remedy)
        else:
            check_evaluation(variant, model, split, where)


def check_evaluation(variant: Variant, model, split: str, where: str) -> None:
    """Check a test set that ``fairseq-generate`` or ``fairseq-eval-lm`` reads."""
    generates = variant.experiment.kind is Kind.TRANSLATION
    cfg = variant.parse_evaluation(split)
    if not generates:
        cfg.task.tokens_per_sample -= cfg.eval_lm.context_window
    task = tasks.setup_task(cfg.task)
    task.load_dataset(split)
    limits = [model.max_positions(), *([task.max_positions()] if generates else [])]
    dataset = task.dataset(split)
    fitting = check_positions(dataset, limits, where, LONGER[variant.experiment.kind])
    check_batches(dataset, fitting, cfg.dataset.max_tokens, where, "max-tokens under evaluate")


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
