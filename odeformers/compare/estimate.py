"""Estimates of what variants cost, from one build and a few updates before any training.

The number of updates of a training run follows from its epochs, or from its budget and the time of
an update. The measurement also finds faults that would end a training run or an evaluation hours
later.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch
from fairseq import metrics, tasks, utils
from fairseq.data import FairseqDataset
from fairseq.data.iterators import GroupedIterator
from fairseq.models import BaseFairseqModel
from fairseq.trainer import Trainer

from fairseq_odeformers.errors import naming_faults
from fairseq_odeformers.inference.texts import allows_truncation
from fairseq_odeformers.registry import Kind
from odeformers.processes import Options

from .variant import Variant, resolve_shares

STEPS = 4  # minimum number of updates that are timed, unless time is up
SECONDS = 2.0  # minimum time of the updates that determine the length of training
SKIP = "--skip-invalid-size-inputs-valid-test"  # removes texts only from validations
EXAMPLES = 16  # number of examples that are validated before training
OF_BATCHES = ("wps", "ups", "wpb", "bsz")  # statistics of a validation that measure no quality
LONGER = {  # options that allow longer examples
    Kind.TRANSLATION: "--max-source-positions and --max-target-positions",
    Kind.CLASSIFICATION: "--shorten-method truncate, or --max-positions",
    Kind.LANGUAGE_MODEL: "--max-target-positions, or --sample-break-mode none",
    Kind.MASKED_LM: "--max-positions, or --sample-break-mode none",
}


class Measured(NamedTuple):
    """The measurements of one build and a few updates."""

    parameters: int  # number of trained parameters
    epoch_updates: int  # updates per epoch
    update_seconds: float  # mean time of an update, in seconds
    validation_texts: int | None = None  # number of texts that choose the best checkpoint


@dataclass(frozen=True)
class Estimate:
    """The cost of training a variant, with the width and number of updates chosen for it."""

    variant: Variant
    parameters: int
    epoch_updates: int
    update_seconds: float
    updates: int  # number of updates in a training run
    validation_texts: int | None = None
    size: str = ""  # how the width was chosen
    defaults: Options = field(default_factory=dict)  # all other options of the model
    environment: str = ""  # date, machine and versions

    @property
    def measured(self) -> Measured:
        return Measured(*(getattr(self, name) for name in Measured._fields))

    @property
    def seconds(self) -> float:
        """The planned time of a training run, in seconds."""
        budget = self.variant.budget
        return 60 * budget if budget else self.updates * self.update_seconds

    def of(self, variant: Variant) -> Estimate:
        """Return the estimate for another variant with the same cost."""
        return replace(self, variant=variant)


def measure(variant: Variant, end: float = math.inf) -> Measured:
    """Build a model once, check the data with it, and time a few updates.

    Args:
        end: time of ``perf_counter`` after which no more updates are timed.
    """
    trainer, updates = start_training(variant)
    check_data(variant, trainer)
    check_metric(trainer)
    epoch_updates, least = len(updates), SECONDS if variant.budget else 0.0
    seconds, texts = fmean(time_updates(trainer, updates, least, end)), None
    if variant.kind in (Kind.TRANSLATION, Kind.CLASSIFICATION):
        texts = count_validation_texts(trainer)
    return Measured(count_parameters(trainer.get_model()), epoch_updates, seconds, texts)


def count_parameters(model: BaseFairseqModel) -> int:
    """Count the trained parameters."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


# --- a few updates -----------------------------------------------------------------------------


def start_training(variant: Variant) -> tuple[Trainer, GroupedIterator]:
    """Make fairseq's trainer, and the updates of its first epoch in the order of a training run."""
    cfg, (task, model) = variant.cfg, variant.build()
    start = cfg.checkpoint.finetune_from_model
    if start and not Path(start).is_file():
        raise ValueError(f"--finetune-from-model {start}: no such checkpoint; train it first")
    # Processes and threads that read batches would not end with the measurement.
    cfg.dataset.num_workers = cfg.dataset.data_buffer_size = 0
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    trainer.save_checkpoint = lambda *_: None  # fairseq saves the state of a failure
    try:
        batches = trainer.get_train_iterator(epoch=1).next_epoch_itr(shuffle=True)
    except Exception as error:
        if not isinstance(error, IndexError) and "dataset is empty" not in str(error):
            raise  # fairseq raises both if it leaves out all examples
        raise ValueError(
            f"{variant.data}: no training example fits; give a larger --max-tokens, or "
            f"{LONGER[variant.kind]}"
        ) from error
    return trainer, GroupedIterator(batches, cfg.optimization.update_freq[0])


