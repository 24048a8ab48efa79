r"""The Transformers with which the papers compare, on fairseq's own layers.

fairseq's layer computes :math:`x' = x + F(\mathrm{LN}(x))` or :math:`x' = \mathrm{LN}(x + F(x))`,
with attention and then an FFN as F. Read ``layers`` first: it defines the baseline of the N-ODE
Transformer, :math:`x' = x + F(x)`, and two baselines of TransJect, ReZero with :math:`x' = x +
\alpha F(x)` and a layer with orthogonal matrices. ``linear_attention`` replaces the softmax. Then
read ``models``, the registered translators, classifiers and language models over these layers.

``modern`` defines the modern layer, as in Llama: RMSNorm, rotary positions in self-attention,
SwiGLU, and no biases. ``naive`` contains its equations, and ``modern_models`` registers its models.
"""

from . import models, modern_models  # noqa: F401
