"""Which validation of a training is the best: the direction of its metric."""

import re

# The ends of the names of metrics that fall while a model improves. All others rise.
FALLING = re.compile(
    r"(^|_)(loss|ppl|perplexity|cross_entropy|error|wer|cer|ter|mse|mae|arclength|reconstruction)$"
)


def rises(metric: str) -> bool:
    """Whether a higher value of a validation metric is better, such as for accuracy and BLEU."""
    return not FALLING.search(metric)


def check_direction(metric: str, maximize: bool) -> bool:
    """Whether the highest value of a metric is the best.

    Args:
        metric: ``--best-checkpoint-metric``.
        maximize: whether ``--maximize-best-checkpoint-metric`` is given; it need not be.

    Raises:
        ValueError: the option is given, but the lowest value is the best.
    """
    if maximize and not rises(metric):
        raise ValueError(
            f"--maximize-best-checkpoint-metric: the best {metric} is the lowest one; leave the "
            "option out"
        )
    return rises(metric)
