"""The Macaron Net (Lu et al. 2019)."""

from . import bert, classifier, language_model, translation  # noqa: F401
