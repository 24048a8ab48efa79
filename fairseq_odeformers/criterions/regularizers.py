"""Regularisers: values a sequence that a model hands to its criterion, to be weighted there.

A model's output is a pair whose second part is a dictionary; ``regularizers`` in it is a dictionary
of tensors of shape (B), such as ``arclength``. In evaluation a model need not compute them, and the
loss is without them. Another dictionary, ``statistics``, has values (B) that are only logged.
"""

from dataclasses import dataclass, field, fields

from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor


@dataclass
class RegularizerConfig(FairseqDataclass):
    """The weight of each regulariser, named ``<regulariser>_weight``; another is one more field."""

    arclength_weight: float = field(
        default=0.0, metadata={"help": "weight of the arclength of the trajectories"}
    )
    reconstruction_weight: float = field(
        default=0.0, metadata={"help": "weight of the error of the eigenvalues' reconstruction"}
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
        if not weight >= 0:
            raise ValueError(f"--{name}-weight {weight}: give 0 or more")


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
    for name in REGULARIZERS:
        weight = getattr(cfg, f"{name}_weight")
        if weight and name not in values and model.training:
            while hasattr(model, "module"):  # of several devices
                model = model.module
            raise ValueError(
                f"--{name}-weight {weight}: {type(model).__name__} does not compute "
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
