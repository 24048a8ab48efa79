r"""N-ODE Transformer: Baier-Reinio and De Sterck (2020), "N-ODE Transformer: A Depth-Adaptive
Variant of the Transformer Using Neural Ordinary Differential Equations"
(https://arxiv.org/abs/2010.11358).

A block solves for its state from X(0) to X(T_F):

.. math:: dX/dt = \mathrm{FFN}_t(\alpha X(t) + \mathrm{MHSA}_t(X(t))),

Each affine map of the FFN is A x + b + c t, and an adaptive solver takes as many steps as the
sequences need. Read ``naive`` first, the paper's equations, and ``spec``, the choices of a block.
Then read

- dX/dt for batches: ``problem`` defines the problem to solve and the arclength, a regulariser that
  ``criterions/regularizers.py`` adds to the loss; ``layout`` defines the layout of states in memory
  and their affine maps; ``attention`` uses them; and ``field`` is dX/dt itself;
- its solution: ``step`` takes a step of a method from ``modules.tableaus`` and chooses its size;
  ``solver`` and ``adjoint`` compute a solve and its gradients;
- the Transformer: ``block`` (a layer), ``stacks`` of blocks, and ``models``.
"""

from fairseq_odeformers.registry import Family

from . import models  # noqa: F401

FAMILY = Family(
    "N-ODE Transformer", "Baier-Reinio and De Sterck", 2020, color="purple", arxiv="2010.11358"
)
