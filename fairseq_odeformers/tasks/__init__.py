"""Registered tasks; importing this package registers them all.

Translation, language modelling, masked language modelling and sentence prediction are tasks of
fairseq.
"""

from . import bert_pretraining, long_range_arena, parity  # noqa: F401
