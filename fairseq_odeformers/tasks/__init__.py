"""Registered tasks; importing this package registers them all."""

from . import bert_pretraining, long_range_arena, parity  # noqa: F401
