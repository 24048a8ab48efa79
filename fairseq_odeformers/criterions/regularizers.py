"""Regularisers: a model computes one value per text, and the criterion adds it to the loss.

The second part of a model's output is a dictionary. Its entry ``regularizers`` is a dictionary of
tensors (B), such as ``arclength``. In evaluation, the loss excludes them, and a model need not
compute them. If the arclength has a weight and the model does not compute it, the criterion
computes it from the states of the layers. A second entry, ``statistics``, contains values (B) that
are only logged.

A model's attribute ``regularizer_weights`` maps the names of regularisers to the weights of its
paper. They apply unless options say otherwise.
"""

from dataclasses import dataclass, fields
from typing import Any, Optional

from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor, nn

from fairseq_odeformers.options import option

from .arclength import with_arclength

MEAN = "_mean_"  # prefix of the names of sums over texts that are logged as means


@dataclass
class RegularizerConfig(FairseqDataclass):
    """Options of a criterion: the weight of each regulariser, as ``<regulariser>_weight``."""

    arclength_weight: Optional[float] = option(
        None,
        "weight of the arclength of ODE trajectories, or of the states over layers (default: 0)",
        at_least=0,
    )
    reconstruction_weight: Optional[float] = option(
        None,
        "weight of the reconstruction error of the eigenvalues (default: 1e-4 for TransJect, "
        "0 otherwise)",
        at_least=0,
    )


OPTIONS = {  # names of the options by regulariser
    item.name.removesuffix("_weight"): item.name
    for item in fields(RegularizerConfig)
    if item.name.endswith("_weight")
}


class Regularizers:
    """The weighted regularisers of a model, as a criterion adds them to its loss."""

    def __init__(self, cfg: RegularizerConfig):
        options = {name: getattr(cfg, option) for name, option in OPTIONS.items()}
        self.overrides = {name: weight for name, weight in options.items() if weight is not None}

    def weights(self, model: nn.Module) -> dict[str, float]:
        """Map regularisers to their weights, from the options or else from the model."""
        return {**getattr(unwrap(model), "regularizer_weights", {}), **self.overrides}

    def model_output(self, model: nn.Module, **inputs: Any) -> Any:
        """Call a model; in training, add the arclength to its output if it has a weight."""
        if model.training and self.weights(model).get("arclength"):
            return with_arclength(model, inputs)
        return model(**inputs)

    def weighted_sum(
        self, extra: Any, model: nn.Module, shares: Tensor | None = None
    ) -> tuple[Tensor | float, dict[str, Tensor]]:
        """Return the weighted sum of all regularisers of all texts, to add to a summed loss.

        Args:
            extra: second part of the model's output.
            model: the model with this output; it determines the :meth:`weights`.
            shares: share of each text (B) in the sample size (default: 1). An update divides the
                sum by the sample size, so it does not depend on the division into batches.

        Returns:
            The weighted sum (0 without weights) and, for :meth:`log_means`, the sum over texts of
            each regulariser and statistic of the model.

        Raises:
            ValueError: in training, a regulariser has a weight, but the model does not compute it.
        """
        extra = extra if isinstance(extra, dict) else {}
        values = extra.get("regularizers", {})
        total: Tensor | float = 0.0
        for name, weight in self.weights(model).items():
            if weight and name in values:
                value = values[name].float()
                total = total + weight * (value if shares is None else value * shares).sum()
            elif weight and model.training:
                place, remedy = f"regularizer_weights: {name}", "correct the model's attribute"
                if name in self.overrides:
                    place, remedy = f"--{name}-weight", "leave the option out"
                raise ValueError(
                    f"{place} {weight}: {type(unwrap(model)).__name__} does not compute the "
                    f"regulariser {name}; it computes {', '.join(values) or 'none'}; {remedy}"
                )
        logged = {**values, **extra.get("statistics", {})}
        return total, {MEAN + name: value.detach().float().sum() for name, value in logged.items()}

    @staticmethod
    def log_means(logging_outputs: list[dict], nsentences: float) -> None:
        """Log the mean over texts of each regulariser and statistic."""
        for key in dict.fromkeys(key for log in logging_outputs for key in log):
            if key.startswith(MEAN):
                mean = sum(log.get(key, 0) for log in logging_outputs) / nsentences
                metrics.log_scalar(key[len(MEAN) :], mean, nsentences, round=4)


def unwrap(model: nn.Module) -> nn.Module:
    """Remove the wrappers of a model, such as the wrapper for several devices."""
    inner = getattr(model, "module", None)
    return model if inner is None else unwrap(inner)
