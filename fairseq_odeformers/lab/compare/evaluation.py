"""Evaluations before there is a trained model: their options, and the time that they will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import torch
from fairseq import utils
from fairseq.data import FairseqDataset
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.options import get_eval_lm_parser, get_generation_parser, parse_args_and_arch
from fairseq.trainer import Trainer
from omegaconf import DictConfig

from fairseq_odeformers.files import naming
from fairseq_odeformers.lab.parsers import raise_errors
from fairseq_odeformers.models.common.kinds import Kind

from .entry import Entry, evaluation_command
from .logs import report_progress
from .recipe import Recipe

EXAMPLES = 16  # in the batch that is timed


def evaluation_words(recipe: Recipe, entry: Entry, split: str) -> list[str]:
    """The command that predicts a split, without plugins: their folder may not be there yet."""
    recipe = replace(recipe, train={**recipe.train, "user-dir": None})
    return evaluation_command(recipe, entry, split, path="checkpoint")


def parse_evaluation(recipe: Recipe, entry: Entry, split: str) -> DictConfig:
    """The configuration that ``fairseq-generate`` or ``fairseq-eval-lm`` makes of its command.

    Raises:
        ValueError: an option under ``evaluate`` is wrong.
    """
    generates = recipe.kind is Kind.TRANSLATION
    parser = raise_errors(get_generation_parser() if generates else get_eval_lm_parser())
    with naming("evaluate", "is refused"):
        args = parse_args_and_arch(parser, evaluation_words(recipe, entry, split)[1:])
    return convert_namespace_to_omegaconf(args)


def time_evaluation(
    recipe: Recipe, entry: Entry, trainer: Trainer, splits: Collection[str]
) -> float:
    """The seconds of all validations, and of predicting test sets, each as long as ``valid``.

    An untrained model translates up to the greatest length, so a trained one takes less.
    """
    task, model, sample = trainer.task, trainer.get_model(), take_examples(trainer)
    validation = prediction = seconds_of(lambda: trainer.valid_step(sample))
    if recipe.kind is Kind.TRANSLATION and splits:
        report_progress(f"timing translations of {entry.label}")
        cfg = parse_evaluation(recipe, entry, next(iter(splits)))
        generator = task.build_generator([model], cfg.generation)
        prediction = seconds_of(lambda: task.inference_step(generator, [model], sample))
    validations = entry.checkpoints + 1
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
