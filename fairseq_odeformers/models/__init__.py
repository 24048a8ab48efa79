"""Registered models, a folder a paper; importing this package registers them all."""

from . import baselines, macaron, node_transformer, transevolve, transject  # noqa: F401
