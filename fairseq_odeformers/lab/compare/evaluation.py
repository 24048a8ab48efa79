"""How long a run validates and predicts, estimated from a few examples."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from fairseq import utils
from fairseq.data import FairseqDataset
from fairseq.dataclass.configs import GenerationConfig
from fairseq.trainer import Trainer

from fairseq_odeformers.models.common.kinds import Kind

from .recipe import Recipe

EXAMPLES = 16  # in the batch that is timed


def time_evaluation(recipe: Recipe, trainer: Trainer, validations: int, splits: int) -> float:
    """The seconds of all validations, and of predicting test sets, each as long as ``valid``.

    An untrained model translates up to the greatest length, so a trained one takes less.
    """
    task, model, sample = trainer.task, trainer.get_model(), take_examples(trainer)
    validation = prediction = seconds_of(lambda: trainer.valid_step(sample))
    if recipe.kind is Kind.TRANSLATION:
        generator = task.build_generator([model], generation_config(recipe))
        prediction = seconds_of(lambda: task.inference_step(generator, [model], sample))
    checkpoints = 1 if recipe.average == 0 else 2
    predictions = checkpoints * splits
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


def generation_config(recipe: Recipe) -> GenerationConfig:
    """The options of fairseq-generate that the recipe has."""
    config = GenerationConfig()
    for option, value in recipe.evaluate.items():
        name = option.replace("-", "_")
        if (default := getattr(config, name, None)) is not None:
            setattr(config, name, type(default)(value))
    return config


@torch.no_grad()
def seconds_of(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
