"""Registered criterions; importing this package registers them all."""

from . import (  # noqa: F401
    bert_pretraining,
    label_smoothed_cross_entropy_with_regularizers,
    sequence_classification,
)
