"""Correlations of predictions that are all equal."""

import numpy as np


def pearson_and_spearman(original, preds, labels) -> dict[str, float]:
    """Compute fairseq's correlations, or 0 if all predictions or all labels are equal.

    In these cases, scikit-learn's ``matthews_corrcoef``, the correlation of classes, is 0 too.
    """
    if np.ptp(preds) == 0 or np.ptp(labels) == 0:
        return {"pearson": 0.0, "spearmanr": 0.0, "corr": 0.0}
    return original(preds, labels)
