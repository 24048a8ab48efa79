"""Label-smoothed cross-entropy of tokens, with regularisers."""

from dataclasses import dataclass

from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.tasks import FairseqTask
from torch import Tensor, nn

from fairseq_odeformers.options import validate

from .regularizers import RegularizerConfig, Regularizers


@dataclass
class RegularizedCrossEntropyConfig(RegularizerConfig, LabelSmoothedCrossEntropyCriterionConfig):
    """Options of fairseq's criterion, and the weights of the regularisers."""


@register_criterion(
    "label_smoothed_cross_entropy_with_regularizers", dataclass=RegularizedCrossEntropyConfig
)
class RegularizedCrossEntropyCriterion(LabelSmoothedCrossEntropyCriterion):
    """fairseq's ``label_smoothed_cross_entropy`` with regularisers.

    The criterion trains translators and language models. For a translator without a regulariser,
    fairseq's own criterion suffices; it is the default of ``odeformers compare``.

    The loss is the mean over tokens plus, for each regulariser, its weight times its mean over
    texts. This mean weights each text by its number of target tokens, or all texts equally with
    ``--sentence-avg``. The best weight of a regulariser therefore does not depend on the length of
    the texts, and an update does not depend on how it is divided into batches.
    """

    def __init__(self, cfg: RegularizedCrossEntropyConfig, task: FairseqTask):
        validate(cfg, RegularizedCrossEntropyConfig)
        super().__init__(
            task,
            cfg.sentence_avg,
            cfg.label_smoothing,
            cfg.ignore_prefix_size,
            cfg.report_accuracy,
        )
        self.regularizers = Regularizers(cfg)

    def forward(
        self, model: nn.Module, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, int, dict]:
        """Return the loss summed over tokens, the number of tokens, and the values to log."""
        net_output = self.regularizers.model_output(model, **sample["net_input"])
        loss, nll_loss = self.compute_loss(model, net_output, sample, reduce=reduce)
        nsentences = sample["target"].size(0)
        sample_size = nsentences if self.sentence_avg else sample["ntokens"]
        shares = None if self.sentence_avg else sample["target"].ne(self.padding_idx).sum(1)
        regularizer, logged = self.regularizers.weighted_sum(net_output[1], model, shares)
        loss = loss + regularizer
        logging_output = {
            "loss": loss.data,
            "nll_loss": nll_loss.data,
            "ntokens": sample["ntokens"],
            "nsentences": nsentences,
            "sample_size": sample_size,
            **logged,
        }
        if self.report_accuracy:
            n_correct, total = self.compute_accuracy(model, net_output, sample)
            logging_output.update(n_correct=n_correct, total=total)
        return loss, sample_size, logging_output

    @classmethod
    def reduce_metrics(cls, logging_outputs: list[dict]) -> None:
        super().reduce_metrics(logging_outputs)
        nsentences = sum(log.get("nsentences", 0) for log in logging_outputs)
        Regularizers.log_means(logging_outputs, nsentences)
