"""The N-ODE Transformer (Baier-Reinio and De Sterck 2020)."""

from . import classifier, translation  # noqa: F401
