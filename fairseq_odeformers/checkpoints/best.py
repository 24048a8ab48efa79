"""Which validation of a training is the best: the direction of its metric."""

import re

# Metrics that fall while a model improves, by the ends of their names. All others rise.
FALLING = re.compile(
    r"(^|_)(loss|ppl|perplexity|cross_entropy|error|wer|cer|ter|mse|mae|arclength|reconstruction)$"
)


def rises(metric: str) -> bool:
    """Whether a higher value of a validation metric is better, as of accuracy and BLEU."""
    return not FALLING.search(metric)


def check_direction(metric: str, maximize: bool) -> bool:
    """Whether the highest value of a metric is the best.

    Args:
        metric: ``--best-checkpoint-metric``.
        maximize: ``--maximize-best-checkpoint-metric``, which need not be given.

    Raises:
        ValueError: the option is given, but the lowest value is the best.
    """
    if maximize and not rises(metric):
        raise ValueError(
            f"--maximize-best-checkpoint-metric: the best {metric} is the lowest one; leave the "
            "option out"
        )
    return rises(metric)
