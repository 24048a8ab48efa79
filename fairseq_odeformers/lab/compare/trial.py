"""Trials: each model is built and trained for a few updates before the first training begins."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from fairseq import metrics, tasks, utils
from fairseq.data import FairseqDataset
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.models import BaseFairseqModel
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from omegaconf import DictConfig
from torch import nn

from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry, parse_evaluation, parse_training, resolve_shares
from .logs import report_progress
from .recipe import Recipe

STEPS = 4  # updates that are timed, or more
SORTED = 1000  # batches whose sizes are compared, at most
GOLDEN = (math.sqrt(5) - 1) / 2
EXAMPLES = 16  # in the batch of the evaluation that is timed
# The ends of options that do not change the size of a model, and hardly the time of an update.
COST_FREE = ("lr", "dropout", "weight-decay", "clip-norm", "label-smoothing", "warmup-updates")


class Started(NamedTuple):
    """A training that can begin: fairseq's trainer, and for each update samples and their size."""

    trainer: Trainer
    updates: GroupedIterator
    sizes: list[float]  # relative to the mean


class Untrained(NamedTuple):
    """A model, its task and its configuration, as fairseq-train makes them of the options."""

    cfg: DictConfig
    task: FairseqTask
    model: BaseFairseqModel


def build(recipe: Recipe, entry: Entry) -> Untrained:
    """Build the model of an architecture."""
    cfg = parse_training(recipe, entry)
    torch.manual_seed(1)
    task = tasks.setup_task(cfg.task)
    return Untrained(cfg, task, task.build_model(cfg.model))


def count_parameters(model: nn.Module) -> int:
    """The number of trained parameters of a model."""
    return sum(each.numel() for each in model.parameters() if each.requires_grad)


