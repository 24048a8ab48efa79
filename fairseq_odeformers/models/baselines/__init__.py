"""The Transformers that the papers compare with, most of them fairseq's own."""

from . import classifier, language_model, translation, vanilla_transformer  # noqa: F401
