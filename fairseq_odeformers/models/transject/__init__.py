"""TransJect (Sengupta et al. 2023)."""

from . import classifier, language_model  # noqa: F401
