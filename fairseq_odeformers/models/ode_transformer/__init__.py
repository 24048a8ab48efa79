r"""ODE Transformer: a layer as one step of a higher-order Runge-Kutta method (Li et al. 2022).

A Transformer layer with LayerNorm before its sub-layers adds :math:`F(y)` to its input y. This is
one step of Euler's method with the vector field F. A block of order s evaluates the same layer s
times, with no more parameters:

.. math::
    y' = y + \sum_{i=1}^{s} b_i F_i, \quad F_i = F\Big(y + \sum_{j<i} a_{ij} F_j\Big)

In a block of order 2, :math:`F_2 = F(y + F_1)` and :math:`y' = y + \tfrac12 (F_1 + F_2)`. Its
coefficients b may also be learned, or come from a gate that reads :math:`[F_1; F_2]`. The paper's
best model has the gate.

Read ``naive``, the paper's equations; in ``modules``, ``tableaus``, the values of a and b, and
``coefficients``, the sums of slopes; ``common/runge_kutta``, the slopes of fairseq's layers;
``spec``, the choices of a block, and ``layer``, the block; then ``stacks``, the encoder and the
decoder, and ``models``, the registered translator, language model and classifier.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family("ODE Transformer", "Li et al.", 2022, color="orange", arxiv="2203.09176")
