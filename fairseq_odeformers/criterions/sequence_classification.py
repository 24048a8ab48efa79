"""Cross-entropy of classes, with accuracy and F1."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean

import torch.nn.functional as F
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.logging import metrics
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from fairseq_odeformers.data.classification import classes_of, f1_score
from fairseq_odeformers.options import option, validate

from .regularizers import RegularizerConfig, Regularizers

UNSUPPORTED = {"regression_target": "for numbers, use --criterion sentence_prediction"}


@dataclass
class SequenceClassificationConfig(RegularizerConfig):
    """Options of the regularisers, the classification head and label smoothing."""

    classification_head_name: str = option(
        "sentence_classification_head", "name of the classification head"
    )
    label_smoothing: float = option(0.0, "epsilon of label smoothing; 0 for none")
    # fairseq's sentence_prediction task reads this option.
    regression_target: bool = option(False, "not supported; use --criterion sentence_prediction")


@register_criterion("sequence_classification", dataclass=SequenceClassificationConfig)
class SequenceClassificationCriterion(FairseqCriterion):
    """Cross-entropy in bits, accuracy in percent and, in validation, F1 of each class in percent.

    ``loss`` includes label smoothing and, in training, regularisers; models do not compute
    regularisers in validation. ``cross_entropy`` includes label smoothing. ``nll_loss``, the
    negative log-likelihood, includes neither. Use it to compare models trained with different
    values of these options.

    The criterion works with the tasks ``sentence_prediction`` and ``long_range_arena``, and with
    any model that has RoBERTa's classification heads. Without label smoothing and regularisers, the
    loss equals fairseq's ``sentence_prediction`` criterion. Unlike fairseq's, this criterion only
    logs values that can be summed, so that several devices need only one reduction.
    """

    def __init__(self, cfg: SequenceClassificationConfig, task: FairseqTask):
        super().__init__(task)
        validate(cfg, SequenceClassificationConfig, UNSUPPORTED)
        self.cfg = cfg
        self.regularizers = Regularizers(cfg)

    def forward(
        self, model: nn.Module, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, int, dict]:
        """Return the loss in nats, summed over examples, their number, and the values to log."""
        logits, extra = self.regularizers.model_output(
            model,
            **sample["net_input"],
            features_only=True,
            classification_head_name=self.cfg.classification_head_name,
        )
        if "target" not in sample:
            raise ValueError(
                "the data set has no labels for this split; leave it out of --valid-subset, or use "
                "odeformers predict"
            )
        target = sample["target"].view(-1)
        scores, epsilon = logits.float(), self.cfg.label_smoothing
        cross_entropy = F.cross_entropy(scores, target, label_smoothing=epsilon, reduction="sum")
        nll_loss = cross_entropy.detach()
        if epsilon:
            nll_loss = F.cross_entropy(scores.detach(), target, reduction="sum")
        regularizer, logged = self.regularizers.weighted_sum(extra, model)
        loss = cross_entropy + regularizer
        sample_size = target.numel()
        predicted = logits.argmax(dim=1)
        logging_output = {
            "loss": loss.data,
            "cross_entropy": cross_entropy.data,
            "nll_loss": nll_loss.data,
            "ncorrect": (predicted == target).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": sample_size,
            "sample_size": sample_size,
            **logged,
        }
        if not model.training:
            guesses, truth = (F.one_hot(index, logits.size(1)) for index in (predicted, target))
            has_names = getattr(self.task, "label_dictionary", None) is not None
            names = classes_of(self.task) if has_names else range(logits.size(1))
            counts = zip(names, (guesses * truth).sum(0), (guesses + truth).sum(0))
            for name, hits, members in counts:
                logging_output |= {f"_hits_{name}": hits, f"_members_{name}": members}
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        names = dict.fromkeys(name for log in logging_outputs for name in log)
        total = {name: sum(log.get(name, 0) for log in logging_outputs) for name in names}
        nsentences = total["nsentences"]
        for name in ("loss", "cross_entropy", "nll_loss"):
            bits = total[name] / nsentences / math.log(2)
            metrics.log_scalar(name, bits, nsentences, round=3)
        accuracy = 100.0 * total["ncorrect"] / nsentences
        metrics.log_scalar("accuracy", accuracy, nsentences, round=2)
        Regularizers.log_means(logging_outputs, nsentences)
        log_f1(total)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def log_f1(total: Mapping[str, float]) -> None:
    """Log F1 of each class (such as ``f1_positive``) and the mean ``macro_f1``, in percent.

    The values are computed from sums over batches and devices, so they equal :func:`.macro_f1`.
    """

    def f1(meters: Mapping, name: str) -> float:
        hits, members = (meters[f"_{count}_{name}"].sum for count in ("hits", "members"))
        return f1_score(hits, members)

    for name, count in total.items():
        if name.startswith(("_hits_", "_members_")):
            metrics.log_scalar_sum(name, count)
    classes = [name.removeprefix("_hits_") for name in total if name.startswith("_hits_")]
    for name in classes:
        metrics.log_derived(f"f1_{name}", lambda meters, name=name: round(f1(meters, name), 2))
    if classes:
        metrics.log_derived(
            "macro_f1",
            lambda meters: round(fmean(f1(meters, name) for name in classes), 2),
        )