def try_training(recipe: Recipe, entry: Entry, untrained: Untrained) -> Entry:
    """An architecture with its updates, its schedule, and the time that its run may take."""
    started = start_training(recipe, untrained)
    trainer, per_epoch = started.trainer, len(started.sizes)
    updates = count_updates(trainer.cfg.optimization, per_epoch)
    check_best(trainer.cfg, updates // per_epoch)
    (seconds,) = time_updates([started])
    check_metric(trainer)
    options = resolve_shares(entry.options, updates)
    entry = replace(
        entry,
        options=options,
        updates=updates,
        epoch_updates=per_epoch,
        training_seconds=seconds * updates,
    )
    return replace(entry, evaluation_seconds=time_evaluation(recipe, entry, trainer))


def start_training(recipe: Recipe, untrained: Untrained) -> Started:
    """fairseq's trainer with an epoch of batches, of which any few are small and large."""
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
        batches, sizes = spread_sizes(epoch.dataset, epoch.frozen_batches)
    except Exception as error:
        if not isinstance(error, IndexError) and "dataset is empty" not in str(error):
            raise  # both are fairseq's, where it leaves all examples out
        raise ValueError(
            f"{recipe.data}: no training example fits; check --max-tokens and --max-positions"
        ) from error
    for subset in cfg.dataset.valid_subset.split(","):
        task.load_dataset(subset, combine=False, epoch=1)
    spread = EpochBatchIterator(epoch.dataset, epoch.collate_fn, batches)
    number = cfg.optimization.update_freq[0]
    grouped = [fmean(sizes[first : first + number]) for first in range(0, len(sizes), number)]
    updates = GroupedIterator(spread.next_epoch_itr(shuffle=False), number)
    return Started(trainer, updates, grouped)


def spread_sizes(
    dataset: FairseqDataset, batches: Sequence[Sequence[int]]
) -> tuple[list[Sequence[int]], list[float]]:
    """As many batches, of which any few in a row are small and large, and their relative sizes.

    They are at multiples of the golden ratio among the batches as sorted by size. A size is in
    padded tokens, and 1 is the mean.
    """
    some = batches[:: 1 + len(batches) // SORTED]
    sizes = [len(batch) * max(map(dataset.num_tokens, batch)) for batch in some]
    by_size = sorted(range(len(some)), key=sizes.__getitem__)
    chosen = [by_size[int(GOLDEN * k % 1 * len(some))] for k in range(1, 1 + len(batches))]
    mean = sum(sizes) / max(1, len(sizes))
    return [some[i] for i in chosen], [sizes[i] / mean for i in chosen]


def count_updates(optimization, per_epoch: int) -> int:
    """The updates of a training: to ``--max-epoch`` or ``--max-update``, whichever comes first."""
    limits = (optimization.max_epoch * per_epoch, optimization.max_update)
    updates = min((limit for limit in limits if limit > 0), default=0)
    if not updates:
        raise ValueError("the training has no end; give --max-epoch or --max-update")
    return updates


def check_best(cfg, epochs: int) -> None:
    """Check that a training of so many whole epochs saves the best checkpoint, under its name."""
    for name, value in (
        ("disable-validation", cfg.dataset.disable_validation),
        ("no-save", cfg.checkpoint.no_save),
        ("checkpoint-suffix", cfg.checkpoint.checkpoint_suffix),
    ):
        if value:
            raise ValueError(
                f"--{name} {value}: the best checkpoint is evaluated; leave the option out"
            )
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


def time_updates(started: Sequence[Started], least: float = 0.0) -> list[float]:
    """The seconds of an update of mean size, for each of several models, which take turns.

    A few updates of each are timed, or more that take so many seconds at least.
    """
    measured: list[list[tuple[float, float]]] = [[] for _ in started]
    for turn in zip(*map(timed_updates, started)):
        for of_model, one in zip(measured, turn):
            of_model.append(one)
        times = [[seconds for seconds, _ in of_model] for of_model in measured]
        if len(times[0]) >= STEPS and min(map(sum, times)) >= least:
            break
    return [fmean(t for t, _ in of_model) / fmean(s for _, s in of_model) for of_model in measured]


def timed_updates(started: Started) -> Iterator[tuple[float, float]]:
    """The seconds of each update of an epoch, and its relative size.

    Each is made twice, and the second one counts: the first one of a size allocates memory. They
    are fairseq's own, so that options of the optimizer, of precision and of accumulated gradients
    are tried with the model.
    """
    trainer, updates, sizes = started
    for samples, size in zip(updates, sizes):
        for _ in range(2):
            begin = time.perf_counter()
            try:
                trainer.train_step(samples)
            except (FloatingPointError, StopIteration) as error:  # the second as it looks for NaN
                raise ValueError("the loss or a gradient is not finite") from error
            if trainer.cuda:
                torch.cuda.synchronize()
            elapsed = time.perf_counter() - begin
        yield elapsed, size


def time_evaluation(recipe: Recipe, entry: Entry, trainer: Trainer) -> float:
    """The seconds of all validations, and of predicting test sets, each as long as ``valid``.

    An untrained model translates up to the greatest length, so a trained one takes less.
    """
    task, model, sample = trainer.task, trainer.get_model(), take_examples(trainer)
    splits = recipe.splits or []
    validation = prediction = seconds_of(lambda: trainer.valid_step(sample))
    if recipe.kind is Kind.TRANSLATION and splits:
        report_progress(f"timing translations of {entry.label}")
        cfg = parse_evaluation(recipe, entry, splits[0])
        generator = task.build_generator([model], cfg.generation)
        prediction = seconds_of(lambda: task.inference_step(generator, [model], sample))
    validations = max(entry.checkpoints, entry.updates // entry.epoch_updates) + 1
    predictions = len(splits) * (1 if recipe.average == 0 else 2)
    examples = len(validation_set(trainer))
    batches = examples / min(examples, EXAMPLES)
    return batches * (validations * validation + predictions * prediction)


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


def find_twin(entry: Entry, tried: Iterable[Entry]) -> Entry | None:
    """A candidate that has been tried and differs from another one in cost-free options alone."""
    for other in tried:
        differing = (name for name, value in entry.tried.items() if value != other.tried[name])
        if other.name == entry.name and all(name.endswith(COST_FREE) for name in differing):
            return other
    return None


def repeat_trial(entry: Entry, twin: Entry) -> Entry:
    """A candidate with what the trial of its twin has measured."""
    changes = {name: entry.options.get(name) for name in entry.tried if name.endswith(COST_FREE)}
    options = resolve_shares({**twin.options, **changes}, twin.updates)
    return replace(twin, options=options, tried=entry.tried)
