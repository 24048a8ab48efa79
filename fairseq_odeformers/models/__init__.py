"""Registered models; importing this package registers them all."""

from . import transevolve  # noqa: F401
