r"""OT-Transformer: Kan et al. (2025), "Optimal Control for Transformer Architectures: Enhancing
Generalization, Robustness and Efficiency" (https://arxiv.org/abs/2505.13499).

The whole stack of L layers is one vector field. A forward pass takes M steps of Euler's method
along it, with the same weights in each step:

.. math::
    x_{m+1} = x_m + \tfrac1M F(x_m), \quad F = \mathrm{LN} \circ \mathrm{layer}_L \circ \dots
    \circ \mathrm{layer}_1, \quad m = 0, \dots, M - 1

Training minimises the loss of :math:`x_M` plus a transport cost, :math:`\lambda \sum_m \tfrac1M
\|F(x_m)\|^2` per entry of the state. This is the arclength of ``criterions/arclength.py``:
``--arclength-weight`` is :math:`2 \lambda / C` at width C.

Read ``naive``, the paper's equations; ``spec``, the choices of a flow; ``layer``, the layers of F;
``block``, F and its steps; then ``stacks``, the encoder and the decoder, and ``models``, the
registered translator, classifier and language model.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("OT-Transformer", "Kan et al.", 2025, color="sienna", arxiv="2505.13499")
