"""Registered criterions; importing this package registers them all."""

from . import sequence_classification  # noqa: F401
