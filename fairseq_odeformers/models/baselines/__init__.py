r"""The Transformers that the papers compare with, on fairseq's own layers.

A layer of fairseq's computes :math:`x' = x + F(\mathrm{LN}(x))` or :math:`x' = \mathrm{LN}(x +
F(x))`, with attention and then an FFN as F. Read ``layers``, its variants: :math:`x' = x + F(x)`,
the baseline of the N-ODE Transformer, and two baselines of TransJect, ReZero with :math:`x' = x +
\alpha F(x)` and the layer whose matrices are orthogonal; ``linear_attention``, which replaces the
softmax; then ``models``, which stacks the layers and registers translation, classifiers and
language models.

``modern`` is today's layer, Llama's: RMSNorm, rotary positions in self-attention, SwiGLU, and no
biases; ``naive`` has its equations, and ``modern_models`` registers its models.
"""

from . import models, modern_models  # noqa: F401
