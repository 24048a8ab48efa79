"""The direction of a validation metric: whether the highest or the lowest value is the best."""

import re

# Names of metrics that rise while a model improves, and names of metrics that fall. f1_error rises,
# since it is the F1 of a class called "error".
RISING = re.compile(
    r"f1_.+|"
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
    """Return whether a higher value of a metric is better, or None if its name does not say so."""
    if RISING.fullmatch(metric):
        return True
    return False if FALLING.fullmatch(metric) else None


def check_direction(metric: str, maximize: bool | None) -> bool:
    """Return whether the highest value of a metric is the best.

    Args:
        metric: value of ``--best-checkpoint-metric``.
        maximize: value of ``--maximize-best-checkpoint-metric``, or None if it is unknown. As in
            fairseq, the option decides if the name of the metric does not.

    Raises:
        ValueError: the option contradicts the metric.
    """
    highest = rises(metric)
    if highest is None or maximize in (None, highest):
        return bool(maximize if highest is None else highest)
    best = "highest" if highest else "lowest"
    raise ValueError(
        f"--maximize-best-checkpoint-metric: the best {metric} is the {best} one; leave the "
        "option out"
    )
