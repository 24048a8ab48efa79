r"""DiffEqFormer: Tong et al. (2025), "Neural ODE Transformers: Analyzing Internal Dynamics and
Adaptive Fine-tuning" (https://arxiv.org/abs/2503.01329).

Every weight of a Transformer layer is a function of depth, a time t from 0 to 1, and the layers are
L steps of Euler's method:

.. math::
    x_{k+1} = x_k + \tfrac1L \big[\mathrm{Attn}_t(\mathrm{LN}_t(x_k))
    + \mathrm{FFN}_t(\mathrm{LN}'_t(x_k))\big], \quad t = \tfrac{k+1}{L}, \quad W(t) = G e(t) + W_0

where e(t) is a small network of t. Read ``naive``, the paper's equations; ``spec``, the choices of
a stack; ``maps``, weights as functions of time; ``branches``, attention and FFN over such maps;
``block``, the steps; then ``stacks``, the encoder and the decoders, and ``models``, the registered
models and their options.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("DiffEqFormer", "Tong et al.", 2025, color="wine", arxiv="2503.01329")
