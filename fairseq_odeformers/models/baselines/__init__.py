r"""The Transformers that the papers compare with, on fairseq's own layers.

A layer computes :math:`x' = x + F(\mathrm{LN}(x))` or :math:`x' = \mathrm{LN}(x + F(x))`, with
attention and then an FFN as F. Read ``layers``, its variants: :math:`x' = x + F(x)`, the baseline
of the N-ODE Transformer, and two of TransJect's, ReZero with :math:`x' = x + \alpha F(x)` and the
layer whose matrices are orthogonal; then the models, ``classifier``,
``vanilla_transformer``, ``language_model`` and ``translation``.
"""

from . import classifier, language_model, translation, vanilla_transformer  # noqa: F401
