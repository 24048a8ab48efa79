"""Regularisers: values a sequence that a model hands to its criterion, to be weighted there.

A model's output is a pair whose second part is a dictionary; ``regularizers`` in it is a dictionary
of tensors of shape (B), such as ``arclength``. In evaluation a model need not compute them, and the
loss is without them.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor


@dataclass
class RegularizerConfig(FairseqDataclass):
    """The weight of each regulariser."""

    arclength_weight: float = field(
        default=0.0, metadata={"help": "weight of the arclength of the trajectories"}
    )
    reconstruction_weight: float = field(
        default=0.0, metadata={"help": "weight of the error of the eigenvalues' reconstruction"}
    )


REGULARIZERS = ("arclength", "reconstruction")


def regularization(cfg: RegularizerConfig, extra, model) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum over regularisers and sequences, to add to a loss summed over sequences.

    Args:
        cfg: the weights.
        extra: second part of the model's output.
        model: named in messages.

    Returns:
        The sum (0 without weights), and what to log of each regulariser that the model has: its
        sum over sequences.

    Raises:
        ValueError: a weight is given for a regulariser that the model does not have in training.
    """
    values = extra.get("regularizers", {}) if isinstance(extra, dict) else {}
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
    return total, {name: value.detach().float().sum() for name, value in values.items()}


def log_regularizers(logging_outputs: list[dict], nsentences: int) -> None:
    """Log the mean over sequences of each regulariser."""
    for name in REGULARIZERS:
        if any(name in log for log in logging_outputs):
            mean = sum(log.get(name, 0) for log in logging_outputs) / nsentences
            metrics.log_scalar(name, mean, nsentences, round=4)
