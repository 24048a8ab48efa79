"""Which validation of a training is the best: the direction of its metric."""

import re

# The ends of the names of metrics that rise while a model improves, and of those that fall.
RISING = re.compile(
    r"(.*_)?(acc|accuracy|bleu|sacrebleu|chrf|comet|meteor|rouge(_?(\d|l|lsum))?|f1|fscore|mcc|kappa|"
    r"pearson|spearman|corr|correlation|precision|recall|auc|auroc|map|mrr|exact_match|correct)",
    re.IGNORECASE,
)
FALLING = re.compile(
    r"(.*_)?(loss|ppl|perplexity|cross_entropy|nll|bpc|bpb|kl|error|errors|error_rate|eer|wer|cer|"
    r"ter|uer|mse|rmse|mae|latency|arclength|reconstruction)",
    re.IGNORECASE,
)


def rises(metric: str) -> bool | None:
    """Whether a higher value of a validation metric is better; None if its name does not tell."""
    if RISING.fullmatch(metric):
        return True
    return False if FALLING.fullmatch(metric) else None


def check_direction(metric: str, maximize: bool | None) -> bool:
    """Whether the highest value of a metric is the best.

    Args:
        metric: ``--best-checkpoint-metric``.
        maximize: what ``--maximize-best-checkpoint-metric`` says, None if nothing does. The option
            decides for metrics whose names do not tell, as in fairseq.

    Raises:
        ValueError: the option contradicts the metric.
    """
    known = rises(metric)
    if known is None or maximize in (None, known):
        return bool(maximize if known is None else known)
    best = "highest" if known else "lowest"
    raise ValueError(
        f"--maximize-best-checkpoint-metric: the best {metric} is the {best} one; leave the "
        "option out"
    )
