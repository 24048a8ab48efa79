"""N-ODE Transformer: A Depth-Adaptive Variant of the Transformer Using Neural Ordinary Differential
Equations (Baier-Reinio and De Sterck 2020).

A block takes a state X(0) to X(T_F), where X'(t) = FFN_t(alpha X(t) + MHSA_t(X(t))) and each affine
map of FFN_t is A x + b + c t; an adaptive solver takes as many steps as the sequences need. In
reading order: ``naive``, the formula and nothing else; ``linear`` and ``attention``, the maps;
``field``, X'; ``layout``, how states lie in memory; ``runge_kutta`` and ``methods``, a step;
``solver`` and ``adjoint``, a solve and its gradients; ``arclength``, the regulariser; ``block``, a
layer; ``classifier`` and ``translation``, the models.
"""

from . import classifier, translation  # noqa: F401
