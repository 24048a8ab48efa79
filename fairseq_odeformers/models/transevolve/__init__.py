"""TransEvolve (Dutta et al. 2021)."""

from . import classifier, translation  # noqa: F401
