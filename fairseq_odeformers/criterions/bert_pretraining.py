"""BERT's loss for masked tokens and next-sentence prediction (Devlin et al. 2019)."""

import math
from dataclasses import dataclass

import torch.nn.functional as F
from fairseq import utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from fairseq.models.roberta import RobertaModel
from fairseq.tasks import FairseqTask
from omegaconf import II
from torch import Tensor

from fairseq_odeformers.data.text_pairs import NEXT_SENTENCE


@dataclass
class BertPretrainingCriterionConfig(FairseqDataclass):
    """The criterion has no options; it reads ``--tpu``."""

    tpu: bool = II("common.tpu")


@register_criterion("bert_pretraining", dataclass=BertPretrainingCriterionConfig)
class BertPretrainingCriterion(FairseqCriterion):
    """Mean loss of the masked tokens plus mean loss of next-sentence prediction.

    As in fairseq's ``masked_lm``, the loss is summed over masked tokens. The second mean weights
    each pair by its number of masked tokens, so that an update does not depend on how it is divided
    into batches. The criterion logs ``mlm_loss`` (the loss of ``masked_lm``) and ``nsp_loss``, both
    in bits, and ``next_sentence_accuracy`` in percent. The last two count each pair once.
    """

    def __init__(self, cfg: BertPretrainingCriterionConfig, task: FairseqTask):
        super().__init__(task)
        self.tpu = cfg.tpu

    def forward(
        self, model: RobertaModel, sample: dict, reduce: bool = True
    ) -> tuple[Tensor, Tensor, dict]:
        """Return the loss (summed over masked tokens), their number, and the values to log."""
        features, _ = model(**sample["net_input"], features_only=True)  # (B, T, C)
        target, follows = sample["target"], sample[NEXT_SENTENCE]
        masked = target.ne(self.padding_idx)
        sample_size = masked.int().sum()
        # XLA would compile again for each number of masked tokens, so all tokens are scored there.
        scored = None if self.tpu else masked
        logits = model.encoder.output_layer(features, masked_tokens=scored)
        mlm_loss = F.cross_entropy(
            logits.float().view(-1, logits.size(-1)),
            (target if scored is None else target[scored]).view(-1),
            reduction="sum",
            ignore_index=self.padding_idx,
        )
        scores = model.classification_heads[NEXT_SENTENCE](features).float()
        nsp_losses = F.cross_entropy(scores, follows, reduction="none")
        loss = mlm_loss + (nsp_losses * masked.sum(1)).sum()
        logging_output = {
            "loss": loss.detach(),
            "mlm_loss": mlm_loss.detach(),
            "nsp_loss": nsp_losses.detach().sum(),
            "ncorrect": (scores.argmax(1) == follows).sum(),
            "ntokens": sample["ntokens"],
            "nsentences": follows.numel(),
            "sample_size": sample_size,
        }
        return loss, sample_size, logging_output

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict]) -> None:
        total = {
            name: sum(log.get(name, 0) for log in logging_outputs) for name in logging_outputs[0]
        }
        nsentences, masked = total["nsentences"], total["sample_size"]
        for name, count in (("loss", masked), ("mlm_loss", masked), ("nsp_loss", nsentences)):
            metrics.log_scalar(name, total[name] / count / math.log(2), count, round=3)
        accuracy = 100.0 * total["ncorrect"] / nsentences
        metrics.log_scalar("next_sentence_accuracy", accuracy, nsentences, round=2)
        metrics.log_derived("ppl", lambda meters: utils.get_perplexity(meters["mlm_loss"].avg))

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
