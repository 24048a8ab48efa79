"""Registered models; importing this package registers them all."""

from . import (  # noqa: F401
    baseline_lm,
    macaron_bert,
    macaron_classifier,
    macaron_transformer,
    macaron_transformer_lm,
    node_transformer,
    node_transformer_mt,
    transevolve,
    transevolve_classifier,
    transformer_classifier,
    transformer_prenorm,
    transject,
    transject_lm,
)
