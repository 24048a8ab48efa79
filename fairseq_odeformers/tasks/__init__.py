"""Registered tasks; importing this package registers them all."""

from . import long_range_arena, parity  # noqa: F401