def time_updates(
    trainer: Trainer, updates: Iterable, least: float = 0.0, end: float = math.inf
) -> list[float]:
    """Time a few updates in the order of a training run, and return their seconds.

    Each update is made twice, and the second one is timed, since the first one of a size allocates
    memory. fairseq makes the updates, so that options of the optimizer, of precision and of
    accumulated gradients are tried with the model.

    Args:
        least: minimum number of seconds to time, with at least :data:`STEPS` updates (or one update
            after *end*).
    """
    times: list[float] = []
    for samples in updates:
        make_update(trainer, samples)
        start, cpu = time.perf_counter(), time.process_time()
        make_update(trainer, samples)
        elapsed = time.perf_counter() - start
        # Other processes on the machine inflate wall-clock time.
        times.append(elapsed if trainer.cuda else min(elapsed, time.process_time() - cpu))
        if time.perf_counter() > end or len(times) >= STEPS and sum(times) >= least:
            break
    return times


def make_update(trainer: Trainer, samples: list) -> None:
    """Make one update of a training run."""
    try:
        trainer.train_step(samples)
    except (FloatingPointError, StopIteration) as error:  # StopIteration if fairseq looks for NaN
        raise ValueError("the loss or a gradient is not finite") from error
    if trainer.cuda:
        torch.cuda.synchronize()


def check_metric(trainer: Trainer) -> None:
    """Check that a validation has the metric that chooses the best checkpoint."""
    name, dataset = trainer.cfg.checkpoint.best_checkpoint_metric, validation_set(trainer)
    if name == "bleu" and getattr(trainer.cfg.task, "eval_bleu", False):
        return  # an almost untrained model translates some batches to nothing
    sample = dataset.collater([dataset[n] for n in range(min(EXAMPLES, len(dataset)))])
    with metrics.aggregate(new_root=True) as validation:
        trainer.valid_step(sample)
    known = [key for key in validation.get_smoothed_values() if not key.startswith("_")]
    if name not in known:
        known = [key for key in known if key not in OF_BATCHES]
        translates = hasattr(trainer.cfg.task, "eval_bleu")
        remedy = " (--eval-bleu adds bleu)" if name == "bleu" and translates else ""
        raise ValueError(f"--best-checkpoint-metric {name}: choose from {', '.join(known)}{remedy}")


def validation_set(trainer: Trainer) -> FairseqDataset:
    """Return the first validation set of a training run."""
    return trainer.task.dataset(trainer.cfg.dataset.valid_subset.split(",")[0])


def count_validation_texts(trainer: Trainer) -> int:
    """Count the texts of the first validation set, without texts that are skipped as too long."""
    subset, *_ = trainer.cfg.dataset.valid_subset.split(",")
    return sum(map(len, trainer.get_valid_iterator(subset).frozen_batches))


# --- the data ----------------------------------------------------------------------------------


