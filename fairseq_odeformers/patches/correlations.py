"""Correlations of predictions that are all equal."""

import numpy as np


def pearson_and_spearman(original, preds, labels) -> dict[str, float]:
    """fairseq's function; correlations are 0 if all predictions or all labels are equal.

    scikit-learn's ``matthews_corrcoef``, the correlation of classes, is 0 there, too.
    """
    if np.ptp(preds) == 0 or np.ptp(labels) == 0:
        return {"pearson": 0.0, "spearmanr": 0.0, "corr": 0.0}
    return original(preds, labels)
