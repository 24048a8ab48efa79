"""Regularisers: values a sequence that a model hands to its criterion, to be weighted there.

A model's output is a pair whose second part is a dictionary; ``regularizers`` in it is a dictionary
of tensors of shape (B), such as ``arclength``. In evaluation a model need not compute them, and the
loss is without them. The arclength of a model that computes none of its own is that of its layers,
if it has a weight. Another dictionary, ``statistics``, has values (B) that are only logged.

A model whose paper has a regulariser in its loss says so by ``regularizer_weights``, a dictionary:
these are the weights unless options say otherwise.
"""

from dataclasses import dataclass, fields
from typing import Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from fairseq_odeformers.options import option

from .arclength import with_arclength


@dataclass
class RegularizerConfig(FairseqDataclass):
    """The weight of each regulariser, named ``<regulariser>_weight``; another is one more field."""

    arclength_weight: Optional[float] = option(
        None, "weight of the arclength of trajectories, or of a model's layers (default: 0)"
    )
    reconstruction_weight: Optional[float] = option(
        None,
        "weight of the error of the eigenvalues' reconstruction (default: 1e-4 for TransJect, "
        "else 0)",
    )


REGULARIZERS = tuple(
    item.name.removesuffix("_weight")
    for item in fields(RegularizerConfig)
    if item.name.endswith("_weight")
)
MEAN = "_mean_"  # begins the names of sums over sequences of which the mean is logged


def check_weights(cfg: RegularizerConfig) -> None:
    """Raise a ValueError that names the first weight below zero."""
    for name in REGULARIZERS:
        weight = getattr(cfg, f"{name}_weight")
        if weight is not None and not weight >= 0:
            raise ValueError(f"--{name}-weight {weight}: give 0 or more")


def weights(cfg: RegularizerConfig, model) -> dict[str, float]:
    """The weight of each regulariser by its name: an option's, or else the model's own."""
    given = {name: getattr(cfg, f"{name}_weight") for name in REGULARIZERS}
    given = {name: weight for name, weight in given.items() if weight is not None}
    return {**getattr(bare(model), "regularizer_weights", {}), **given}


def bare(model):
    """A model without what several devices have around it."""
    return bare(model.module) if hasattr(model, "module") else model


def forward(cfg: RegularizerConfig, model, **inputs):
    """What a model returns, with all regularisers that have a weight, if it can have them."""
    if weights(cfg, model).get("arclength") and model.training:
        return with_arclength(model, inputs)
    return model(**inputs)


def regularization(cfg: RegularizerConfig, extra, model) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum over regularisers and sequences, to add to a loss summed over sequences.

    Args:
        cfg: the weights.
        extra: second part of the model's output.
        model: named in messages.

    Returns:
        The sum (0 without weights), and for :func:`log_means` the sum over sequences of each
        regulariser and statistic that the model has.

    Raises:
        ValueError: a weight is given for a regulariser that the model does not have in training.
    """
    extra = extra if isinstance(extra, dict) else {}
    values = extra.get("regularizers", {})
    total = 0.0
    for name, weight in weights(cfg, model).items():
        if weight and name not in values and model.training:
            raise ValueError(
                f"--{name}-weight {weight}: {type(bare(model)).__name__} does not compute "
                f"the regulariser {name}; it has {', '.join(values) or 'none'}"
            )
        if weight and name in values:
            total = total + weight * values[name].float().sum()
    logged = {**values, **extra.get("statistics", {})}
    return total, {MEAN + name: value.detach().float().sum() for name, value in logged.items()}


def log_means(logging_outputs: list[dict], nsentences: int) -> None:
    """Log the mean over sequences of each regulariser and statistic."""
    for key in dict.fromkeys(key for log in logging_outputs for key in log):
        if key.startswith(MEAN):
            mean = sum(log.get(key, 0) for log in logging_outputs) / nsentences
            metrics.log_scalar(key[len(MEAN) :], mean, nsentences, round=4)