def check_data(variant: Variant, trainer: Trainer) -> None:
    """Check that a model and its batches have room for all examples that it is evaluated on.

    The examples are batched as in training and evaluation, so that fairseq raises its errors here.
    The exception is ``fairseq-eval-lm``, which skips examples that are too long.
    """
    task, model = trainer.task, trainer.get_model()
    data = f"{variant.label}: {variant.data}"
    longer = f"does not fit; give {LONGER[variant.kind]}, or"
    for subset in trainer.cfg.dataset.valid_subset.split(","):
        remedy = f"--max-tokens-valid, or {SKIP}"
        task.load_dataset(subset, combine=False, epoch=1)
        with naming_faults(f"{data}, {subset}", f"{longer} {remedy}"):
            trainer.get_valid_iterator(subset)
    for split in variant.test_sets:
        reader, parsed, most = task, variant.parse_evaluation(split), None
        limits = [model.max_positions(), task.max_positions()]
        if variant.kind is not Kind.CLASSIFICATION:
            most = parsed.dataset.max_tokens
            if variant.kind is not Kind.TRANSLATION:
                limits.pop()
                parsed.task.tokens_per_sample -= parsed.eval_lm.context_window
            reader = tasks.setup_task(parsed.task)
        elif parsed.truncate or allows_truncation(task.cfg):
            limits = []
        reader.load_dataset(split)
        with naming_faults(f"{data}, {split}", f"{longer} remove these texts"):
            try:
                reader.get_batch_iterator(
                    reader.dataset(split),
                    max_tokens=most,
                    max_positions=utils.resolve_max_positions(*limits),
                )
            except Exception as error:  # all models must be scored on all texts of a test set
                said = re.sub(f", skip this example with {SKIP}", "", str(error))
                raise ValueError(said) from error


# --- effort ------------------------------------------------------------------------------------


def make_estimate(
    variant: Variant, measured: Measured, size: str = "", environment: str = ""
) -> Estimate:
    """Make the estimate for a variant: choose its number of updates, and fit the schedule to it.

    Training ends after its epochs, or when its budget of time is spent.

    Args:
        size: how the width was chosen.

    Raises:
        ValueError: training would save fewer checkpoints than are to be averaged.
    """
    epoch = measured.epoch_updates
    before = updates = count_updates(variant.cfg.optimization, epoch)
    if variant.budget:
        updates = int(60 * variant.budget / measured.update_seconds)
        if updates < 1:
            raise ValueError(
                f"--budget: an update takes {measured.update_seconds:.3g} seconds; give more time"
            )
        variant = stretch_schedule(variant, before, updates)
    variant = variant.lasting(updates)
    saved = count_checkpoints(variant.options, updates, epoch)
    if not 0 <= variant.average <= saved:
        raise ValueError(
            f"--average {variant.average}: {updates} updates of {variant.label} leave {saved} "
            f"checkpoint{'s' * (saved != 1)}; give a number from 0 to {saved}, or train for "
            "more updates"
        )
    return Estimate(
        variant,
        **measured._asdict(),
        updates=updates,
        size=size,
        defaults=variant.find_defaults(),
        environment=environment,
    )


def count_updates(optimization, per_epoch: int) -> int:
    """Count the updates of a training run up to ``--max-epoch`` or ``--max-update``."""
    limits = (optimization.max_epoch * per_epoch, optimization.max_update)
    updates = min((limit for limit in limits if limit > 0), default=0)
    if not updates:
        raise ValueError("training has no end; give --max-epoch or --max-update")
    return updates


def stretch_schedule(variant: Variant, before: int, updates: int) -> Variant:
    """Stretch a variant's schedule from *before* to *updates*; the share of its warm-up stays."""
    if variant.options.get("lr-scheduler") != "polynomial_decay":
        raise ValueError(
            "--budget: the rate must fall to zero; add --lr-scheduler polynomial_decay "
            "--total-num-update 100% --warmup-updates 10%"
        )
    options = resolve_shares(variant.options, before)
    warmup, total = (
        max(1, round(float(options.get(name, 0)) * updates / before))
        for name in ("warmup-updates", "total-num-update")
    )
    return variant.change(
        max_update=updates, max_epoch=None, warmup_updates=warmup, total_num_update=total
    )


def count_checkpoints(options: Options, updates: int, epoch_updates: int) -> int:
    """Count the checkpoints that fairseq saves in a training run and that can be averaged.

    At the end of an epoch, fairseq saves no checkpoint that is named by updates.
    """
    if interval := int(options.get("save-interval-updates") or 0):
        saved = range(interval, updates + 1, interval)
        return sum(number % epoch_updates > 0 for number in saved)
    if options.get("no-epoch-checkpoints"):
        return 0
    return updates // epoch_updates // int(options.get("save-interval") or 1)
