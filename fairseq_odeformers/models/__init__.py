"""Registered models; importing this package registers them all."""

from . import (  # noqa: F401
    macaron_bert,
    macaron_transformer,
    macaron_transformer_lm,
    transevolve,
)
